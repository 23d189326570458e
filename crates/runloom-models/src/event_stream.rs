//! The body of a response as a stream of events, with a deadline for every wait.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use runloom_ports::model::{ModelError, ModelEvent};
use runloom_ports::secret::Secret;
use runloom_protocol::outcome::ErrorClass;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::call_recorder::CallRecorder;
use crate::deadlines::Deadlines;
use crate::decode::Decoding;
use crate::error;
use crate::response::ResponseBody;

/// The events of one response. Dropping it before its end closes the connection.
pub(crate) struct EventStream {
    /// `None` after the end.
    body: Option<ResponseBody>,
    decoding: Decoding,
    queue: VecDeque<ModelEvent>,
    scratch: Vec<ModelEvent>,
    failure: Option<ModelError>,
    deadlines: Deadlines,
    began: bool,
    /// When the current wait times out; `None` = no wait.
    due: Option<Instant>,
    /// Never later than `due`. It is reset only when it fires, which is cheaper than at every chunk.
    timer: Pin<Box<Sleep>>,
    secrets: Vec<Secret>,
    recorder: Option<CallRecorder>,
}

impl EventStream {
    /// A stream of a body that was not read yet.
    pub(crate) fn new(
        body: ResponseBody,
        decoding: Decoding,
        deadlines: Deadlines,
        secrets: Vec<Secret>,
        recorder: Option<CallRecorder>,
    ) -> Self {
        Self {
            body: Some(body),
            decoding,
            queue: VecDeque::new(),
            scratch: Vec::new(),
            failure: None,
            timer: Box::pin(sleep_until(deadlines.first_byte())),
            began: false,
            due: None,
            deadlines,
            secrets,
            recorder,
        }
    }

    /// Reads and decodes the next chunk, or fails when it took too long.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ModelError>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(Ok(()));
        };
        let outcome = match body.poll_chunk(cx) {
            Poll::Ready(Some(Ok(chunk))) => self.read(&chunk),
            Poll::Ready(Some(Err(cause))) => Err(ModelError::new(
                ErrorClass::Server,
                format!("the connection broke in the middle of the provider's response{cause}"),
            )),
            Poll::Ready(None) => {
                self.body = None;
                self.decoding.end(&mut self.scratch)
            }
            Poll::Pending => return self.poll_overdue(cx).map(Err),
        };
        self.due = None;
        Poll::Ready(outcome)
    }

    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<ModelError> {
        let due = *self.due.get_or_insert_with(|| {
            if self.began {
                self.deadlines.next_byte()
            } else {
                self.deadlines.first_byte()
            }
        });
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(if self.began {
                    self.deadlines.response_missed()
                } else {
                    self.deadlines.first_byte_missed()
                });
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }

    fn read(&mut self, chunk: &[u8]) -> Result<(), ModelError> {
        self.began |= !chunk.is_empty();
        if let Some(recorder) = &self.recorder {
            recorder.record_chunk(chunk);
        }
        // A response that never pauses must end as well.
        if Instant::now() >= self.deadlines.total {
            return Err(self.deadlines.response_missed());
        }
        self.decoding.chunk(chunk, &mut self.scratch)
    }

    /// Gives up the body. After the last event its connection is reused; after a failure it is closed.
    fn close(&mut self) {
        if let Some(body) = self.body.take()
            && self.failure.is_none()
        {
            body.read_rest();
        }
    }
}

impl Stream for EventStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.queue.pop_front() {
                if matches!(event, ModelEvent::Done(_)) {
                    this.queue.clear();
                }
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(mut failure) = this.failure.take() {
                error::redact(&mut failure, &this.secrets);
                return Poll::Ready(Some(Err(failure)));
            }
            if this.body.is_none() {
                return Poll::Ready(None);
            }
            let outcome = std::task::ready!(this.poll_read(cx));
            this.queue.extend(this.scratch.drain(..));
            this.failure = outcome.err();
            if this.failure.is_some() || this.decoding.is_done() {
                this.close();
            }
        }
    }
}
