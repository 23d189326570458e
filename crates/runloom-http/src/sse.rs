//! Server-sent events: stored frames unchanged, heartbeats in silence, and an end when the server stops.
//!
//! A subscriber is one stream that its connection polls: no task, copy or serialisation per event.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;
use runloom_ports::shutdown::Shutdown;
use runloom_service::error::Error;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::error::Answer;
use crate::extract::{QueryPairs, digits};

/// The first bytes: they make proxies forward the response at once and set the browser's reconnect delay. They are
/// part of the first frame, because some parsers report an event for a frame that has only `retry`.
const OPENING: Bytes = Bytes::from_static(b"retry: 500\n");

/// Ends a frame.
const FRAME_END: Bytes = Bytes::from_static(b"\n");

/// A comment that clients skip.
const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");

/// The event after which a client resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The number of the event; 0 is the start.
    pub(crate) after: u64,
    pub(crate) source: CursorSource,
}

/// The part of a request that has the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorSource {
    /// `?lastSeq=`, or nothing.
    Query,
    /// `Last-Event-ID` alone, as browsers send it.
    Header,
}

impl CursorSource {
    /// The name of the parameter.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Query => "lastSeq",
            Self::Header => "Last-Event-ID",
        }
    }
}

/// The event after which a client resumes: `?lastSeq=` has precedence over `Last-Event-ID`; without both, from the
/// start.
pub(crate) fn cursor(query: &QueryPairs, headers: &HeaderMap) -> Answer<Cursor> {
    let text = query.get("lastSeq").filter(|text| !text.is_empty());
    let (source, number) = match (text, headers.get("last-event-id")) {
        (Some(text), _) => (CursorSource::Query, digits(text)),
        (None, Some(value)) if !value.is_empty() => {
            let number = value.to_str().ok().and_then(|text| digits(text.trim()));
            (CursorSource::Header, number)
        }
        (None, _) => (CursorSource::Query, Some(0)),
    };
    let after = number.ok_or_else(|| malformed(source.name()))?;
    Ok(Cursor { after, source })
}

fn malformed(name: &str) -> Error {
    Error::invalid(
        name,
        "must be the number of the last event that was seen, 0 or more",
    )
}

/// The response with a stream of frames.
pub(crate) fn answer(
    frames: impl Stream<Item = Bytes> + Send + 'static,
    heartbeat: Duration,
    shutdown: &Shutdown,
) -> Response {
    carry(Some(OPENING), frames, heartbeat, shutdown)
}

/// The same without the first bytes: JSON-RPC clients read every event as a message.
pub(crate) fn messages(
    frames: impl Stream<Item = Bytes> + Send + 'static,
    heartbeat: Duration,
    shutdown: &Shutdown,
) -> Response {
    carry(None, frames, heartbeat, shutdown)
}

fn carry(
    opening: Option<Bytes>,
    frames: impl Stream<Item = Bytes> + Send + 'static,
    heartbeat: Duration,
    shutdown: &Shutdown,
) -> Response {
    let headers = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream; charset=utf-8"),
        ),
        // A compressing proxy would delay events.
        (
            CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-transform"),
        ),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    let body = Body::from_stream(Frames {
        unfinished: opening.is_some(),
        opening,
        frames: Some(Box::pin(frames)),
        timer: Box::pin(tokio::time::sleep(heartbeat)),
        heartbeat,
        last: Instant::now(),
        shutdown: Box::pin(shutdown.streams_ended()),
    });
    (headers, body).into_response()
}

struct Frames {
    opening: Option<Bytes>,
    /// Only the opening was sent, whose frame the next bytes complete.
    unfinished: bool,
    /// `None` after the end.
    frames: Option<Pin<Box<dyn Stream<Item = Bytes> + Send>>>,
    timer: Pin<Box<Sleep>>,
    heartbeat: Duration,
    /// When bytes were last sent. The timer is moved only when it fires, which is cheaper than moving it at every
    /// event.
    last: Instant,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Frames {
    /// Ends the stream; a stream without a frame still ends its first line's frame.
    fn end(&mut self) -> Option<Result<Bytes, Infallible>> {
        self.frames = None;
        std::mem::take(&mut self.unfinished).then_some(Ok(FRAME_END))
    }
}

impl Stream for Frames {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(opening) = this.opening.take() {
            return Poll::Ready(Some(Ok(opening)));
        }
        let Some(frames) = &mut this.frames else {
            return Poll::Ready(None);
        };
        match frames.as_mut().poll_next(cx) {
            Poll::Ready(Some(frame)) => {
                this.last = Instant::now();
                this.unfinished = false;
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(None) => return Poll::Ready(this.end()),
            Poll::Pending => {}
        }
        // Checked only when no frame is ready, so that committed events are still sent.
        if this.shutdown.as_mut().poll(cx).is_ready() {
            return Poll::Ready(this.end());
        }
        while this.timer.as_mut().poll(cx).is_ready() {
            let due = this.last + this.heartbeat;
            let now = Instant::now();
            if due <= now {
                this.last = now;
                this.unfinished = false;
                this.timer.as_mut().reset(now + this.heartbeat);
                return Poll::Ready(Some(Ok(HEARTBEAT)));
            }
            this.timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    async fn read(response: Response) -> String {
        let chunks: Vec<_> = response.into_body().into_data_stream().collect().await;
        let bytes: Vec<u8> = chunks
            .into_iter()
            .flat_map(|chunk| chunk.unwrap())
            .collect();
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn passes_frames_unchanged() {
        let frames = stream::iter([Bytes::from("id: 1\n\n"), Bytes::from("id: 2\n\n")]);
        let response = answer(frames, LONG, &Shutdown::default());
        assert_eq!(
            response.headers()["content-type"],
            "text/event-stream; charset=utf-8"
        );
        assert_eq!(
            response.headers()["cache-control"],
            "no-cache, no-transform"
        );
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(read(response).await, "retry: 500\nid: 1\n\nid: 2\n\n");
    }

    #[tokio::test]
    async fn a_stream_without_events_ends_its_frame() {
        let response = answer(stream::empty(), LONG, &Shutdown::default());
        assert_eq!(read(response).await, "retry: 500\n\n");
    }

    #[tokio::test]
    async fn sends_heartbeats_in_silence() {
        let response = answer(
            stream::pending(),
            Duration::from_millis(1),
            &Shutdown::default(),
        );
        let body = response.into_body().into_data_stream();
        let chunks: Vec<_> = body.take(3).collect().await;
        assert_eq!(chunks[1].as_ref().unwrap(), &HEARTBEAT);
        assert_eq!(chunks[2].as_ref().unwrap(), &HEARTBEAT);
    }

    #[tokio::test]
    async fn shutdown_ends_a_stream_after_ready_frames() {
        let shutdown = Shutdown::default();
        shutdown.end_streams();
        let frames = stream::iter([Bytes::from("id: 1\n\n")]).chain(stream::pending());
        let response = answer(frames, LONG, &shutdown);
        assert_eq!(read(response).await, "retry: 500\nid: 1\n\n");
    }
}
