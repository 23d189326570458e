//! Sessions: create, read, message, end.

use std::sync::Arc;
use std::time::Instant;

use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::{
    RunAccepted, SessionCreated, SessionEvents, SessionList, SessionSnapshot, SessionStatus,
};
use runloom_protocol::spec::{AgentSpec, CreateMessage, CreateSession};
use runloom_protocol::tools::ToolRef;

use super::auth::Caller;
use super::conversations::Conversations;
use super::conversations::Remembered;
use super::create_run::{AcceptedRun, RunCreation, accepted, private_to};
use crate::dispatcher::Dispatcher;
use crate::error::{Error, Result};
use crate::idempotency::or_first_result;
use crate::merged_metadata::check_merged;
use crate::paging::{PAGE_BYTES, PageRequest, cut_page};
use crate::registry::agents;
use crate::spec_resolver::{SessionModel, SpecResolver};
use crate::view;
use crate::visibility::check_session_visible;
use runloom_engine::planner::StoredRun;
use runloom_ports::clock::Clock;
use runloom_ports::conversation::Conversation;
use runloom_ports::store::{
    CreatedSession, Ended, Idempotency, NewSession, SessionFilter, SessionRow, Store,
};

/// Messages of one snapshot. Older ones are in the events of the session.
const SNAPSHOT_MESSAGES: usize = 10_000;
/// Default number of messages of one page of session events.
const EVENTS_DEFAULT: usize = 50;
/// Largest number of messages of one page.
const EVENTS_MAX: usize = 500;

/// The part of a conversation that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEventsRequest {
    /// As many messages as one page holds.
    pub full: bool,
    /// The last messages, up to this number.
    pub last_messages: Option<usize>,
    /// Only messages before this one.
    pub before_seq: Option<u64>,
}

/// A session at the start of its next message.
pub(crate) struct OpenSession {
    /// The stored spec, JSON, sealed.
    spec: Arc<str>,
    pub(crate) so_far: Remembered,
    /// A run of the session has not ended.
    pub(crate) busy: bool,
}

/// Where the run of a message may start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunStart {
    /// In this process, which needs the conversation.
    Here,
    /// In any process.
    Queued,
}

/// Sessions of workspaces.
pub struct SessionService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) resolver: Arc<SpecResolver>,
    pub(crate) creation: Arc<RunCreation>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) clock: Clock,
}

impl SessionService {
    /// Creates a session.
    ///
    /// # Errors
    /// When its spec is refused.
    pub async fn create(
        &self,
        caller: &Caller,
        request: CreateSession,
        idempotency: Option<Idempotency>,
    ) -> Result<SessionCreated> {
        let key = idempotency.clone();
        let created = self.try_create(caller, request, idempotency).await;
        let first = or_first_result(
            &*self.store,
            caller,
            key.as_ref(),
            created,
            SessionId::parse,
        );
        let session_id = first.await?;
        Ok(SessionCreated { session_id })
    }

    async fn try_create(
        &self,
        caller: &Caller,
        request: CreateSession,
        idempotency: Option<Idempotency>,
    ) -> Result<SessionId> {
        let checked = self
            .resolver
            .registry
            .check_project_refs(&caller.workspace, &request.spec.tools);
        checked.await?;
        let spec = request.spec.clone();
        let stored = self
            .resolver
            .resolve(caller, spec, Vec::new(), None)
            .await?;
        let id = SessionId::from_suffix(self.clock.new_id());
        // Planned to refuse a spec that would fail at the first message.
        let probe = RunId::from_suffix(self.clock.new_id());
        let planner = &self.creation.planner;
        planner
            .plan(probe, stored.clone(), Conversation::default())
            .await?;
        // Stored as requested: each message resolves the agent again.
        let stored = StoredRun {
            spec: request.spec,
            trace: None,
            ..stored
        };
        let new = NewSession {
            id: id.clone(),
            workspace: caller.workspace.no,
            name: stored.spec.name.clone(),
            spec: serde_json::to_string(&stored.sealed(&*self.creation.planner.sealer)?)
                .map_err(Error::internal)?,
            public_spec: serde_json::to_string(&view::public_spec(&stored.spec))
                .map_err(Error::internal)?,
            metadata: stored.spec.metadata.clone(),
            created_at: self.clock.now(),
            idempotency,
            private_to: private_to(caller, &stored),
        };
        match self.store.create_session(new).await? {
            CreatedSession::New => Ok(id),
            CreatedSession::Replayed(first) => Ok(first),
            CreatedSession::KeyReused => Err(Error::IdempotencyKeyReused),
        }
    }

    /// The snapshot of a session.
    ///
    /// # Errors
    /// When the workspace has no such session.
    pub async fn snapshot(&self, caller: &Caller, id: &str) -> Result<SessionSnapshot> {
        let row = self.row(caller, id).await?;
        let messages = self
            .store
            .session_messages(row.no, None, SNAPSHOT_MESSAGES, PAGE_BYTES)
            .await?;
        let is_cut = messages.first().is_some_and(|(number, _)| *number > 1)
            && self.store.count_messages(row.no).await? > messages.len() as u64;
        view::session_snapshot(row, messages, is_cut)
    }

    /// Accepts a message to a session as a run, which waits for earlier runs of the session.
    ///
    /// # Errors
    /// When the session is unknown or ended, or the message is refused.
    pub async fn send_message(
        &self,
        caller: &Caller,
        id: &str,
        request: CreateMessage,
        idempotency: Option<Idempotency>,
    ) -> Result<RunAccepted> {
        let key = idempotency.clone();
        let created = self
            .try_send_message(caller, id, request, idempotency)
            .await;
        let first = or_first_result(&*self.store, caller, key.as_ref(), created, RunId::parse);
        let run = first.await?;
        Ok(accepted(caller, run))
    }

    async fn try_send_message(
        &self,
        caller: &Caller,
        id: &str,
        request: CreateMessage,
        idempotency: Option<Idempotency>,
    ) -> Result<RunId> {
        let session = SessionId::parse(id).ok_or(Error::NotFound { what: "session" })?;
        check_session_visible(&*self.store, caller, &session).await?;
        self.creation.check_backlog(caller.workspace.no).await?;
        let slot = self.dispatcher.reserve(caller.workspace.no);
        let start = match slot {
            Some(_) => RunStart::Here,
            None => RunStart::Queued,
        };
        let found = self.open(caller, &session, start).await?;
        let (messages, history) = (found.so_far.messages.clone(), found.so_far.count);
        let active_model = found.so_far.active_model.clone();
        let run_id = RunId::from_suffix(self.clock.new_id());
        if slot.is_some() {
            let awaiting = found.so_far.awaiting(run_id.clone());
            self.conversations.put(session.clone(), awaiting);
        }
        let base: StoredRun = serde_json::from_str(&found.spec).map_err(Error::internal)?;
        let base = base.opened(&*self.creation.planner.sealer)?;
        let model = SessionModel {
            active: active_model.as_deref(),
        };
        let stored = self.merge(caller, base.spec, request, model).await?;
        let mut stored = stored.staying_on(active_model.as_deref());
        stored.session = Some(session.clone());
        let planner = &self.creation.planner;
        let planned = planner
            .plan(run_id.clone(), stored.clone(), messages)
            .await?;
        let run = AcceptedRun {
            id: run_id,
            stored,
            planned,
            idempotency,
            session: Some(session),
            // Behind another run it waits, and then needs the messages of that run.
            slot: slot.filter(|_| !found.busy),
            history,
        };
        self.creation.create(caller, run).await
    }

    /// Reads a session for its next message, with its conversation when the run starts here.
    pub(crate) async fn open(
        &self,
        caller: &Caller,
        session: &SessionId,
        start: RunStart,
    ) -> Result<OpenSession> {
        let workspace = caller.workspace.no;
        // Always taken: the cache does not learn the messages of a run that starts elsewhere.
        let remembered = self.conversations.take(session, workspace);
        // In a shared store other processes add messages. Even here the insert checks the number of messages.
        if start == RunStart::Here
            && !self.store.is_shared()
            && let Some(spec) = remembered.settled(Instant::now())
        {
            return Ok(OpenSession {
                spec,
                so_far: remembered,
                busy: false,
            });
        }
        let known = (start == RunStart::Here).then_some(remembered.count);
        let resumed = self
            .store
            .resume_session(workspace, session, known)
            .await?
            .ok_or(Error::NotFound { what: "session" })?;
        if resumed.row.status == SessionStatus::Ended {
            return Err(Error::SessionEnded);
        }
        let spec: Arc<str> = resumed.row.spec.into();
        Ok(OpenSession {
            so_far: remembered
                .followed_by(&resumed.since)
                .of(workspace, Arc::clone(&spec))
                .staying_on(resumed.row.active_model),
            spec,
            busy: resumed.busy,
        })
    }

    /// Ends a session and cancels its runs. Ending an ended session changes nothing.
    ///
    /// # Errors
    /// When the workspace has no such session.
    pub async fn end(&self, caller: &Caller, id: &str) -> Result<()> {
        let session = SessionId::parse(id).ok_or(Error::NotFound { what: "session" })?;
        check_session_visible(&*self.store, caller, &session).await?;
        let (workspace, now) = (caller.workspace.no, self.clock.now());
        let (store, dispatcher) = (Arc::clone(&self.store), self.dispatcher.clone());
        let conversations = Arc::clone(&self.conversations);
        let work = async move {
            match store.end_session(workspace, &session, now).await? {
                Ended::Ended(deliveries) => {
                    // The next message must ask the store, which refuses it.
                    conversations.take(&session, workspace);
                    for delivery in deliveries {
                        dispatcher.notify_cancel(delivery, workspace);
                    }
                    Ok(())
                }
                Ended::UnknownSession => Err(Error::NotFound { what: "session" }),
            }
        };
        self.dispatcher.detached("end_session", work).await
    }

    /// Sessions of the workspace, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of ours.
    pub async fn list(
        &self,
        caller: &Caller,
        mut filter: SessionFilter,
        page: PageRequest,
    ) -> Result<SessionList> {
        filter.visible_to = caller.sees_only().map(str::to_owned);
        let workspace = caller.workspace.no;
        let mut rows = self
            .store
            .list_sessions(workspace, &filter, page.for_store()?)
            .await?;
        let next_cursor = cut_page(&mut rows, page.limit, |row| row.no.0);
        let total = if page.include_total {
            Some(self.store.count_sessions(workspace, &filter).await?)
        } else {
            None
        };
        Ok(SessionList {
            total,
            limit: u32::try_from(page.limit).unwrap_or(u32::MAX),
            offset: page.offset as u64,
            next_cursor,
            sessions: rows.into_iter().map(view::session_list_item).collect(),
        })
    }

    /// A part of the conversation of a session, oldest first.
    ///
    /// # Errors
    /// When the workspace has no such session.
    pub async fn events(
        &self,
        caller: &Caller,
        id: &str,
        request: SessionEventsRequest,
    ) -> Result<SessionEvents> {
        let row = self.row(caller, id).await?;
        let limit = if request.full {
            SNAPSHOT_MESSAGES
        } else {
            request
                .last_messages
                .unwrap_or(EVENTS_DEFAULT)
                .min(EVENTS_MAX)
        };
        let total = self.store.count_messages(row.no).await?;
        let messages = self
            .store
            .session_messages(row.no, request.before_seq, limit, PAGE_BYTES)
            .await?;
        Ok(view::session_events(row.id, total, messages))
    }

    pub(crate) async fn row(&self, caller: &Caller, id: &str) -> Result<SessionRow> {
        let session = SessionId::parse(id).ok_or(Error::NotFound { what: "session" })?;
        check_session_visible(&*self.store, caller, &session).await?;
        let row = self.store.session(caller.workspace.no, &session).await?;
        row.ok_or(Error::NotFound { what: "session" })
    }

    /// The spec of the session with the values of the message over it, for this run only.
    async fn merge(
        &self,
        caller: &Caller,
        base: AgentSpec,
        message: CreateMessage,
        model: SessionModel<'_>,
    ) -> Result<StoredRun> {
        let mut spec = base;
        if let Some(tools) = message.tools {
            let workspace = &caller.workspace;
            let checked = self.resolver.registry.check_project_refs(workspace, &tools);
            checked.await?;
            spec.tools = tools_over(tools, &spec.tools);
        }
        spec.reasoning_level = message.reasoning_level.or(spec.reasoning_level);
        spec.output_schema = message.output_schema.or(spec.output_schema);
        spec.loop_detection = message.loop_detection.or(spec.loop_detection);
        spec.tool_budgets = message.tool_budgets.or(spec.tool_budgets);
        spec.compaction = message.compaction.or(spec.compaction);
        spec.max_depth = message.max_depth.or(spec.max_depth);
        spec.policy = message.policy.or(spec.policy);
        let (given, kept) = (message.budgets, &mut spec.budgets);
        kept.max_tool_turns = given.max_tool_turns.or(kept.max_tool_turns);
        kept.max_wall_ms = given.max_wall_ms.or(kept.max_wall_ms);
        kept.max_output_tokens = given.max_output_tokens.or(kept.max_output_tokens);
        kept.max_cost_usd = given.max_cost_usd.or(kept.max_cost_usd);
        spec.metadata.extend(message.metadata);
        check_merged(&spec.metadata)?;
        self.resolver
            .resolve(caller, spec, message.messages, Some(model))
            .await
    }
}

/// The tools of a message in the place of its session's. What a project ref allows is what both allow.
fn tools_over(given: Vec<ToolRef>, session: &[ToolRef]) -> Vec<ToolRef> {
    let below = |tool: &ToolRef| {
        let mut session = session.iter();
        session.find(|known| known.identity() == tool.identity())
    };
    let over = |tool: ToolRef| match below(&tool) {
        Some(known) => agents::over(tool, known),
        None => tool,
    };
    given.into_iter().map(over).collect()
}
