//! Connections: accepted up to a cap, given a deadline for their headers, and ended in order.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use runloom_engine::metrics::METRICS;
use runloom_ports::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

use crate::socket::Socket;
use crate::unread::Patience;

/// How often it is said that there are too many connections.
const SAID_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Connections that wait in the kernel until they are accepted, as far as it allows so many. A client that finds it full tries again
/// a second later at the earliest.
const BACKLOG: u32 = 4_096;

/// Connections that are accepted before other tasks have their turn.
const ACCEPTED_IN_A_ROW: usize = 1_024;

/// How long a client may take to send the head of a request, so that slow ones do not hold connections for ever. The same
/// clock runs on an idle connection, so it is also how long one is kept: far longer than the pools of the Python and
/// TypeScript SDKs keep theirs, which would otherwise write into a connection that is just being closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after a failed accept: the usual cause is too many open files, and that does not pass at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on an address, or a name and a port.
///
/// # Errors
/// When it is none, or none that is free.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut failed = None;
    for address in tokio::net::lookup_host(address).await? {
        match listen_on(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::new(ErrorKind::NotFound, "the name has no address")))
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A server that starts again must not wait for the connections of the one before.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `max_connections` at once until the shutdown closes connections; then it stops accepting, and open requests have
/// `drain` to end before they are closed. Further clients wait in the kernel's backlog.
///
/// # Errors
/// When the listener has no address any more, that is, never in practice.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    max_connections: usize,
    shutdown: Shutdown,
    drain: Duration,
) -> io::Result<()> {
    let mut slots = Slots::new(max_connections);
    // Owned here and not by the process's tasks: their number is bounded, and none may outlive this call.
    let mut connections = JoinSet::new();
    let accepting = async {
        let mut in_a_row = 0;
        loop {
            tokio::select! {
                () = shutdown.connections_closed() => break,
                (stream, slot) = accept(&listener, &mut slots) => {
                    connections.spawn(connection(stream, router.clone(), shutdown.clone(), slot));
                    in_a_row += 1;
                }
                Some(_) = connections.join_next() => {}
            }
            if in_a_row == ACCEPTED_IN_A_ROW {
                in_a_row = 0;
                tokio::task::yield_now().await;
            }
        }
    };
    // Where thousands of streams are busy the turn of one task comes seldom, and with the usual budget it would accept so few of those
    // who wait that the others find the backlog full.
    unconstrained(accepting).await;
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, ended).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "closing connections that did not end in time"
        );
    }
    connections.shutdown().await;
    Ok(())
}

/// Places for connections.
struct Slots {
    free: Arc<Semaphore>,
    max: usize,
    /// When it was last said that all are taken.
    said: Option<Instant>,
}

impl Slots {
    fn new(max: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            max,
            said: None,
        }
    }

    /// Waits for a place. The semaphore is never closed, so there is always a permit in the end.
    async fn take(&mut self) -> Option<OwnedSemaphorePermit> {
        if self.free.available_permits() == 0 {
            self.say();
        }
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    fn say(&mut self) {
        if self
            .said
            .is_none_or(|said| said.elapsed() >= SAID_AGAIN_AFTER)
        {
            self.said = Some(Instant::now());
            tracing::warn!(
                max_connections = self.max,
                "as many connections are open as server.max_connections allows; further clients wait"
            );
        }
    }
}

/// The place that an open connection takes.
struct Slot(
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    Option<OwnedSemaphorePermit>,
);

impl Slot {
    fn new(permit: Option<OwnedSemaphorePermit>) -> Self {
        METRICS.connections.add(1);
        Self(permit)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        METRICS.connections.add(-1);
    }
}

async fn accept(listener: &TcpListener, slots: &mut Slots) -> (TcpStream, Slot) {
    let permit = slots.take().await;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, Slot::new(permit)),
            // The client has thought better of it.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, shutdown: Shutdown, _slot: Slot) {
    // Events are small and must not wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's algorithm");
    }
    let unread = Arc::new(OnceLock::new());
    let socket = Socket::new(stream, Arc::clone(&unread));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        let (answer, unread) = (router.call(request), Arc::clone(&unread));
        async move {
            let answer = answer.await?;
            if let Some(patience) = answer.extensions().get::<Patience>() {
                // Only once: such an answer is the connection's last.
                let _ = unread.set(*patience);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(socket, service);
    let whole = async {
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.connections_closed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = whole.await {
        // Clients come and go; it is not the server's failure.
        tracing::debug!(%error, "a connection ended early");
    }
}
