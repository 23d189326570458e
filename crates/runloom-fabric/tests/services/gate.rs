//! A way to a service that can be cut, slowed down or stopped: what a restart or a broken network looks like from here.

use std::net::SocketAddr;
use std::time::Duration;

use runloom_ports::tasks::Tasks;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
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
    pace: Pace,
}

/// How fast what is connected gets through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Free,
    /// Every packet is late.
    Late(Duration),
    /// Nothing gets through, and nobody is told.
    Stopped,
}

impl Gate {
    /// An open gate.
    pub(crate) async fn to(service: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, _) = watch::channel(State {
            open: true,
            generation: 0,
            pace: Pace::Free,
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
                let (mut watched, pace) = (watched.subscribe(), watched.subscribe());
                spawner.spawn_detached("passage", async move {
                    tokio::select! {
                        biased;
                        _ = watched.wait_for(|state| state.generation != entered.generation) => {}
                        () = pass(here, &service, pace) => {}
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

    /// From here on, for those who are connected and those who come.
    pub(crate) fn pace(&self, pace: Pace) {
        self.state.send_modify(|state| state.pace = pace);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.tasks.kill.cancel();
    }
}

/// Passes everything on. When nothing listens there, the visitor is turned away, as the service's machine would do it.
async fn pass(here: TcpStream, service: &str, pace: watch::Receiver<State>) {
    let Ok(there) = TcpStream::connect(service).await else {
        return;
    };
    let _ = (here.set_nodelay(true), there.set_nodelay(true));
    let ((from_here, to_here), (from_there, to_there)) = (here.into_split(), there.into_split());
    tokio::join!(
        carry(from_here, to_there, pace.clone()),
        carry(from_there, to_here, pace)
    );
}

/// One direction, to its end.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let late = match state.borrow_and_update().pace {
            Pace::Late(late) => late,
            Pace::Free | Pace::Stopped => Duration::ZERO,
        };
        if !late.is_zero() {
            tokio::time::sleep(late).await;
        }
        let passable = state.wait_for(|state| state.pace != Pace::Stopped);
        if passable.await.is_err() || to.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
