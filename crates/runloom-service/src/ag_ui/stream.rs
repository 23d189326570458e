//! The stream of an AG-UI run: the first events, then one run after the other, translated, until the last one ends or
//! waits for the client.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use runloom_engine::hub::EventStream;
use runloom_ports::store::{Millis, RunNo};
use runloom_protocol::ag_ui::{
    AgUiEvent, Outcome, ProtocolVersion, RunStartedMetadata, RunloomRun, TokenUsage,
};
use runloom_protocol::event::{Event, Sequenced, parse_frame, split_frames};
use runloom_protocol::id::{RunId, SessionId};
use tracing::warn;

use super::AgUiService;
use super::disconnect::Connection;
use super::record::{AgUiRecord, Segment, Snapshot};
use super::translate::{KnownCalls, Output, Place, RunEnd, Translator};
use crate::auth::Caller;
use crate::error::{Chain, Result};
use crate::history::fold::ToolMessageIds;

/// The version of AG-UI that this server speaks.
const PROTOCOL_VERSION: &str = "1.0";

/// What a client called its thread and its run, and what it understands.
#[derive(Debug, Clone)]
pub(crate) struct ClientRun {
    pub(crate) thread_id: String,
    pub(crate) run_id: String,
    pub(crate) version: ProtocolVersion,
}

/// What a stream is made of.
pub(crate) struct StreamParts {
    pub(crate) service: Arc<AgUiService>,
    pub(crate) caller: Caller,
    pub(crate) client: ClientRun,
    pub(crate) session: SessionId,
    pub(crate) record: AgUiRecord,
    pub(crate) snapshot: Snapshot,
    pub(crate) tool_message_ids: ToolMessageIds,
    pub(crate) calls: KnownCalls,
    pub(crate) connection: Connection,
}

/// The events of an AG-UI run. Dropping it before its end is a disconnect of the client.
pub struct AgUiStream {
    service: Arc<AgUiService>,
    caller: Caller,
    client: ClientRun,
    segments: VecDeque<Segment>,
    snapshot: Snapshot,
    tool_message_ids: ToolMessageIds,
    calls: KnownCalls,
    current: Option<Current>,
    ready: VecDeque<AgUiEvent>,
    connection: Connection,
    is_over: bool,
}

impl std::fmt::Debug for AgUiStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgUiStream")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// The run that is followed.
struct Current {
    run: RunId,
    no: RunNo,
    after: u64,
    is_last: bool,
    frames: EventStream,
    translator: Translator,
}

impl AgUiStream {
    /// Begins a stream: its first events are ready.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn open(parts: StreamParts) -> Result<Self> {
        let record = &parts.record;
        let started = AgUiEvent::RunStarted {
            thread_id: parts.client.thread_id.clone(),
            run_id: parts.client.run_id.clone(),
            parent_run_id: record.parent_run_id.clone(),
            protocol_version: match parts.client.version {
                ProtocolVersion::One => Some(PROTOCOL_VERSION),
                ProtocolVersion::Unknown => None,
            },
            metadata: RunStartedMetadata {
                runloom: RunloomRun {
                    run_id: record.segments.last().map(|segment| segment.run.clone()),
                    session_id: parts.session,
                },
            },
        };
        let mut ready = VecDeque::from([started]);
        if record.snapshot {
            let messages = parts.snapshot.messages(&parts.service.store).await?;
            ready.push_back(AgUiEvent::MessagesSnapshot { messages });
        }
        Ok(Self {
            service: parts.service,
            caller: parts.caller,
            client: parts.client,
            segments: parts.record.segments.into(),
            snapshot: parts.snapshot,
            tool_message_ids: parts.tool_message_ids,
            calls: parts.calls,
            current: None,
            ready,
            connection: parts.connection,
            is_over: false,
        })
    }

    /// The same stream, ended by an error before anything is run.
    pub(crate) fn refused(mut self, code: &str, message: &str) -> Self {
        self.ready.truncate(1);
        self.over(AgUiEvent::RunError {
            message: message.to_owned(),
            code: code.to_owned(),
            usage: Vec::new(),
        });
        self
    }

    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<AgUiEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.advance().await {
                warn!(error = %Chain(&error), "ag-ui stream failed");
                self.fail(
                    "The server cannot read the run at the moment; send the same runId again.",
                );
            }
        }
    }

    /// Makes the next events ready, or ends the stream.
    async fn advance(&mut self) -> Result<()> {
        let Some(mut current) = self.take_current().await? else {
            self.finish(Some(Vec::new()), Vec::new());
            return Ok(());
        };
        let Some(frames) = current.frames.next().await else {
            self.fail("The server is stopping; send the same runId again to go on.");
            return Ok(());
        };
        let mut last_seq = 0;
        for frame in split_frames(&frames) {
            // Events of newer versions are passed over.
            let Some(Ok(read)) = parse_frame(frame) else {
                continue;
            };
            last_seq = read.seq;
            let waits = read.seq > current.after
                && !matches!(
                    read.event,
                    Event::LocalToolCall(_) | Event::ApprovalRequested(_)
                );
            if waits && self.ended_waiting(&current) {
                return Ok(());
            }
            if self.step(&mut current, read).await? {
                return Ok(());
            }
        }
        let waits = last_seq >= current.after;
        if !(waits && self.ended_waiting(&current)) {
            self.current = Some(current);
        }
        Ok(())
    }

    /// The run that is followed, or the next one.
    async fn take_current(&mut self) -> Result<Option<Current>> {
        if let Some(current) = self.current.take() {
            return Ok(Some(current));
        }
        let Some(Segment { run, after }) = self.segments.pop_front() else {
            return Ok(None);
        };
        let no = self.service.runs.row(&self.caller, run.as_str()).await?.no;
        let frames = self
            .service
            .runs
            .stream(&self.caller, run.as_str(), 0)
            .await?;
        let ids = Arc::clone(&self.tool_message_ids);
        Ok(Some(Current {
            translator: Translator::new(run.clone(), ids, self.calls.clone()),
            is_last: self.segments.is_empty(),
            run,
            no,
            after,
            frames,
        }))
    }

    /// Sends what follows from an event, unless the client has it; true when its run has ended.
    async fn step(&mut self, current: &mut Current, read: Sequenced) -> Result<bool> {
        let Sequenced { seq, event, .. } = read;
        let is_new = seq > current.after;
        let is_result = matches!(event, Event::ToolResult(_) | Event::LocalToolResultIn(_));
        let at = if is_new && is_result {
            let store = &self.service.store;
            let times = store.log_times(current.no, seq - 1, 1).await?;
            times.first().map_or(Millis(0), |time| time.at)
        } else {
            Millis(0)
        };
        let mut is_over = false;
        for output in current.translator.apply(Place { seq, at }, event) {
            match output {
                Output::Event(event) if is_new => self.ready.push_back(event),
                Output::Snapshot { through } if is_new => {
                    self.snapshot.cuts.insert(current.run.clone(), through);
                    let store = &self.service.store;
                    let messages = self.snapshot.messages(store).await?;
                    self.ready
                        .push_back(AgUiEvent::MessagesSnapshot { messages });
                }
                Output::Event(_) | Output::Snapshot { .. } => {}
                Output::End(end) => {
                    self.snapshot.cuts.insert(current.run.clone(), u64::MAX);
                    is_over = true;
                    if current.is_last {
                        self.end(end);
                    }
                }
            }
        }
        Ok(is_over)
    }

    /// Ends the stream of a run that waits for a decision or, when no run follows it, for the client's tools.
    fn ended_waiting(&mut self, current: &Current) -> bool {
        let interrupts = current.translator.interrupts();
        if !interrupts.is_empty() {
            // Clients of all versions know this outcome.
            self.over(AgUiEvent::RunFinished {
                thread_id: self.client.thread_id.clone(),
                run_id: self.client.run_id.clone(),
                outcome: Some(Outcome::Interrupt { interrupts }),
                usage: Vec::new(),
            });
            return true;
        }
        let pending = current.translator.pending();
        if pending.is_empty() || !current.is_last {
            return false;
        }
        self.finish(Some(pending), Vec::new());
        true
    }

    fn end(&mut self, end: RunEnd) {
        match end {
            RunEnd::Succeeded { usage } => self.finish(Some(Vec::new()), usage),
            RunEnd::Cancelled { usage } => self.finish(None, usage),
            RunEnd::Failed {
                message,
                code,
                usage,
            } => self.over(AgUiEvent::RunError {
                message,
                code,
                usage,
            }),
        }
    }

    /// Ends the stream: with the calls that wait, or without them as cancelled. Older clients reject outcomes.
    fn finish(&mut self, pending: Option<Vec<String>>, usage: Vec<TokenUsage>) {
        let knows_outcomes = self.client.version == ProtocolVersion::One;
        let outcome = match pending {
            Some(pending_tool_call_ids) => Outcome::Success {
                pending_tool_call_ids,
            },
            None if knows_outcomes => Outcome::Cancelled,
            None => {
                return self.over(AgUiEvent::RunError {
                    message: "The run was cancelled.".to_owned(),
                    code: "cancelled".to_owned(),
                    usage,
                });
            }
        };
        self.over(AgUiEvent::RunFinished {
            thread_id: self.client.thread_id.clone(),
            run_id: self.client.run_id.clone(),
            outcome: knows_outcomes.then_some(outcome),
            usage,
        });
    }

    fn fail(&mut self, message: &str) {
        self.over(AgUiEvent::RunError {
            message: message.to_owned(),
            code: "unavailable".to_owned(),
            usage: Vec::new(),
        });
    }

    fn over(&mut self, last: AgUiEvent) {
        self.ready.push_back(last);
        self.is_over = true;
        self.connection.finished();
    }
}
