//! Sessions: create, read, message, end.

use std::sync::Arc;
use std::time::Instant;

use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::{
    RunAccepted, SessionCreated, SessionEvents, SessionList, SessionSnapshot, SessionStatus,
};
use runloom_protocol::spec::{AgentSpec, CreateMessage, CreateSession};

use super::auth::Caller;
use super::conversations::Remembered;
use super::create_run::{AcceptedRun, accepted};
use super::runs::Staying;
use crate::error::{Error, Result};
use crate::merged_metadata::check_merged;
use crate::paging::{PAGE_BYTES, PageRequest, cut_page};
use crate::service::Service;
use crate::view;
use runloom_engine::planner::StoredRun;
use runloom_ports::conversation::Conversation;
use runloom_ports::store::{
    CreatedSession, Ended, Idempotency, NewSession, SessionFilter, SessionRow,
};

/// Messages that one snapshot shows; older ones are reached through the session's events.
const SNAPSHOT_MESSAGES: usize = 10_000;
/// Messages of one page of session events when the client does not say.
const EVENTS_DEFAULT: usize = 50;
/// Most messages of one page.
const EVENTS_MAX: usize = 500;

/// Which part of a session's conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEventsRequest {
    /// As much as one answer holds.
    pub full: bool,
    /// The last so many.
    pub last_messages: Option<usize>,
    /// Only those before this one.
    pub before_seq: Option<u64>,
}

/// A session as its next message finds it.
struct Found {
    /// How the session was made, JSON, sealed.
    spec: Arc<str>,
    so_far: Remembered,
    /// A run of it is alive.
    busy: bool,
}

impl Service {
    /// Creates a session.
    ///
    /// # Errors
    /// When its spec cannot be run.
    pub async fn create_session(
        &self,
        caller: &Caller,
        request: CreateSession,
        idempotency: Option<Idempotency>,
    ) -> Result<SessionCreated> {
        let key = idempotency.clone();
        let created = self.try_create_session(caller, request, idempotency).await;
        let session_id = self
            .or_first_answer(caller, key.as_ref(), created, SessionId::parse)
            .await?;
        Ok(SessionCreated { session_id })
    }

    async fn try_create_session(
        &self,
        caller: &Caller,
        request: CreateSession,
        idempotency: Option<Idempotency>,
    ) -> Result<SessionId> {
        let stored = self
            .resolve(caller, request.spec.clone(), Vec::new(), None)
            .await?;
        let id = SessionId::from_suffix(self.clock.new_id());
        // Planned once only to refuse now what would fail at the first message.
        let probe = RunId::from_suffix(self.clock.new_id());
        self.parts
            .planner
            .plan(probe, stored.clone(), Conversation::default())
            .await?;
        // Kept as it was asked for: each message meets its agent as the agent is then.
        let stored = StoredRun {
            spec: request.spec,
            trace: None,
            ..stored
        };
        let new = NewSession {
            id: id.clone(),
            workspace: caller.workspace.no,
            name: stored.spec.name.clone(),
            spec: serde_json::to_string(&stored.sealed(&*self.parts.planner.sealer)?)
                .map_err(Error::internal)?,
            public_spec: serde_json::to_string(&view::public_spec(&stored.spec))
                .map_err(Error::internal)?,
            metadata: stored.spec.metadata.clone(),
            created_at: self.clock.now(),
            idempotency,
        };
        match self.parts.store.create_session(new).await? {
            CreatedSession::New => Ok(id),
            CreatedSession::Replayed(first) => Ok(first),
            CreatedSession::KeyReused => Err(Error::IdempotencyKeyReused),
        }
    }

    /// A session's snapshot.
    ///
    /// # Errors
    /// When the workspace has no such session.
    pub async fn session(&self, caller: &Caller, id: &str) -> Result<SessionSnapshot> {
        let row = self.session_row(caller, id).await?;
        let messages = self
            .parts
            .store
            .session_messages(row.no, None, SNAPSHOT_MESSAGES, PAGE_BYTES)
            .await?;
        view::session_snapshot(row, messages)
    }

    /// Accepts a message to a session: a run that gets the session's history when its turn comes.
    ///
    /// # Errors
    /// When the session is unknown or ended, or the message cannot be run.
    pub async fn create_message(
        &self,
        caller: &Caller,
        id: &str,
        request: CreateMessage,
        idempotency: Option<Idempotency>,
    ) -> Result<RunAccepted> {
        let key = idempotency.clone();
        let created = self
            .try_create_message(caller, id, request, idempotency)
            .await;
        let run = self
            .or_first_answer(caller, key.as_ref(), created, RunId::parse)
            .await?;
        Ok(accepted(caller, run))
    }

    async fn try_create_message(
        &self,
        caller: &Caller,
        id: &str,
        request: CreateMessage,
        idempotency: Option<Idempotency>,
    ) -> Result<RunId> {
        let session = SessionId::parse(id).ok_or(Error::NotFound { what: "session" })?;
        self.check_backlog(caller.workspace.no).await?;
        let slot = self.slot(caller);
        let found = self.find(caller, &session, slot.is_some()).await?;
        let (messages, history) = (found.so_far.messages.clone(), found.so_far.count);
        let active_model = found.so_far.active_model.clone();
        let run_id = RunId::from_suffix(self.clock.new_id());
        if slot.is_some() {
            let awaiting = found.so_far.awaiting(run_id.clone());
            self.conversations.put(session.clone(), awaiting);
        }
        let base: StoredRun = serde_json::from_str(&found.spec).map_err(Error::internal)?;
        let base = base.opened(&*self.parts.planner.sealer)?;
        let staying = Staying {
            active: active_model.as_deref(),
        };
        let stored = self.merge(caller, base.spec, request, staying).await?;
        let stored = stored.staying_on(active_model.as_deref());
        let planned = self
            .parts
            .planner
            .plan(run_id.clone(), stored.clone(), messages)
            .await?;
        let run = AcceptedRun {
            id: run_id,
            stored,
            planned,
            idempotency,
            session: Some(session),
            // Behind another run it waits for its turn, and then for what will have been said.
            slot: slot.filter(|_| !found.busy),
            history,
        };
        self.admit(caller, run).await
    }

    /// A session that is about to get a message; with what was said so far when the run can begin here.
    async fn find(&self, caller: &Caller, session: &SessionId, begins: bool) -> Result<Found> {
        let workspace = caller.workspace.no;
        // Also when nothing of it is needed: the memory does not hear what a run says that begins elsewhere.
        let remembered = self.conversations.take(session, workspace);
        // Where other processes write, only the store knows. When this is wrong after all, creating the run notices.
        if begins
            && !self.parts.store.is_shared()
            && let Some(spec) = remembered.settled(Instant::now())
        {
            return Ok(Found {
                spec,
                so_far: remembered,
                busy: false,
            });
        }
        let known = begins.then_some(remembered.count);
        let resumed = self
            .parts
            .store
            .resume_session(workspace, session, known)
            .await?
            .ok_or(Error::NotFound { what: "session" })?;
        if resumed.row.status == SessionStatus::Ended {
            return Err(Error::SessionEnded);
        }
        let spec: Arc<str> = resumed.row.spec.into();
        Ok(Found {
            so_far: remembered
                .followed_by(&resumed.since)
                .of(workspace, Arc::clone(&spec))
                .staying_on(resumed.row.active_model),
            spec,
            busy: resumed.busy,
        })
    }

    /// Ends a session and stops its runs. Ending twice is no error.
    ///
    /// # Errors
    /// When the workspace has no such session.
    pub async fn end_session(&self, caller: &Caller, id: &str) -> Result<()> {
        let session = SessionId::parse(id).ok_or(Error::NotFound { what: "session" })?;
        let (parts, workspace, now) = (self.parts.clone(), caller.workspace.no, self.clock.now());
        let conversations = Arc::clone(&self.conversations);
        self.run_detached(async move {
            match parts.store.end_session(workspace, &session, now).await? {
                Ended::Ended(deliveries) => {
                    // A message that comes all the same should not call a model before it is refused.
                    conversations.take(&session, workspace);
                    let told = deliveries.into_iter();
                    told.for_each(|delivery| parts.notify_cancel(delivery, workspace));
                    Ok(())
                }
                Ended::UnknownSession => Err(Error::NotFound { what: "session" }),
            }
        })
        .await
    }

    /// Sessions of the workspace, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of ours.
    pub async fn list_sessions(
        &self,
        caller: &Caller,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<SessionList> {
        let workspace = caller.workspace.no;
        let mut rows = self
            .parts
            .store
            .list_sessions(workspace, &filter, page.for_store()?)
            .await?;
        let next_cursor = cut_page(&mut rows, page.limit, |row| row.no.0);
        let total = if page.include_total {
            Some(self.parts.store.count_sessions(workspace, &filter).await?)
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

    /// A part of a session's conversation, oldest first.
    ///
    /// # Errors
    /// When the workspace has no such session.
    pub async fn session_events(
        &self,
        caller: &Caller,
        id: &str,
        request: SessionEventsRequest,
    ) -> Result<SessionEvents> {
        let row = self.session_row(caller, id).await?;
        let limit = if request.full {
            SNAPSHOT_MESSAGES
        } else {
            request
                .last_messages
                .unwrap_or(EVENTS_DEFAULT)
                .min(EVENTS_MAX)
        };
        let total = self.parts.store.count_messages(row.no).await?;
        let messages = self
            .parts
            .store
            .session_messages(row.no, request.before_seq, limit, PAGE_BYTES)
            .await?;
        Ok(view::session_events(row.id, total, messages))
    }

    pub(super) async fn session_row(&self, caller: &Caller, id: &str) -> Result<SessionRow> {
        let session = SessionId::parse(id).ok_or(Error::NotFound { what: "session" })?;
        let row = self
            .parts
            .store
            .session(caller.workspace.no, &session)
            .await?;
        row.ok_or(Error::NotFound { what: "session" })
    }

    /// The session's spec with the message's own values over it, for this run only.
    async fn merge(
        &self,
        caller: &Caller,
        base: AgentSpec,
        message: CreateMessage,
        staying: Staying<'_>,
    ) -> Result<StoredRun> {
        let mut spec = base;
        spec.tools = message.tools.unwrap_or(spec.tools);
        spec.reasoning_level = message.reasoning_level.or(spec.reasoning_level);
        spec.output_schema = message.output_schema.or(spec.output_schema);
        spec.loop_detection = message.loop_detection.or(spec.loop_detection);
        spec.tool_budgets = message.tool_budgets.or(spec.tool_budgets);
        spec.max_depth = message.max_depth.or(spec.max_depth);
        spec.policy = message.policy.or(spec.policy);
        let (given, kept) = (message.budgets, &mut spec.budgets);
        kept.max_tool_turns = given.max_tool_turns.or(kept.max_tool_turns);
        kept.max_wall_ms = given.max_wall_ms.or(kept.max_wall_ms);
        kept.max_output_tokens = given.max_output_tokens.or(kept.max_output_tokens);
        kept.max_cost_usd = given.max_cost_usd.or(kept.max_cost_usd);
        spec.metadata.extend(message.metadata);
        check_merged(&spec.metadata)?;
        self.resolve(caller, spec, message.messages, Some(staying))
            .await
    }
}
