//! AG-UI: requests of front ends, as messages to sessions and streams of runs.
//!
//! A thread is a session and its messages are the history of that session, so that both outlive connections and
//! processes. What else must be remembered is in three tables of the store, which go with the session: which session a
//! thread is, the AG-UI runs that it has seen with what is needed to send them again, and the ids that clients gave to
//! the results of calls. The ids of users' messages are in the stored request of their run.
//!
//! Reading order: [`AgUiService::run`]; `thread` (sessions of threads), `matching` (what is new, pure), `run`
//! (starting a run), `interrupts` (decisions about approvals), `stream` and `translate` (from the log to events, pure),
//! `record` (sending again), `disconnect`.

mod disconnect;
mod interrupts;
mod matching;
mod record;
mod run;
mod stream;
mod thread;
mod translate;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use runloom_ports::clock::{Clock, rfc3339};
use runloom_ports::store::{NewAgUiRun, OpenedAgUiRun, RunNo, SessionRow, Store, ToolMessageId};
use runloom_protocol::ag_ui::{InputMessage, MessageBody, RunAgentInput};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::{HistoryMessage, HistoryMetadata, HistoryRole};
use runloom_protocol::spec::{SubmitToolResult, ToolAnswer};
use serde_json::Value;

use crate::ag_ui_settings::AgUiSettings;
use crate::approvals::ApprovalService;
use crate::auth::Caller;
use crate::create_run::RunCreation;
use crate::dispatcher::Dispatcher;
use crate::error::{Error, Result};
use crate::runs::RunService;
use crate::sessions::SessionService;
use crate::spec_resolver::SpecResolver;
use disconnect::Connection;
use interrupts::{Interrupts, no_interrupt};
use matching::{NewAnswer, News, news};
use record::{AgUiRecord, Segment, Snapshot};
use run::thread_run_id;
pub use stream::AgUiStream;
use stream::{ClientRun, StreamParts};
use thread::ThreadView;
use translate::KnownCalls;

/// Messages of a snapshot.
const MESSAGES_MAX: usize = 1000;

/// What the model reads as the result of a call that the user did not wait for.
const WENT_ON: &str = "The user went on without answering.";

/// Threads of AG-UI clients.
pub struct AgUiService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runs: Arc<RunService>,
    pub(crate) approvals: Arc<ApprovalService>,
    pub(crate) sessions: Arc<SessionService>,
    pub(crate) resolver: Arc<SpecResolver>,
    pub(crate) creation: Arc<RunCreation>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) settings: AgUiSettings,
    pub(crate) clock: Clock,
}

/// A request that is taken as it stands in its thread.
struct Exchange {
    row: SessionRow,
    view: ThreadView,
    news: News,
    record: AgUiRecord,
}

impl AgUiService {
    /// Answers a request of an AG-UI client: what is new in it is durable when this returns.
    ///
    /// # Errors
    /// When the request cannot be run; nothing was created then.
    pub async fn run(
        self: &Arc<Self>,
        caller: &Caller,
        agent: Option<&str>,
        input: RunAgentInput,
    ) -> Result<AgUiStream> {
        if !self.settings.enabled {
            return Err(Error::NotFound { what: "endpoint" });
        }
        let agent = self.thread_agent(caller, agent, &input.runloom).await?;
        let thread = self
            .thread_session(caller, &agent, &input.thread_id)
            .await?;
        let row = match thread {
            Some(row) => row,
            None if !input.resume.is_empty() => return Err(no_interrupt()),
            None => {
                let everything = news(&ThreadView::empty(), &[], &input.messages);
                // Refused before a session is made for it.
                if !everything.messages.is_empty() {
                    self.creation.check_backlog(caller.workspace.no).await?;
                    self.thread_request(caller, agent.spec(), &input, &everything.messages)
                        .await?;
                }
                self.create_thread(caller, &agent, &input.thread_id).await?
            }
        };
        let exchange = self.take(row, &input).await?;
        self.answer(caller, exchange, input).await
    }

    /// Compares the request with the thread.
    async fn take(&self, row: SessionRow, input: &RunAgentInput) -> Result<Exchange> {
        let view = ThreadView::load(&self.store, row.no, &input.messages).await?;
        let pending = view.live.first().map(|live| live.pending.clone());
        let pending = pending.unwrap_or_default();
        let news = news(&view, &pending, &input.messages);
        let is_nothing = news.messages.is_empty() && news.answers.is_empty();
        let starts_run = !news.messages.is_empty();
        let live = view.live.iter().map(|live| Segment {
            run: live.run.clone(),
            after: live.complete_through,
        });
        let new = starts_run.then(|| Segment {
            run: thread_run_id(&row.id, &input.run_id),
            after: 0,
        });
        let answers = news.answers.iter().map(|it| it.tool_use_id.clone());
        let resumed = input.resume.iter().map(|it| it.interrupt_id.clone());
        let answers: Vec<String> = answers.chain(resumed).collect();
        let earlier = view.tool_message_ids.keys().cloned();
        let given_up = pending.into_iter().filter(|_| starts_run);
        let answered = earlier.chain(answers.iter().cloned()).chain(given_up);
        let record = AgUiRecord {
            parent_run_id: input.parent_run_id.clone(),
            snapshot: news.differs || is_nothing,
            newest: view.newest.map(|newest| newest.0),
            segments: live.chain(new).collect(),
            starts_run,
            answered: answered.collect(),
            answers,
        };
        Ok(Exchange {
            row,
            view,
            news,
            record,
        })
    }

    /// Does what the request asks for, unless the thread has seen its run, and begins its stream.
    async fn answer(
        self: &Arc<Self>,
        caller: &Caller,
        exchange: Exchange,
        input: RunAgentInput,
    ) -> Result<AgUiStream> {
        let Exchange {
            row,
            view,
            news,
            mut record,
        } = exchange;
        let stored = if news.messages.is_empty() {
            None
        } else {
            let base = self.thread_spec(&row)?;
            let request = self.thread_request(caller, base, &input, &news.messages);
            Some(request.await?)
        };
        let opened = self.open_ag_ui_run(&row, &input, &record, &news.answers);
        let seen = match opened.await? {
            OpenedAgUiRun::New => None,
            OpenedAgUiRun::Seen(body) => {
                let seen: AgUiRecord = serde_json::from_str(&body).map_err(Error::internal)?;
                self.is_complete(caller, &seen).await?.then_some(seen)
            }
        };
        match seen {
            Some(seen) => record = seen,
            None => {
                match interrupts::check(&view, &input, record.starts_run) {
                    Interrupts::Answered => {}
                    Interrupts::NoneOpen => {
                        let store = &self.store;
                        store.withdraw_ag_ui_run(row.no, &input.run_id).await?;
                        return Err(no_interrupt());
                    }
                    Interrupts::Unanswered => {
                        let store = &self.store;
                        store.withdraw_ag_ui_run(row.no, &input.run_id).await?;
                        record.segments.clear();
                        let parts = ((row, view), (record, Vec::new()));
                        let stream = self.open_stream(caller, parts.0, parts.1, input).await?;
                        return Ok(stream.refused(interrupts::OPEN_CODE, interrupts::OPEN));
                    }
                }
                let started = self.start(caller, &row, (&view, &news), stored, &input);
                if let Err(error) = started.await {
                    let store = &self.store;
                    store.withdraw_ag_ui_run(row.no, &input.run_id).await?;
                    return Err(error);
                }
            }
        }
        let fresh = self.fresh(&view, &record, &news.answers);
        self.open_stream(caller, (row, view), (record, fresh), input)
            .await
    }

    async fn open_ag_ui_run(
        &self,
        row: &SessionRow,
        input: &RunAgentInput,
        record: &AgUiRecord,
        answers: &[NewAnswer],
    ) -> Result<OpenedAgUiRun> {
        let tool_messages = answers.iter().map(|answer| ToolMessageId {
            tool_use_id: answer.tool_use_id.clone(),
            message_id: answer.message_id.clone(),
        });
        let new = NewAgUiRun {
            id: input.run_id.clone(),
            body: serde_json::to_string(record).map_err(Error::internal)?,
            at: self.clock.now(),
            tool_messages: tool_messages.collect(),
        };
        Ok(self.store.open_ag_ui_run(row.no, new).await?)
    }

    /// Whether the request of a record was carried out: a process may have died before it created the run.
    async fn is_complete(&self, caller: &Caller, seen: &AgUiRecord) -> Result<bool> {
        let Some(last) = seen.segments.last().filter(|_| seen.starts_run) else {
            return Ok(true);
        };
        match self.runs.row(caller, last.run.as_str()).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Delivers the answers, and starts the run of the new messages.
    async fn start(
        self: &Arc<Self>,
        caller: &Caller,
        row: &SessionRow,
        (view, news): (&ThreadView, &News),
        stored: Option<runloom_engine::planner::StoredRun>,
        input: &RunAgentInput,
    ) -> Result<()> {
        self.decide_interrupts(caller, view, &input.resume).await?;
        if let Some(live) = view.live.first() {
            for answer in &news.answers {
                let call = answer.tool_use_id.as_str();
                self.deliver(caller, &live.run, call, answer.answer.clone())
                    .await?;
            }
        }
        let Some(stored) = stored else {
            return Ok(());
        };
        let id = thread_run_id(&row.id, &input.run_id);
        self.start_thread_run(caller, row, (id, &input.run_id), stored)
            .await?;
        for live in &view.live {
            let answered = |call: &String| news.answers.iter().any(|it| it.tool_use_id == *call);
            for call in live.pending.iter().filter(|call| !answered(call)) {
                let went_on = ToolAnswer::Error(WENT_ON.to_owned());
                self.deliver(caller, &live.run, call, went_on).await?;
            }
            self.give_up_calls(caller, live);
        }
        Ok(())
    }

    /// Answers a call; one that waits no longer is no error.
    async fn deliver(
        &self,
        caller: &Caller,
        run: &RunId,
        call: &str,
        answer: ToolAnswer,
    ) -> Result<()> {
        let result = SubmitToolResult {
            tool_use_id: call.to_owned(),
            answer,
            files: Vec::new(),
        };
        let delivered = self
            .runs
            .submit_tool_result(caller, run.as_str(), result, None);
        match delivered.await {
            Ok(()) | Err(Error::UnknownToolUse | Error::RunTerminal) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The results of the request as messages: the log may not have them yet.
    fn fresh(
        &self,
        view: &ThreadView,
        record: &AgUiRecord,
        answers: &[NewAnswer],
    ) -> Vec<HistoryMessage> {
        let Some(live) = view.live.first() else {
            return Vec::new();
        };
        let answers = answers.iter();
        let answers = answers.filter(|answer| record.answers.contains(&answer.tool_use_id));
        answers
            .map(|answer| HistoryMessage {
                id: answer.message_id.clone(),
                role: HistoryRole::Tool,
                content: Some(match &answer.answer {
                    ToolAnswer::Result(text) | ToolAnswer::Error(text) => text.clone(),
                }),
                tool_calls: Vec::new(),
                tool_call_id: Some(answer.tool_use_id.clone()),
                metadata: HistoryMetadata {
                    run_id: live.run.clone(),
                    created_at: rfc3339(self.clock.now()),
                    tool: Default::default(),
                },
            })
            .collect()
    }

    async fn open_stream(
        self: &Arc<Self>,
        caller: &Caller,
        (row, view): (SessionRow, ThreadView),
        (record, fresh): (AgUiRecord, Vec<HistoryMessage>),
        input: RunAgentInput,
    ) -> Result<AgUiStream> {
        let cuts: HashMap<RunId, u64> = record
            .segments
            .iter()
            .map(|segment| (segment.run.clone(), segment.after))
            .collect();
        let runs = record.segments.iter().map(|segment| segment.run.clone());
        let mut ids = HashMap::clone(&view.tool_message_ids);
        for message in &fresh {
            if let Some(call) = &message.tool_call_id {
                ids.entry(call.clone()).or_insert(message.id.clone());
            }
        }
        let on_disconnect = input.runloom.on_disconnect;
        let connection = Connection {
            service: Arc::clone(self),
            caller: caller.clone(),
            session: row.no,
            runs: runs.collect(),
            on_disconnect: on_disconnect.unwrap_or(self.settings.on_disconnect),
            opened_at: self.clock.now(),
            is_finished: false,
        };
        AgUiStream::open(StreamParts {
            service: Arc::clone(self),
            caller: caller.clone(),
            client: ClientRun {
                thread_id: input.thread_id,
                run_id: input.run_id,
                version: input.version,
            },
            session: row.id,
            snapshot: Snapshot {
                session: row.no,
                newest: record.newest.map(RunNo),
                cuts,
                answers: record.answers.iter().cloned().collect(),
                fresh,
                sent: instructions(&input.messages),
            },
            calls: KnownCalls {
                client_has: results(&input.messages),
                answered: record.answered.iter().cloned().collect(),
            },
            tool_message_ids: Arc::new(ids),
            record,
            connection,
        })
        .await
    }
}

/// Messages that are not stored, as the client sent them.
fn instructions(messages: &[InputMessage]) -> Vec<Value> {
    let sent = messages.iter().filter_map(|message| match &message.body {
        MessageBody::Instruction { sent, .. } => Some(sent.clone()),
        MessageBody::User { .. }
        | MessageBody::Assistant { .. }
        | MessageBody::Tool { .. }
        | MessageBody::Skipped => None,
    });
    sent.collect()
}

/// The calls whose results the client has.
fn results(messages: &[InputMessage]) -> HashSet<String> {
    let calls = messages.iter().filter_map(|message| match &message.body {
        MessageBody::Tool { tool_call_id, .. } => Some(tool_call_id.clone()),
        MessageBody::User { .. }
        | MessageBody::Assistant { .. }
        | MessageBody::Instruction { .. }
        | MessageBody::Skipped => None,
    });
    calls.collect()
}
