//! Creating a run: it is made durable, then driven here if there is a free run slot, or offered to the workers.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use runloom_protocol::event::{Event, Started};
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::RunAccepted;
use runloom_protocol::spec::{PromptMessage, Role};

use super::auth::Caller;
use super::backlog_limit::BacklogLimit;
use super::conversations::Conversations;
use crate::dispatcher::Dispatcher;
use crate::error::{Error, Result};
use crate::view;
use runloom_engine::hub::Hub;
use runloom_engine::metrics::METRICS;
use runloom_engine::planner::{Planned, Planner, StoredRun};
use runloom_engine::worker::{Driving, LeasedRun, ReservedSlot};
use runloom_ports::clock::Clock;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{
    Chunk, Claim, Created, Idempotency, Lease, LogEntry, Millis, NewRun, PREVIEW_CHARS, StartNow,
    Store, WorkspaceNo,
};

/// Hint for clients of a stopping server: another process answers at once, the next one soon.
const RETRY_WHEN_STOPPING: Duration = Duration::from_secs(2);

/// A run that is ready to be created.
pub(crate) struct AcceptedRun {
    pub(crate) id: RunId,
    pub(crate) stored: StoredRun,
    pub(crate) planned: Planned,
    pub(crate) idempotency: Option<Idempotency>,
    /// The session of a message.
    pub(crate) session: Option<SessionId>,
    /// The run slot in this process, if there is a free one.
    pub(crate) slot: Option<ReservedSlot>,
    /// Number of messages of the session in the plan.
    pub(crate) history: u64,
}

/// Creates runs of requests and of session messages.
pub(crate) struct RunCreation {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) planner: Arc<Planner>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) backlog: BacklogLimit,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) shutdown: Shutdown,
    pub(crate) clock: Clock,
}

impl RunCreation {
    /// Refuses a run while the process stops, and a run that would have to wait while the backlog is full.
    pub(crate) async fn check_backlog(&self, workspace: WorkspaceNo) -> Result<()> {
        if self.shutdown.is_draining() {
            return Err(Error::Unavailable {
                message: "The server is stopping; try again.".to_owned(),
                retry_after: RETRY_WHEN_STOPPING,
            });
        }
        if self.dispatcher.has_room(workspace) {
            return Ok(());
        }
        self.backlog.check(workspace).await
    }

    /// Makes the run durable and starts it here, or offers it to the workers.
    ///
    /// # Errors
    /// When it cannot be created; nothing was created then.
    pub(crate) async fn create(
        self: &Arc<Self>,
        caller: &Caller,
        mut run: AcceptedRun,
    ) -> Result<RunId> {
        run.stored.session.clone_from(&run.session);
        run.planned.origin = run.stored.origin();
        let start = match (&run.slot, &self.dispatcher.worker) {
            (Some(_), Some(worker)) => Some(StartNow {
                worker: worker.id().to_owned(),
                chunk: started_chunk(self.clock.now())?,
                history: run.history,
            }),
            _ => None,
        };
        let new = self.new_run(caller, &run, start)?;
        let (creation, session) = (Arc::clone(self), run.session.clone());
        // A run that is created with its lease must be driven even if the client has disconnected.
        let work = async move {
            let (id, driving) = creation.insert(new, run).await?;
            let driving = match (driving, session) {
                (Some(driving), Some(session)) => {
                    let conversations = Arc::clone(&creation.conversations);
                    Some(conversations.hear(session, id.clone(), driving))
                }
                (driving, _) => driving,
            };
            Ok((id, driving))
        };
        let id = self.dispatcher.detached_then("create_run", work).await?;
        METRICS.runs_accepted.add(1);
        Ok(id)
    }

    fn new_run(
        &self,
        caller: &Caller,
        run: &AcceptedRun,
        start: Option<StartNow>,
    ) -> Result<NewRun> {
        let (stored, spec) = (&run.stored, &run.stored.spec);
        Ok(NewRun {
            id: run.id.clone(),
            workspace: caller.workspace.no,
            credential: caller.key_id.to_string(),
            session: run.session.clone(),
            spec: serde_json::to_string(&stored.sealed(&*self.planner.sealer)?)
                .map_err(Error::internal)?,
            public_spec: view::public_run(stored)?,
            metadata: spec.metadata.clone(),
            spec_name: spec.name.clone(),
            agent_id: spec.agent_id.as_ref().map(ToString::to_string),
            model_id: stored.model.clone(),
            input_preview: preview(&stored.messages),
            created_at: self.clock.now(),
            idempotency: run.idempotency.clone(),
            private_to: private_to(caller, stored),
            start,
        })
    }

    /// Inserts the run. Returns its drive when it starts here.
    async fn insert(&self, new: NewRun, run: AcceptedRun) -> Result<(RunId, Option<Driving>)> {
        let (workspace, now) = (new.workspace, new.created_at);
        let chunk = new.start.as_ref().map(|start| start.chunk.clone());
        let created = self.store.create_run(new).await?;
        match (created, chunk) {
            (
                Created::New {
                    lease: Some(lease), ..
                },
                Some(chunk),
            ) => {
                let claim = first_claim(workspace, &run, lease, chunk, now);
                let id = run.id.clone();
                Ok((id, self.begin(claim, run)))
            }
            (
                Created::New {
                    run: no, blocked, ..
                },
                _,
            ) => {
                self.backlog.added(workspace);
                if !blocked {
                    self.dispatcher.offer(no, workspace);
                }
                Ok((run.id, None))
            }
            (Created::Replayed(first), _) => Ok((first, None)),
            (Created::KeyReused, _) => Err(Error::IdempotencyKeyReused),
            (Created::NoSession, _) => Err(Error::NotFound { what: "session" }),
            (Created::SessionEnded, _) => Err(Error::SessionEnded),
        }
    }

    /// Hands a run that was created with its lease to the worker.
    fn begin(&self, claim: Claim, run: AcceptedRun) -> Option<Driving> {
        // Subscribers that come before the driver must find the run in the hub.
        let live = self.hub.open(&claim.id, claim.lease.run, claim.workspace);
        for entry in &claim.log {
            live.publish(entry.chunk.clone());
        }
        let (slot, worker) = (run.slot?, self.dispatcher.worker.as_ref()?);
        let leased = LeasedRun {
            claim,
            planned: run.planned,
            request: run.stored.messages,
            live,
        };
        Some(worker.begin(slot, leased))
    }
}

/// The personal owner whose run it is, when it has the project tool.
pub(crate) fn private_to(caller: &Caller, stored: &StoredRun) -> Option<String> {
    stored.project.as_ref()?;
    caller.sees_only().map(str::to_owned)
}

/// The response to a request that created a run.
pub(crate) fn accepted(caller: &Caller, run_id: RunId) -> RunAccepted {
    let workspace = &caller.workspace.slug;
    RunAccepted {
        stream_url: format!("/api/v1/workspaces/{workspace}/agent-runs/{run_id}/stream"),
        run_id,
    }
}

fn started_chunk(now: Millis) -> Result<Chunk> {
    let mut frames = BytesMut::new();
    Event::Started(Started {})
        .write_frame(1, now.since_epoch(), &mut frames)
        .map_err(Error::internal)?;
    Ok(Chunk {
        first_seq: 1,
        last_seq: 1,
        terminal: false,
        frames: frames.freeze(),
    })
}

/// The claim of a run that was created with its lease: what the store would answer, without asking it.
fn first_claim(
    workspace: WorkspaceNo,
    run: &AcceptedRun,
    lease: Lease,
    chunk: Chunk,
    now: Millis,
) -> Claim {
    Claim {
        lease,
        id: run.id.clone(),
        workspace,
        in_session: run.session.is_some(),
        spec: String::new(),
        history: Vec::new(),
        active_model: None,
        log: vec![LogEntry {
            chunk,
            notes: String::new(),
            at: now,
        }],
        mail: Vec::new(),
        attempts: 1,
        taken_over: false,
        created_at: now,
        started_at: now,
    }
}

fn preview(messages: &[PromptMessage]) -> String {
    let last = messages
        .iter()
        .rev()
        .find(|message| message.role == Role::User);
    last.map(|message| message.content.chars().take(PREVIEW_CHARS).collect())
        .unwrap_or_default()
}
