//! One plain HTTP/1.1 connection that is moved along by whoever made the call.
//!
//! An HTTP client usually gives each connection a task of its own, which hands every chunk to the task that reads the answer and
//! waits to be asked for the next: two switches of tasks per token. Here the reader polls the connection itself. The two halves then
//! wake each other within one poll, which [`Bell`] keeps from reaching the scheduler.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use runloom_ports::bell::Bell;
use tokio::net::TcpStream;

use crate::gather::Gathered;

/// How often a connection is polled in a row before others get their turn.
const MAX_ROUNDS: usize = 64;

/// The connection's end of a call: what it may not send it gives back.
pub(crate) type Unanswered = hyper::client::conn::TrySendError<Request<reqwest::Body>>;

/// A connection and the right to send on it.
pub(crate) struct Line {
    sender: SendRequest<reqwest::Body>,
    /// `None` when it has ended. Dropped then: that gives back a request which it has not begun to send.
    connection: Option<Box<Connection<Gathered, reqwest::Body>>>,
    /// Rings when the connection may have something new.
    bell: Bell,
}

impl Line {
    /// Speaks HTTP/1.1 on an open socket.
    pub(crate) async fn begin(socket: TokioIo<TcpStream>) -> hyper::Result<Self> {
        let (sender, connection) =
            hyper::client::conn::http1::handshake(Gathered::new(socket)).await?;
        Ok(Self {
            sender,
            connection: Some(Box::new(connection)),
            bell: Bell::default(),
        })
    }

    /// Sends a request and waits for the head of its answer. A request of which nothing was sent comes back with the error.
    pub(crate) async fn send(
        &mut self,
        request: Request<reqwest::Body>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        std::future::poll_fn(|cx| self.poll(cx, |own| answer.as_mut().poll(own))).await
    }

    /// The next bytes of an answer; `None` at its end.
    pub(crate) fn poll_chunk(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            let frame =
                std::task::ready!(self.poll(cx, |own| Pin::new(&mut *incoming).poll_frame(own)));
            match frame.map(|frame| frame.map(hyper::body::Frame::into_data)) {
                Some(Ok(Ok(bytes))) => return Poll::Ready(Some(Ok(bytes))),
                // Trailers, of which no API has any.
                Some(Ok(Err(_))) => {}
                Some(Err(failure)) => return Poll::Ready(Some(Err(failure))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// True when another request can be sent: the last answer was read to its end, and the other side has not hung up.
    pub(crate) fn is_free(&mut self) -> bool {
        self.advance();
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Lets the connection work until `ask` has what it wants or nothing moves any more.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        for _ in 0..MAX_ROUNDS {
            std::task::ready!(self.bell.poll_rung(cx));
            self.advance();
            if let Poll::Ready(found) = ask(&mut self.bell.context()) {
                // There may be more: the next one who asks shall look.
                self.bell.set();
                return Poll::Ready(found);
            }
        }
        self.bell.set();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn advance(&mut self) {
        // What went wrong is told to whoever waits for the answer or reads it.
        if let Some(connection) = &mut self.connection
            && Pin::new(&mut **connection)
                .poll(&mut self.bell.context())
                .is_ready()
        {
            self.connection = None;
        }
    }

    /// Nobody reads it for now.
    pub(crate) fn rest(&self) {
        self.bell.forget();
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Line")
            .field("open", &self.connection.is_some())
            .finish_non_exhaustive()
    }
}
