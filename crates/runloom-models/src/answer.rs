//! An answer's head and its bytes, whichever way it came.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, StatusCode, header};

use crate::lines::{LAST_CHUNKS, LineBody};

/// What a provider answered; the body is still to come.
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// All of them.
    pub(crate) headers: HeaderMap,
    /// Not read yet.
    pub(crate) body: AnswerBody,
}

impl Answer {
    /// True when the body is of this media type.
    pub(crate) fn is_of_type(&self, media_type: &str) -> bool {
        self.headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with(media_type))
    }
}

impl From<http::Response<LineBody>> for Answer {
    fn from(answer: http::Response<LineBody>) -> Self {
        let (head, body) = answer.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body: AnswerBody::Line(body),
        }
    }
}

impl From<reqwest::Response> for Answer {
    fn from(mut answer: reqwest::Response) -> Self {
        Self {
            status: answer.status(),
            headers: std::mem::take(answer.headers_mut()),
            body: AnswerBody::Client(Box::pin(answer.bytes_stream())),
        }
    }
}

/// The bytes of an answer.
pub(crate) enum AnswerBody {
    /// Over a plain connection of ours.
    Line(LineBody),
    /// Over TLS, HTTP/2 or a proxy.
    Client(Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>),
}

impl AnswerBody {
    /// The next bytes, `None` at the end, or the cause why there are no more.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, String>>> {
        match self {
            Self::Line(body) => body.poll_chunk(cx).map_err(|failure| innermost(&failure)),
            Self::Client(body) => body
                .as_mut()
                .poll_next(cx)
                .map_err(|failure| innermost_cause(&failure)),
        }
    }

    /// Nothing more of it is wanted. When its end has arrived it is read, so that the connection can be used again.
    pub(crate) fn release(self) {
        match self {
            Self::Line(body) => body.release(),
            Self::Client(mut body) => {
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..LAST_CHUNKS {
                    if !matches!(body.as_mut().poll_next(&mut cx), Poll::Ready(Some(Ok(_)))) {
                        break;
                    }
                }
            }
        }
    }
}

/// What lies innermost in a failure, or itself, as the end of a sentence. It never holds the URL.
pub(crate) fn innermost(failure: &(dyn Error + 'static)) -> String {
    let mut innermost = failure;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    format!(": {innermost}")
}

/// The same of a failure that itself may hold the URL.
pub(crate) fn innermost_cause(failure: &(dyn Error + 'static)) -> String {
    failure.source().map(innermost).unwrap_or_default()
}
