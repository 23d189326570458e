//! Threads: which session a thread is, and where it stands.

use std::collections::HashSet;
use std::sync::Arc;

use runloom_engine::planner::StoredRun;
use runloom_ports::store::{NewSession, RunNo, SessionNo, SessionRow, Store, ThreadCreated};
use runloom_protocol::ag_ui::{InputMessage, RunloomProps};
use runloom_protocol::id::{AgentId, ApprovalId, RunId, SessionId};
use runloom_protocol::resource::{HistoryMessage, SessionStatus};
use runloom_protocol::spec::{AgentSpec, Metadata};

use super::AgUiService;
use super::MESSAGES_MAX;
use crate::auth::Caller;
use crate::create_run::private_to;
use crate::entry_point::{AG_UI, THREAD, VIA};
use crate::error::{Error, Result};
use crate::history::HistoryReader;
use crate::history::fold::ToolMessageIds;
use crate::view;

const NO_SESSION: Error = Error::NotFound { what: "session" };

/// Who answers in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadAgent {
    /// A persisted agent.
    id: Option<AgentId>,
    /// The prompt of an ephemeral one.
    system_prompt: Option<String>,
}

impl ThreadAgent {
    /// The agent's part of a spec.
    pub(crate) fn spec(&self) -> AgentSpec {
        AgentSpec {
            agent_id: self.id.clone(),
            system_prompt: self.system_prompt.clone(),
            ..AgentSpec::default()
        }
    }

    /// What makes its threads others than those of other agents: ephemeral agents share theirs.
    fn key(&self) -> &str {
        self.id.as_ref().map_or("", AgentId::as_str)
    }
}

impl AgUiService {
    /// The agent that a request names, by its path or in `forwardedProps`.
    ///
    /// # Errors
    /// When it names none, or two, or one that is not for this caller.
    pub(crate) async fn thread_agent(
        &self,
        caller: &Caller,
        path: Option<&str>,
        props: &RunloomProps,
    ) -> Result<ThreadAgent> {
        let given = props.agent_id.as_ref().map(AgentId::as_str);
        let named = match (path, given, &props.system_prompt) {
            (Some(_), Some(_), _) => {
                let message = "is not allowed here: the path names the agent";
                return Err(Error::invalid("forwardedProps.runloom.agentId", message));
            }
            (Some(_), _, Some(_)) => {
                let message = "is not allowed here: the agent of the path has its own prompt";
                return Err(Error::invalid(
                    "forwardedProps.runloom.systemPrompt",
                    message,
                ));
            }
            (None, None, None) => {
                let message =
                    "is required: give `agentId` or `systemPrompt`, or name the agent in the path";
                return Err(Error::invalid("forwardedProps.runloom.agentId", message));
            }
            (Some(name), ..) | (None, Some(name), _) => name,
            (None, None, Some(prompt)) => {
                return Ok(ThreadAgent {
                    id: None,
                    system_prompt: Some(prompt.clone()),
                });
            }
        };
        let found = self.resolver.registry.agent_in_full(caller, named).await?;
        let id = found.and_then(|(document, _)| AgentId::parse(&document.id));
        let id = id.ok_or_else(|| Error::Forbidden {
            message: format!("The agent {named} is unknown, or not for this credential"),
        })?;
        Ok(ThreadAgent {
            id: Some(id),
            system_prompt: None,
        })
    }

    /// The session of a thread; `None` when the thread is new.
    ///
    /// # Errors
    /// When the session has ended, or the thread id names a session that is not there for this caller and agent.
    pub(crate) async fn thread_session(
        &self,
        caller: &Caller,
        agent: &ThreadAgent,
        thread: &str,
    ) -> Result<Option<SessionRow>> {
        let row = if SessionId::parse(thread).is_some() {
            let row = self.sessions.row(caller, thread).await?;
            let base: AgentSpec =
                serde_json::from_str(&row.public_spec).map_err(Error::internal)?;
            if base.agent_id != agent.id {
                return Err(NO_SESSION);
            }
            row
        } else {
            let key = thread_key(caller, agent, thread)?;
            let store = &self.store;
            let Some(id) = store.thread(caller.workspace.no, &key).await? else {
                return Ok(None);
            };
            self.sessions.row(caller, id.as_str()).await?
        };
        if row.status == SessionStatus::Ended {
            return Err(Error::SessionEnded);
        }
        Ok(Some(row))
    }

    /// Creates the session of a thread, or finds the one that another request has just created.
    ///
    /// # Errors
    /// When the agent cannot be run; nothing was created then.
    pub(crate) async fn create_thread(
        &self,
        caller: &Caller,
        agent: &ThreadAgent,
        thread: &str,
    ) -> Result<SessionRow> {
        let labels = [(VIA, AG_UI), (THREAD, thread)];
        let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
        let spec = AgentSpec {
            metadata: Metadata::from(labels),
            ..agent.spec()
        };
        let stored = self
            .resolver
            .resolve(caller, spec.clone(), Vec::new(), None)
            .await?;
        // Each message meets its agent as the agent is then.
        let stored = StoredRun {
            spec,
            trace: None,
            ..stored
        };
        let id = SessionId::from_suffix(self.clock.new_id());
        let new = NewSession {
            id: id.clone(),
            workspace: caller.workspace.no,
            name: None,
            spec: serde_json::to_string(&stored.sealed(&*self.creation.planner.sealer)?)
                .map_err(Error::internal)?,
            public_spec: serde_json::to_string(&view::public_spec(&stored.spec))
                .map_err(Error::internal)?,
            metadata: stored.spec.metadata.clone(),
            created_at: self.clock.now(),
            idempotency: None,
            private_to: private_to(caller, &stored),
        };
        let key = thread_key(caller, agent, thread)?;
        let id = match self.store.create_thread(new, &key).await? {
            ThreadCreated::New => id,
            ThreadCreated::Existing(first) => first,
        };
        self.sessions.row(caller, id.as_str()).await
    }
}

/// The name of a thread in the store: the same thread id of another owner or agent is another thread.
fn thread_key(caller: &Caller, agent: &ThreadAgent, thread: &str) -> Result<String> {
    serde_json::to_string(&[caller.owner.id.as_str(), agent.key(), thread]).map_err(Error::internal)
}

/// Where a thread stands.
#[derive(Debug, Default)]
pub(crate) struct ThreadView {
    /// The newest messages, oldest first.
    pub(crate) messages: Vec<HistoryMessage>,
    /// These are all messages.
    pub(crate) is_whole: bool,
    /// The runs that they are of.
    pub(crate) runs: HashSet<RunId>,
    /// Runs that have not ended, in their order.
    pub(crate) live: Vec<LiveRun>,
    /// The newest run.
    pub(crate) newest: Option<RunNo>,
    /// The ids that clients gave to the results of calls.
    pub(crate) tool_message_ids: ToolMessageIds,
}

/// A run that has not ended.
#[derive(Debug, PartialEq)]
pub(crate) struct LiveRun {
    pub(crate) run: RunId,
    /// See `RunFold::complete_through`.
    pub(crate) complete_through: u64,
    /// Calls that wait for the client and have no result yet.
    pub(crate) pending: Vec<String>,
    /// Approvals that are not decided, oldest first.
    pub(crate) approvals: Vec<ApprovalId>,
}

impl ThreadView {
    /// A thread without messages.
    pub(crate) fn empty() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// Reads the newest messages, and as many more as it takes to find one that the client has.
    pub(crate) async fn load(
        store: &Arc<dyn Store>,
        session: SessionNo,
        input: &[InputMessage],
    ) -> Result<Self> {
        let mut reader = HistoryReader::open(Arc::clone(store), session).await?;
        let theirs: HashSet<&str> = input.iter().map(|message| message.id.as_str()).collect();
        let mut view = Self {
            tool_message_ids: Arc::clone(reader.tool_message_ids()),
            ..Self::empty()
        };
        let mut is_matched = theirs.is_empty();
        let mut newest_first = Vec::new();
        let mut count = 0;
        while let Some(run) = reader.next().await? {
            if count >= MESSAGES_MAX && is_matched {
                view.is_whole = false;
                break;
            }
            view.newest = view.newest.or(Some(run.no));
            let fold = reader.fold(&run).await?;
            if !run.ended {
                let mut pending = fold.asked().to_vec();
                pending.retain(|call| !view.tool_message_ids.contains_key(call));
                let mut approvals = fold.approvals().to_vec();
                if !approvals.is_empty() {
                    // A decision is durable before the log has it.
                    let open = store.pending_approvals(run.no).await?;
                    approvals.retain(|id| open.contains(id));
                }
                view.live.push(LiveRun {
                    approvals,
                    run: run.request.run.clone(),
                    complete_through: fold.complete_through(),
                    pending,
                });
            }
            view.runs.insert(run.request.run.clone());
            let messages = fold.into_messages();
            count += messages.len();
            is_matched |= messages
                .iter()
                .any(|placed| theirs.contains(placed.message.id.as_str()));
            newest_first.push(messages);
        }
        view.live.reverse();
        let oldest_first = newest_first.into_iter().rev().flatten();
        view.messages = oldest_first.map(|placed| placed.message).collect();
        Ok(view)
    }
}
