//! The plain HTTP/1.1 connections of a process: opened when there is none, kept for the next call.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

use crate::line::Line;

/// How many unused connections to one place are kept.
pub(crate) const MAX_IDLE: usize = 64;

/// How long an unused connection is kept.
pub(crate) const IDLE: Duration = Duration::from_secs(90);

/// After so long without a byte a connection asks whether the other side is still there, and how often unused ones are looked through.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(30);

/// How soon and how often it asks again, and how long what was sent may go unacknowledged.
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(15);
const KEEPALIVE_TIMES: u32 = 3;
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// How long an answer whose last event was read may take to end, so that its connection can be used again.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// How many more chunks such an answer may have.
pub(crate) const LAST_CHUNKS: usize = 8;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum LineError {
    /// No connection within the time for it.
    TooLate,
    /// No connection.
    Unreachable(Box<dyn Error + Send + Sync>),
    /// The connection broke before the answer.
    Broken(hyper::Error),
}

/// The connections that were opened with the same settings.
#[derive(Debug)]
pub(crate) struct Lines {
    connector: HttpConnector,
    connect: Duration,
    idle: Mutex<Unused>,
}

#[derive(Debug, Default)]
struct Unused {
    lines: HashMap<Authority, Vec<Idle>>,
    /// A task looks after them.
    swept: bool,
}

#[derive(Debug)]
struct Idle {
    line: Line,
    since: Instant,
}

impl Lines {
    /// No connection yet.
    pub(crate) fn new(connect: Duration) -> Arc<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEPALIVE));
        connector.set_keepalive_interval(Some(KEEPALIVE_AGAIN));
        connector.set_keepalive_retries(Some(KEEPALIVE_TIMES));
        #[cfg(target_os = "linux")]
        connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        connector.set_connect_timeout(Some(connect));
        Arc::new(Self {
            connector,
            connect,
            idle: Mutex::default(),
        })
    }

    /// Where a call goes to, if it can go over a line: plain HTTP, no credentials in the URL, and nothing in it that has to be read twice
    /// (`..`, a port that is none); others are left to a library that knows every form of a URL.
    pub(crate) fn target(url: &str) -> Option<Uri> {
        let target = Uri::try_from(url).ok()?;
        let authority = target.authority()?;
        let plain = target.scheme() == Some(&Scheme::HTTP);
        let host = authority.host();
        let whole = authority.as_str();
        let is_place = !host.is_empty()
            && (whole == host || whole == format!("{host}:{}", authority.port_u16()?));
        let path = target.path();
        let is_path = !path.contains("/.") && !path.contains(|odd| "\\\"{}<>^`|".contains(odd));
        (plain && is_place && is_path).then_some(target)
    }

    /// Posts to a target, on a connection that is kept if there is one.
    pub(crate) async fn post(
        self: &Arc<Self>,
        target: Uri,
        headers: HeaderMap,
        body: reqwest::Body,
    ) -> Result<Response<LineBody>, LineError> {
        let Some(place) = target.authority().cloned() else {
            return Err(LineError::Unreachable("the URL names no host".into()));
        };
        let mut request = request(&target, &place, headers, body);
        while let Some(mut line) = self.take(&place) {
            match line.send(request).await {
                Ok(answer) => return Ok(self.answered(line, place, answer)),
                // Closed by the other side before anything was sent.
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(LineError::Broken(failure.into_error())),
                },
            }
        }
        let mut line = self.open(target).await?;
        match line.send(request).await {
            Ok(answer) => Ok(self.answered(line, place, answer)),
            Err(failure) => Err(LineError::Broken(failure.into_error())),
        }
    }

    fn answered(
        self: &Arc<Self>,
        line: Line,
        place: Authority,
        answer: Response<Incoming>,
    ) -> Response<LineBody> {
        answer.map(|incoming| LineBody {
            incoming,
            line: Some(line),
            home: Arc::clone(self),
            place,
        })
    }

    async fn open(&self, target: Uri) -> Result<Line, LineError> {
        let socket = timeout(self.connect, self.connector.clone().oneshot(target))
            .await
            .map_err(|_| LineError::TooLate)?
            .map_err(|failure| LineError::Unreachable(failure.into()))?;
        Line::begin(socket).await.map_err(LineError::Broken)
    }

    /// The connection that was used last; those that were closed meanwhile are dropped.
    fn take(&self, place: &Authority) -> Option<Line> {
        loop {
            let Idle { mut line, since } = self.unused().lines.get_mut(place)?.pop()?;
            if since.elapsed() < IDLE && line.is_free() {
                return Some(line);
            }
        }
    }

    /// Keeps a connection whose answer was read to its end.
    fn keep(self: &Arc<Self>, place: Authority, mut line: Line) {
        if !line.is_free() {
            return;
        }
        line.rest();
        let mut unused = self.unused();
        let lines = unused.lines.entry(place).or_default();
        if lines.len() < MAX_IDLE {
            let since = Instant::now();
            lines.push(Idle { line, since });
        }
        let begins = !std::mem::replace(&mut unused.swept, true);
        drop(unused);
        if begins {
            spawn(Sweep(Arc::downgrade(self)).go_on());
        }
    }

    /// Drops what is unused for long or was closed by the other side; false when nothing is left.
    fn sweep(&self) -> bool {
        let mut unused = self.unused();
        unused.lines.retain(|_, lines| {
            lines.retain_mut(|idle| idle.since.elapsed() < IDLE && idle.line.is_free());
            !lines.is_empty()
        });
        // Decided under the lock: whoever keeps the next one knows whether it is looked after.
        unused.swept = !unused.lines.is_empty();
        unused.swept
    }

    fn unused(&self) -> MutexGuard<'_, Unused> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As a server gets it: path and query on the first line, the host among the headers.
fn request(
    target: &Uri,
    place: &Authority,
    mut headers: HeaderMap,
    body: reqwest::Body,
) -> Request<reqwest::Body> {
    headers
        .entry(header::ACCEPT)
        .or_insert(HeaderValue::from_static("*/*"));
    headers
        .entry(header::USER_AGENT)
        .or_insert(HeaderValue::from_static(crate::clients::USER_AGENT));
    let host = match place.port_u16() {
        Some(80) => place.host(),
        _ => place.as_str(),
    };
    if let Ok(host) = HeaderValue::from_str(host) {
        headers.entry(header::HOST).or_insert(host);
    }
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers;
    *request.uri_mut() = target
        .path_and_query()
        .map_or_else(Uri::default, |path| Uri::from(path.clone()));
    request
}

/// Looks after the unused connections until there are none.
struct Sweep(Weak<Lines>);

impl Sweep {
    async fn go_on(mut self) {
        loop {
            tokio::time::sleep(KEEPALIVE).await;
            let Some(lines) = self.0.upgrade() else {
                return;
            };
            if !lines.sweep() {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for Sweep {
    /// The runtime ends before the process does: whoever keeps the next connection begins anew.
    fn drop(&mut self) {
        if let Some(lines) = self.0.upgrade() {
            lines.unused().swept = false;
        }
    }
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[expect(
        clippy::disallowed_methods,
        reason = "belongs to the connections, which every server of the process shares; ends by itself"
    )]
    drop(tokio::spawn(task));
}

/// The answer that a connection is busy with. Dropped before its end it closes the connection.
#[derive(Debug)]
pub(crate) struct LineBody {
    incoming: Incoming,
    /// `None` after the end.
    line: Option<Line>,
    home: Arc<Lines>,
    place: Authority,
}

impl LineBody {
    /// The next bytes; `None` at the end.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        let Some(line) = &mut self.line else {
            return Poll::Ready(None);
        };
        let chunk = std::task::ready!(line.poll_chunk(&mut self.incoming, cx));
        if !matches!(chunk, Some(Ok(_)))
            && let Some(line) = self.line.take()
            && chunk.is_none()
        {
            self.home.keep(self.place.clone(), line);
        }
        Poll::Ready(chunk)
    }

    /// Nothing more of this answer is wanted; if only its end is missing the connection is kept.
    pub(crate) fn release(mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for _ in 0..LAST_CHUNKS {
            match self.poll_chunk(&mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return,
                Poll::Pending => {
                    // Many servers send the end by itself, some microseconds later.
                    spawn(async move {
                        let _ = timeout(LAST_BYTES, self.end()).await;
                    });
                    return;
                }
            }
        }
    }

    async fn end(mut self) {
        for _ in 0..LAST_CHUNKS {
            let chunk = std::future::poll_fn(|cx| self.poll_chunk(cx)).await;
            if !matches!(chunk, Some(Ok(_))) {
                return;
            }
        }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
