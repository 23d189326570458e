//! A model that does what the test says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::stream;
use runloom_ports::file::FileSupport;
use runloom_ports::model::{
    CallRequest, Capabilities, Done, Model, ModelError, ModelEvent, ModelRequest, ModelStream,
};
use runloom_protocol::outcome::{ErrorClass, Tokens, finish_reason};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

/// Something that the model waits for.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets one through.
    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }

    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// One thing of a call.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(&'static str),
    Long(usize),
    Thinking(&'static str),
    Call(&'static str, Value),
    Usage(u64, u64),
    /// The same from a provider that keeps to the bound of the output, and remembers.
    Bill(u64, u64),
    /// Waits.
    Hold(Gate),
    /// Refuses the call before there is a stream.
    Refuse(ModelError),
    /// Breaks the stream.
    Break(ModelError),
    Panic,
}

/// A failure of the provider that may pass.
pub(crate) fn server_error() -> ModelError {
    let mut error = ModelError::new(ErrorClass::Server, "the provider failed inside");
    error.api_status = Some(500);
    error.retry_after = Some(std::time::Duration::from_millis(1));
    error
}

/// See [`Scripted::script`].
#[derive(Debug)]
pub(crate) struct Scripted {
    scripts: Mutex<VecDeque<Vec<Piece>>>,
    requests: Mutex<Vec<ModelRequest>>,
    calls: watch::Sender<usize>,
    dropped: watch::Sender<usize>,
    billed: Mutex<Tokens>,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        Self {
            scripts: Mutex::default(),
            requests: Mutex::default(),
            calls: watch::Sender::new(0),
            dropped: watch::Sender::new(0),
            billed: Mutex::default(),
        }
    }

    /// What the next call that has no script yet does. A call without a script says `ok`.
    pub(crate) fn script(&self, pieces: impl Into<Vec<Piece>>) {
        self.scripts.lock().unwrap().push_back(pieces.into());
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> usize {
        *self.calls.borrow()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// What was billed, at these prices for a token.
    pub(crate) fn billed_micro(&self, input: u64, output: u64) -> u64 {
        let billed = self.billed.lock().unwrap();
        billed.input_tokens * input + billed.output_tokens * output
    }

    /// Keeps to the bound, and remembers what is billed.
    fn bill(&self, piece: &mut Piece, most: Option<u64>) {
        if let Piece::Bill(input_tokens, output) = *piece {
            let output_tokens = output.min(most.unwrap_or(u64::MAX));
            *piece = Piece::Usage(input_tokens, output_tokens);
            self.billed.lock().unwrap().add(&Tokens {
                input_tokens,
                output_tokens,
                ..Tokens::default()
            });
        }
    }

    /// Waits until it was called so often.
    pub(crate) async fn called(&self, times: usize) {
        let mut calls = self.calls.subscribe();
        calls.wait_for(|calls| *calls >= times).await.unwrap();
    }

    /// Waits until this number of streams is closed.
    pub(crate) async fn dropped(&self, times: usize) {
        let mut dropped = self.dropped.subscribe();
        dropped.wait_for(|dropped| *dropped >= times).await.unwrap();
    }
}

/// Counts the end of a stream, however it ends.
struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Model for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            files: FileSupport {
                inline: &["image/png"],
                urls: &["image/jpeg"],
            },
            ..Capabilities::default()
        }
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let most = request.max_output_tokens;
        self.requests.lock().unwrap().push(request);
        let script = self.scripts.lock().unwrap().pop_front();
        let mut pieces = script.unwrap_or_else(|| vec![Piece::Text("ok")]);
        pieces.iter_mut().for_each(|piece| self.bill(piece, most));
        self.calls.send_modify(|calls| *calls += 1);
        if let Some(Piece::Refuse(error)) = pieces.first() {
            return Err(error.clone());
        }
        let has_calls = pieces.iter().any(|piece| matches!(piece, Piece::Call(..)));
        let counted = Counted(self.dropped.clone());
        let state = (VecDeque::from(pieces), has_calls, 0, counted, false);
        Ok(Box::pin(stream::unfold(state, |state| async move {
            let (mut pieces, has_calls, number, counted, done) = state;
            if done {
                return None;
            }
            while let Some(Piece::Hold(gate)) = pieces.front() {
                gate.pass().await;
                pieces.pop_front();
            }
            let piece = pieces.pop_front();
            let done = matches!(piece, None | Some(Piece::Break(_)));
            let item = item_of(piece, has_calls, number);
            Some((item, (pieces, has_calls, number + 1, counted, done)))
        })))
    }
}

fn item_of(piece: Option<Piece>, has_calls: bool, number: usize) -> Result<ModelEvent, ModelError> {
    let finish = if has_calls {
        finish_reason::TOOL_USE
    } else {
        finish_reason::END_TURN
    };
    Ok(match piece {
        None => ModelEvent::Done(Done {
            finish_reason: finish.to_owned(),
            ..Done::default()
        }),
        Some(Piece::Text(text)) => ModelEvent::Text(text.to_owned()),
        Some(Piece::Long(bytes)) => ModelEvent::Text("x".repeat(bytes)),
        Some(Piece::Thinking(text)) => ModelEvent::Thinking(text.to_owned()),
        Some(Piece::Call(name, input)) => ModelEvent::Call(CallRequest {
            id: format!("vendor_{number}"),
            name: name.to_owned(),
            input,
        }),
        Some(Piece::Usage(input_tokens, output_tokens)) => ModelEvent::Usage(Tokens {
            input_tokens,
            output_tokens,
            ..Tokens::default()
        }),
        Some(Piece::Break(error)) => return Err(error),
        Some(Piece::Panic) => panic!("the script says so"),
        Some(Piece::Hold(_) | Piece::Refuse(_) | Piece::Bill(..)) => {
            panic!("not a piece of a stream")
        }
    })
}
