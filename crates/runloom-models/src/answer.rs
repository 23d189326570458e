//! An answer's head and its bytes, whichever way it came.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, StatusCode, header};

/// How many more chunks are read after the last event.
const LAST_CHUNKS: usize = 8;

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

impl From<reqwest::Response> for Answer {
    fn from(mut answer: reqwest::Response) -> Self {
        Self {
            status: answer.status(),
            headers: std::mem::take(answer.headers_mut()),
            body: AnswerBody(Box::pin(answer.bytes_stream())),
        }
    }
}

/// The body of a response. Dropping it before its end closes the connection.
pub(crate) struct AnswerBody(Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>);

impl AnswerBody {
    /// The next bytes, `None` at the end, or the cause why there are no more.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, String>>> {
        self.0
            .as_mut()
            .poll_next(cx)
            .map_err(|failure| innermost_cause(&failure))
    }

    /// Nothing more of it is wanted. When its end has arrived it is read, so that the connection can be used again.
    pub(crate) fn release(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..LAST_CHUNKS {
            if !matches!(self.poll_chunk(&mut cx), Poll::Ready(Some(Ok(_)))) {
                break;
            }
        }
    }
}

/// The innermost cause of a failure, as the end of a sentence. The outermost error is left out: it may hold the URL.
pub(crate) fn innermost_cause(failure: &(dyn Error + 'static)) -> String {
    let mut innermost = None;
    let mut next = failure.source();
    while let Some(cause) = next {
        innermost = Some(cause);
        next = cause.source();
    }
    innermost.map_or_else(String::new, |cause| format!(": {cause}"))
}
