//! Bodies that are refused before they were read: whoever still sends one is given time to see why.
//!
//! The kernel resets a connection that is closed with bytes unread, and a client that writes its whole request before it reads (most do) then
//! sees a broken pipe instead of the answer. So after such an answer the connection's [`Socket`](crate::socket::Socket) reads on and throws away
//! what comes, within bounds.

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

/// Bodies that are not watched: they come with the head of their request, and what nobody wants of them is dropped in one piece.
const SMALL_BYTES: u64 = 4 * 1024;

/// How much, and for how long, is read of a body that nobody wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Bytes at most.
    pub(crate) bytes: u64,
    /// Time at most.
    pub(crate) time: Duration,
}

impl Patience {
    /// For whoever has shown a credential: any body that is not absurd, also over a slow line.
    const KNOWN: Self = Self {
        bytes: 64 * 1024 * 1024,
        time: Duration::from_secs(10),
    };

    /// For everybody else: enough to tell a client on a good line that its key is wrong, and far less than the time that an idle
    /// connection is kept anyway.
    const STRANGER: Self = Self {
        bytes: 16 * 1024 * 1024,
        time: Duration::from_secs(5),
    };
}

/// Knows whether a request's body was read to its end, and whose it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    to_the_end: AtomicBool,
    known: AtomicBool,
}

impl Watch {
    /// Watches the request's body, if it has one worth it. Guards find the watch in the request's extensions.
    pub(crate) fn over(mut request: Request) -> (Request, Option<Self>) {
        let most = request.body().size_hint().upper();
        if most.is_some_and(|most| most <= SMALL_BYTES) {
            return (request, None);
        }
        let watch = Self::default();
        request.extensions_mut().insert(watch.clone());
        let watched = watch.clone();
        let request = request.map(|body| Body::new(Watched { body, watch }));
        (request, Some(watched))
    }

    /// The sender has shown a credential.
    pub(crate) fn knows_the_sender(&self) {
        self.0.known.store(true, Ordering::Relaxed);
    }

    /// Tells the connection what to do after this answer.
    pub(crate) fn finish(&self, response: &mut Response) {
        if self.0.to_the_end.load(Ordering::Relaxed) {
            return;
        }
        // Nothing can follow a body of which the rest is thrown away.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        let known = self.0.known.load(Ordering::Relaxed);
        let patience = if known {
            Patience::KNOWN
        } else {
            Patience::STRANGER
        };
        response.extensions_mut().insert(patience);
    }
}

/// A body that notes its end.
struct Watched {
    body: Body,
    watch: Watch,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        // A body with an announced length ends with its last byte, and nobody asks for more.
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
