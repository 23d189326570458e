//! A way to a service that can be cut: what a restart or a broken network looks like from here.

use std::net::SocketAddr;

use runloom_core::tasks::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Listens on a port of its own and passes everything on to the service.
pub(crate) struct Gate {
    address: SocketAddr,
    state: watch::Sender<State>,
    visitors: watch::Sender<Visitors>,
    tasks: Tasks,
}

#[derive(Clone, Copy, Default)]
struct Visitors {
    inside: usize,
    turned_away: usize,
}

#[derive(Clone, Copy)]
struct State {
    open: bool,
    /// Connections of an older generation are cut.
    generation: u64,
}

impl Gate {
    /// An open gate.
    pub(crate) async fn to(service: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, _) = watch::channel(State {
            open: true,
            generation: 0,
        });
        let (visitors, _) = watch::channel(Visitors::default());
        let tasks = Tasks::default();
        let (service, spawner) = (service.to_owned(), tasks.clone());
        let (watched, counted) = (state.clone(), visitors.clone());
        tasks.spawn_detached("gate", async move {
            while let Ok((here, _)) = listener.accept().await {
                let entered = *watched.borrow();
                if !entered.open {
                    counted.send_modify(|visitors| visitors.turned_away += 1);
                    continue;
                }
                counted.send_modify(|visitors| visitors.inside += 1);
                let (service, counted) = (service.clone(), counted.clone());
                let mut watched = watched.subscribe();
                spawner.spawn_detached("passage", async move {
                    tokio::select! {
                        biased;
                        _ = watched.wait_for(|state| state.generation != entered.generation) => {}
                        () = pass(here, &service) => {}
                    }
                    counted.send_modify(|visitors| visitors.inside -= 1);
                });
            }
        });
        Self {
            address,
            state,
            visitors,
            tasks,
        }
    }

    /// `url`, but through the gate.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(super::authority(url), &self.address.to_string())
    }

    /// Cuts what is connected; who comes again is let through.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Cuts what is connected, and turns away all who come until it is opened.
    pub(crate) async fn close(&self) {
        self.state.send_modify(|state| {
            state.open = false;
            state.generation += 1;
        });
        let mut visitors = self.visitors.subscribe();
        let left = visitors.wait_for(|visitors| visitors.inside == 0);
        super::in_time("all have left", left).await.unwrap();
    }

    /// Waits until somebody is turned away.
    pub(crate) async fn turned_away(&self) {
        let before = self.visitors.borrow().turned_away;
        let mut visitors = self.visitors.subscribe();
        let came = visitors.wait_for(|visitors| visitors.turned_away > before);
        super::in_time("somebody comes", came).await.unwrap();
    }

    pub(crate) fn open(&self) {
        self.state.send_modify(|state| state.open = true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.tasks.kill.cancel();
    }
}

async fn pass(mut here: TcpStream, service: &str) {
    let mut there = TcpStream::connect(service)
        .await
        .unwrap_or_else(|error| panic!("nothing listens on {service}: {error}"));
    let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
}
