//! Runs whose local tools are closures of this process.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use runloom_protocol::error::ErrorCode;
use runloom_protocol::event::{Event, LocalToolCall};
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::limits::{TOOL_ERROR_MAX_BYTES, TOOL_RESULT_MAX_BYTES};
use runloom_protocol::spec::{ToolAnswer, ToolFile};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::event::RunEvent;
use crate::request::{MessageRequest, RunRequest};

type Answer = Pin<Box<dyn Future<Output = std::result::Result<ToolOutput, String>> + Send>>;
type Handler = Arc<dyn Fn(LocalToolCall) -> Answer + Send + Sync>;

/// What a local tool gives back: a text, and files that the model is shown beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model reads as the result.
    pub text: String,
    /// At most 20, 5 MB together.
    pub files: Vec<ToolFile>,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self {
            text,
            files: Vec::new(),
        }
    }
}

/// Local tools by name. A call of a name that is not here is answered with an error that says so.
#[derive(Clone, Default)]
pub struct ToolHandlers {
    by_name: HashMap<String, Handler>,
}

impl fmt::Debug for ToolHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl ToolHandlers {
    /// No tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. `Ok` is what the model reads as the result, `Err` what it reads as the failure.
    #[must_use]
    pub fn on<F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(LocalToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::result::Result<String, String>> + Send + 'static,
    {
        self.on_with_files(name, move |call| {
            let answer = handler(call);
            async move { answer.await.map(ToolOutput::from) }
        })
    }

    /// Adds a tool that gives back files as well.
    #[must_use]
    pub fn on_with_files<F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(LocalToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::result::Result<ToolOutput, String>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |call| Box::pin(handler(call)));
        self.by_name.insert(name.into(), handler);
        self
    }

    async fn answer(&self, call: LocalToolCall) -> (ToolAnswer, Vec<ToolFile>) {
        let failed = |message: String| (ToolAnswer::Error(message), Vec::new());
        let Some(handler) = self.by_name.get(&call.name) else {
            return failed(format!("this client has no tool named `{}`", call.name));
        };
        match handler(call).await {
            Ok(output) if output.text.len() > TOOL_RESULT_MAX_BYTES => failed(format!(
                "the result has {} bytes, more than the {TOOL_RESULT_MAX_BYTES} that may be sent",
                output.text.len()
            )),
            Ok(output) => (ToolAnswer::Result(output.text), output.files),
            Err(mut error) => {
                error.truncate(error.floor_char_boundary(TOOL_ERROR_MAX_BYTES));
                failed(error)
            }
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct RunEnd {
    /// Which run.
    pub run_id: RunId,
    /// Its terminal event.
    pub event: RunEvent,
}

impl RunEnd {
    /// The answer, when the run succeeded.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if let Some(Event::Result(result)) = &self.event.event {
            return Some(&result.text);
        }
        None
    }
}

impl Client {
    /// Starts a run, executes its local tools and waits for its end.
    ///
    /// Dropping the future stops the tools but not the run: see [`Client::cancel_run`].
    ///
    /// # Errors
    /// When the run cannot be started, followed or answered. A run that fails is not an error of this call: look at the
    /// [`RunEnd`].
    pub async fn run_with_tools(
        &self,
        request: &RunRequest,
        handlers: &ToolHandlers,
    ) -> Result<RunEnd> {
        let accepted = self.create_run(request).await?;
        self.follow_with_tools(&accepted.run_id, handlers, |_| {})
            .await
    }

    /// Says something in a session, executes the local tools of the run and waits for its end.
    ///
    /// # Errors
    /// As [`Client::run_with_tools`].
    pub async fn message_with_tools(
        &self,
        session: &SessionId,
        request: &MessageRequest,
        handlers: &ToolHandlers,
    ) -> Result<RunEnd> {
        let accepted = self.send_message(session, request).await?;
        self.follow_with_tools(&accepted.run_id, handlers, |_| {})
            .await
    }

    /// Follows a run that this process started, executes its local tools, and shows each event to `observe` as it
    /// comes. Calls that the log shows as answered before their turn came are not executed.
    ///
    /// # Errors
    /// As [`Client::run_with_tools`].
    pub async fn follow_with_tools(
        &self,
        run_id: &RunId,
        handlers: &ToolHandlers,
        mut observe: impl FnMut(&RunEvent) + Send,
    ) -> Result<RunEnd> {
        let mut stream = self.stream(run_id);
        let mut waiting: VecDeque<LocalToolCall> = VecDeque::new();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.transport.options.concurrent_tools.max(1) {
                let Some(call) = waiting.pop_front() else {
                    break;
                };
                running.push(self.execute(run_id, handlers, call));
            }
            let event = tokio::select! {
                // The log first: it may say that a waiting call needs no answer any more.
                biased;
                event = stream.next() => event?,
                Some(answered) = running.next() => {
                    answered?;
                    continue;
                }
            };
            let Some(event) = event else {
                return Err(Error::Protocol(
                    "the stream ended without a terminal event".to_owned(),
                ));
            };
            observe(&event);
            if let Some(Event::LocalToolCall(call)) = &event.event {
                waiting.push_back(call.clone());
            } else if let Some(Event::LocalToolResultIn(done)) = &event.event {
                waiting.retain(|call| call.tool_use_id != done.tool_use_id);
            } else if event.is_terminal() {
                let run_id = run_id.clone();
                return Ok(RunEnd { run_id, event });
            }
        }
    }

    async fn execute(
        &self,
        run: &RunId,
        handlers: &ToolHandlers,
        call: LocalToolCall,
    ) -> Result<()> {
        let id = call.tool_use_id.clone();
        let (answer, files) = handlers.answer(call).await;
        let sent = self.submit_tool_result_with_files(run, &id, &answer, &files);
        match sent.await {
            // Too late: it timed out, was answered elsewhere, or the run is over. The stream tells the rest.
            Err(error)
                if matches!(
                    error.code(),
                    Some(ErrorCode::UnknownToolUse | ErrorCode::RunTerminal)
                ) =>
            {
                Ok(())
            }
            other => other,
        }
    }
}
