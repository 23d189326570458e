//! Lingering close: a client that still sends a refused body gets time to read the response.
//!
//! The kernel resets a connection that is closed with unread bytes, and a client that writes its whole request before
//! it reads then sees a broken pipe instead of the response. After such a response the connection's
//! [`Socket`](crate::socket::Socket) discards incoming bytes, within limits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

/// Bodies of this size are not watched: they arrive with the request head.
const SMALL_BYTES: u64 = 4 * 1024;

/// Limits of discarding an unread body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiscardLimits {
    /// Maximum bytes.
    pub(crate) bytes: u64,
    /// Maximum time.
    pub(crate) time: Duration,
}

impl DiscardLimits {
    /// Limits for authenticated clients: any ordinary body, also over a slow connection.
    const AUTHENTICATED: Self = Self {
        bytes: 64 * 1024 * 1024,
        time: Duration::from_secs(10),
    };

    /// Limits for others: enough to tell a client that its key is wrong, and far less than the time that an idle
    /// connection is kept.
    const ANONYMOUS: Self = Self {
        bytes: 16 * 1024 * 1024,
        time: Duration::from_secs(5),
    };
}

/// Records whether a request body was read to its end, and whether its sender authenticated.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyWatch(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    to_the_end: AtomicBool,
    known: AtomicBool,
}

impl BodyWatch {
    /// Watches the body of a request, unless it is small. Guards find the watch in the request's extensions.
    pub(crate) fn over(mut request: Request) -> (Request, Option<Self>) {
        let most = request.body().size_hint().upper();
        if most.is_some_and(|most| most <= SMALL_BYTES) {
            return (request, None);
        }
        let watch = Self::default();
        request.extensions_mut().insert(watch.clone());
        let watched = watch.clone();
        let request = request.map(|body| Body::new(WatchedBody { body, watch }));
        (request, Some(watched))
    }

    /// Marks the sender as authenticated.
    pub(crate) fn mark_authenticated(&self) {
        self.0.known.store(true, Ordering::Relaxed);
    }

    /// Tells the connection what to do after this response.
    pub(crate) fn finish(&self, response: &mut Response) {
        if self.0.to_the_end.load(Ordering::Relaxed) {
            return;
        }
        // No request can follow a body that is discarded.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        let known = self.0.known.load(Ordering::Relaxed);
        let patience = if known {
            DiscardLimits::AUTHENTICATED
        } else {
            DiscardLimits::ANONYMOUS
        };
        response.extensions_mut().insert(patience);
    }
}

/// A body that records its end.
struct WatchedBody {
    body: Body,
    watch: BodyWatch,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        // A body with a known length ends with its last byte; no further read follows.
        if frame.is_none() || this.body.is_end_stream() {
            this.watch.0.to_the_end.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
