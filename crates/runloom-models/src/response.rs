//! The response of a provider: its head, and its body in chunks.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, StatusCode, header};
use runloom_ports::tasks::Tasks;
use tokio::time::timeout;

/// How many bytes may follow the last event before the connection is closed instead of reused.
const MAX_REST_BYTES: usize = 64 * 1024;

/// How long the end of a body may take after its last event.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// The tasks that read bodies to their end. They belong to the shared clients and end within [`REST_TIMEOUT`].
static TASKS: LazyLock<Tasks> = LazyLock::new(Tasks::default);

/// A response whose body was not read yet.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
}

impl Response {
    /// Whether the `Content-Type` begins with this media type.
    pub(crate) fn is_of_type(&self, media_type: &str) -> bool {
        self.headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with(media_type))
    }
}

impl From<reqwest::Response> for Response {
    fn from(mut response: reqwest::Response) -> Self {
        Self {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: ResponseBody(Box::pin(response.bytes_stream())),
        }
    }
}

/// The body of a response. Dropping it before its end closes the connection.
pub(crate) struct ResponseBody(Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>);

impl ResponseBody {
    /// The next bytes, `None` at the end, or why the connection broke.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, String>>> {
        self.0
            .as_mut()
            .poll_next(cx)
            .map_err(|failure| innermost_cause(&failure))
    }

    /// Reads the rest, within bounds of bytes and time, so that the connection can be reused. Does not wait: servers
    /// often send the end of a body some microseconds after the last event, and a task waits for it.
    pub(crate) fn read_rest(mut self) {
        let mut left = MAX_REST_BYTES;
        let mut cx = Context::from_waker(Waker::noop());
        if self.poll_rest(&mut cx, &mut left).is_pending() {
            TASKS.spawn("read_response_rest", async move {
                let rest = poll_fn(|cx| self.poll_rest(cx, &mut left));
                // Beyond the limits the body is dropped, which closes its connection and affects no other call.
                let _ = timeout(REST_TIMEOUT, rest).await;
            });
        }
    }

    /// Ready at the end, after an error and after `left` bytes.
    fn poll_rest(&mut self, cx: &mut Context<'_>, left: &mut usize) -> Poll<()> {
        while let Some(Ok(chunk)) = std::task::ready!(self.poll_chunk(cx)) {
            match left.checked_sub(chunk.len()) {
                Some(rest) => *left = rest,
                None => break,
            }
        }
        Poll::Ready(())
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
