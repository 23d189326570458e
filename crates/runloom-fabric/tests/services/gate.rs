//! TCP proxy in front of a service that can cut, delay or stall connections, to simulate restarts and network faults.

use std::net::SocketAddr;
use std::time::Duration;

use runloom_ports::tasks::Tasks;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Listens on a port of its own and forwards to the service.
pub(crate) struct Gate {
    address: SocketAddr,
    state: watch::Sender<State>,
    connections: watch::Sender<Connections>,
    tasks: Tasks,
}

#[derive(Clone, Copy, Default)]
struct Connections {
    open: usize,
    refused: usize,
}

#[derive(Clone, Copy)]
struct State {
    open: bool,
    /// Connections of an older generation are cut.
    generation: u64,
    pace: Pace,
}

/// Speed of forwarding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Free,
    /// Every packet is delayed.
    Late(Duration),
    /// Nothing is forwarded, and connections stay open.
    Stopped,
}

impl Gate {
    /// Starts a proxy that accepts connections.
    pub(crate) async fn to(service: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, _) = watch::channel(State {
            open: true,
            generation: 0,
            pace: Pace::Free,
        });
        let (connections, _) = watch::channel(Connections::default());
        let tasks = Tasks::default();
        let (service, spawner) = (service.to_owned(), tasks.clone());
        let (watched, counted) = (state.clone(), connections.clone());
        tasks.spawn_detached("gate", async move {
            while let Ok((here, _)) = listener.accept().await {
                let entered = *watched.borrow();
                if !entered.open {
                    counted.send_modify(|connections| connections.refused += 1);
                    continue;
                }
                counted.send_modify(|connections| connections.open += 1);
                let (service, counted) = (service.clone(), counted.clone());
                let (mut watched, pace) = (watched.subscribe(), watched.subscribe());
                spawner.spawn_detached("gate_connection", async move {
                    tokio::select! {
                        biased;
                        _ = watched.wait_for(|state| state.generation != entered.generation) => {}
                        () = forward(here, &service, pace) => {}
                    }
                    counted.send_modify(|connections| connections.open -= 1);
                });
            }
        });
        Self {
            address,
            state,
            connections,
            tasks,
        }
    }

    /// `url` with the proxy's address.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(super::authority(url), &self.address.to_string())
    }

    /// Cuts open connections; new ones are accepted.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Cuts open connections and refuses new ones until [`Self::open`].
    pub(crate) async fn close(&self) {
        self.state.send_modify(|state| {
            state.open = false;
            state.generation += 1;
        });
        let mut connections = self.connections.subscribe();
        let closed = connections.wait_for(|connections| connections.open == 0);
        super::in_time("all connections are closed", closed)
            .await
            .unwrap();
    }

    /// Waits until a connection is refused.
    pub(crate) async fn refused(&self) {
        let before = self.connections.borrow().refused;
        let mut connections = self.connections.subscribe();
        let refused = connections.wait_for(|connections| connections.refused > before);
        super::in_time("a connection is refused", refused)
            .await
            .unwrap();
    }

    pub(crate) fn open(&self) {
        self.state.send_modify(|state| state.open = true);
    }

    /// Sets the speed of open and new connections.
    pub(crate) fn pace(&self, pace: Pace) {
        self.state.send_modify(|state| state.pace = pace);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.tasks.shutdown.interrupt();
    }
}

/// Forwards both directions. Closes the connection when the service is not listening.
async fn forward(here: TcpStream, service: &str, pace: watch::Receiver<State>) {
    let Ok(there) = TcpStream::connect(service).await else {
        return;
    };
    let _ = (here.set_nodelay(true), there.set_nodelay(true));
    let ((from_here, to_here), (from_there, to_there)) = (here.into_split(), there.into_split());
    tokio::join!(
        copy(from_here, to_there, pace.clone()),
        copy(from_there, to_here, pace)
    );
}

/// Copies one direction to its end.
async fn copy(
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
