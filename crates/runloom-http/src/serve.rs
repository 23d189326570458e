//! Connections: limited in number, with a deadline for request heads, closed in order.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use runloom_engine::metrics::METRICS;
use runloom_ports::shutdown::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

use crate::address_limit::{AddressLimit, AddressPermit};
use crate::error::too_many_connections;
use crate::lingering_close::DiscardLimits;
use crate::socket::Socket;

/// Minimum pause between warnings about the connection limit.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// Length of the kernel's accept queue, as far as the kernel allows. A client that finds it full retries after a
/// second or later.
const BACKLOG: u32 = 4_096;

/// Connections accepted before other tasks run.
const ACCEPT_BATCH: usize = 1_024;

/// Timeout of a request head, and how long an idle connection is kept: far longer than the connection pools of the
/// Python and TypeScript SDKs keep theirs, which would otherwise write to a connection that is being closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of the first request head of a connection: a silent client must not occupy a connection for long.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time that a refused connection is kept for its response.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause after a failed accept. The usual cause is the limit of open files, which lasts a while.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on `HOST:PORT`.
///
/// # Errors
/// The address is invalid or not available.
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
    // A restarted server must not wait for connections of the previous process.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Maximum connections of a listener at once.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Of all clients; further clients wait in the accept queue.
    pub total: usize,
    /// Of one client address, or of one IPv6 /64 network; further ones are answered with 503.
    pub per_address: usize,
}

impl ConnectionLimits {
    /// The same limit in total and per address, for listeners with one trusted client.
    #[must_use]
    pub fn total(total: usize) -> Self {
        Self {
            total,
            per_address: total,
        }
    }
}

/// Serves connections within `limits` until the shutdown closes connections. Then it stops accepting, and open requests
/// have `drain` to end.
///
/// # Errors
/// The listener has no local address.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    shutdown: Shutdown,
    drain: Duration,
) -> io::Result<()> {
    let mut slots = ConnectionLimit::new(limits.total);
    let addresses = Arc::new(AddressLimit::new(limits.per_address));
    // Owned here and not by the process's tasks: their number is bounded, and none may outlive this call.
    let mut connections = JoinSet::new();
    let accepting = async {
        let mut in_a_row = 0;
        loop {
            tokio::select! {
                () = shutdown.connections_closed() => break,
                accepted = accept(&listener, &mut slots) => {
                    let (router, shutdown) = (router.clone(), shutdown.clone());
                    match addresses.take(accepted.address.ip()) {
                        Some(place) => {
                            connections.spawn(connection(accepted, router, shutdown, place));
                        }
                        None => {
                            connections.spawn(refuse(accepted));
                        }
                    }
                    in_a_row += 1;
                }
                Some(_) = connections.join_next() => {}
            }
            if in_a_row == ACCEPT_BATCH {
                in_a_row = 0;
                tokio::task::yield_now().await;
            }
        }
    };
    // With thousands of busy streams this task runs seldom. With tokio's default budget it would accept too few
    // connections per turn, and the accept queue would fill up.
    unconstrained(accepting).await;
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, ended).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "closing connections after the drain timeout"
        );
    }
    connections.shutdown().await;
    Ok(())
}

/// Connection permits.
struct ConnectionLimit {
    free: Arc<Semaphore>,
    max: usize,
    /// When the limit was last logged.
    said: Option<Instant>,
}

impl ConnectionLimit {
    fn new(max: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            max,
            said: None,
        }
    }

    /// Waits for a permit. The semaphore is never closed.
    async fn take(&mut self) -> Option<OwnedSemaphorePermit> {
        if self.free.available_permits() == 0 {
            self.warn_of_limit();
        }
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    fn warn_of_limit(&mut self) {
        if self.said.is_none_or(|said| said.elapsed() >= WARNING_PAUSE) {
            self.said = Some(Instant::now());
            tracing::warn!(
                max_connections = self.max,
                "connection limit reached (server.max_connections); further clients wait"
            );
        }
    }
}

/// The permit of an open connection.
struct ConnectionPermit(
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    Option<OwnedSemaphorePermit>,
);

impl ConnectionPermit {
    fn new(permit: Option<OwnedSemaphorePermit>) -> Self {
        METRICS.connections.add(1);
        Self(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        METRICS.connections.add(-1);
    }
}

/// A connection before its first request.
struct Accepted {
    stream: TcpStream,
    address: SocketAddr,
    permit: ConnectionPermit,
}

/// Answers a connection over the limit of its address, and closes it.
async fn refuse(accepted: Accepted) {
    let Accepted {
        mut stream,
        address,
        permit: _permit,
    } = accepted;
    tracing::debug!(%address, "connection refused (server.max_connections_per_address)");
    let exchange = async {
        stream.write_all(&too_many_connections()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection before the client reads the response.
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    if let Ok(Err(error)) = tokio::time::timeout(REFUSAL_TIMEOUT, exchange).await {
        tracing::debug!(%error, "refused connection failed");
    }
}

async fn accept(listener: &TcpListener, slots: &mut ConnectionLimit) -> Accepted {
    let permit = slots.take().await;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                return Accepted {
                    stream,
                    address,
                    permit: ConnectionPermit::new(permit),
                };
            }
            // The client disconnected before accept.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(accepted: Accepted, router: Router, shutdown: Shutdown, _place: AddressPermit) {
    let Accepted {
        stream,
        permit: _permit,
        ..
    } = accepted;
    // Events are small and must not wait for each other (Nagle's algorithm).
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY failed");
    }
    let lingering_close = Arc::new(OnceLock::new());
    let socket = Socket::new(stream, Arc::clone(&lingering_close));
    let router = TowerToHyperService::new(router);
    let has_request = Arc::new(AtomicBool::new(false));
    let first = Arc::clone(&has_request);
    let service = service_fn(move |request| {
        first.store(true, Ordering::Relaxed);
        let (answer, lingering_close) = (router.call(request), Arc::clone(&lingering_close));
        async move {
            let answer = answer.await?;
            if let Some(patience) = answer.extensions().get::<DiscardLimits>() {
                // Only once: such a response is the connection's last.
                let _ = lingering_close.set(*patience);
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
    let silent = async {
        tokio::time::sleep(FIRST_HEAD_TIMEOUT).await;
        if has_request.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        ended = whole => if let Err(error) = ended {
            // Errors of single connections are normal.
            tracing::debug!(%error, "connection failed");
        },
        () = silent => tracing::debug!("connection without a request closed"),
    }
}
