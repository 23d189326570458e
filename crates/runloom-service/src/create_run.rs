//! Accepting a run: made durable, then driven here when there is a place, or offered to the workers.

use std::sync::Arc;

use bytes::BytesMut;
use runloom_protocol::event::{Event, Started};
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::RunAccepted;
use runloom_protocol::spec::{PromptMessage, Role};

use super::auth::Caller;
use super::backlog_limit::BacklogLimit;
use crate::error::{Error, Result};
use crate::service::{Service, ServiceParts};
use crate::view;
use runloom_engine::metrics::METRICS;
use runloom_engine::planner::{Planned, StoredRun};
use runloom_engine::worker::{Driving, LeasedRun, ReservedSlot};
use runloom_ports::store::{
    Chunk, Claim, Created, Idempotency, Lease, LogEntry, Millis, NewRun, PREVIEW_CHARS, StartNow,
    WorkspaceNo,
};

/// A run that is ready to be created.
pub(super) struct AcceptedRun {
    pub(super) id: RunId,
    pub(super) stored: StoredRun,
    pub(super) planned: Planned,
    pub(super) idempotency: Option<Idempotency>,
    /// Whose message it is.
    pub(super) session: Option<SessionId>,
    /// The run slot in this process, if there is a free one.
    pub(super) slot: Option<ReservedSlot>,
    /// How many messages of its session the plan holds.
    pub(super) history: u64,
}

impl Service {
    /// A run slot of this process, if it has a free one.
    pub(super) fn slot(&self, caller: &Caller) -> Option<ReservedSlot> {
        self.parts.worker.as_ref()?.reserve(caller.workspace.no)
    }

    /// Makes the run durable and sets it going.
    ///
    /// # Errors
    /// When it cannot be created; nothing was then.
    pub(super) async fn admit(&self, caller: &Caller, mut run: AcceptedRun) -> Result<RunId> {
        run.stored.session.clone_from(&run.session);
        run.planned.origin = run.stored.origin();
        let start = match (&run.slot, &self.parts.worker) {
            (Some(_), Some(worker)) => Some(StartNow {
                worker: worker.id().to_owned(),
                chunk: started_chunk()?,
                history: run.history,
            }),
            _ => None,
        };
        let new = self.new_run(caller, &run, start)?;
        let parts = self.parts.clone();
        let admission = Arc::clone(&self.admission);
        let (conversations, session) = (Arc::clone(&self.conversations), run.session.clone());
        // A run that is created with its lease belongs to this worker: it must be driven even if the client has hung up.
        let id = self
            .run_detached_then(async move {
                let (id, driving) = parts.create(new, run, &admission).await?;
                let driving = match (driving, session) {
                    (Some(driving), Some(session)) => {
                        Some(conversations.hear(session, id.clone(), driving))
                    }
                    (driving, _) => driving,
                };
                Ok((id, driving))
            })
            .await?;
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
            spec: serde_json::to_string(&stored.sealed(&*self.parts.planner.sealer)?)
                .map_err(Error::internal)?,
            public_spec: view::public_run(stored)?,
            metadata: spec.metadata.clone(),
            spec_name: spec.name.clone(),
            agent_id: spec.agent_id.as_ref().map(ToString::to_string),
            model_id: stored.model.clone(),
            input_preview: preview(&stored.messages),
            created_at: self.clock.now(),
            idempotency: run.idempotency.clone(),
            start,
        })
    }
}

impl ServiceParts {
    /// Creates the run; when it begins here, what drives it comes along.
    async fn create(
        &self,
        new: NewRun,
        run: AcceptedRun,
        admission: &BacklogLimit,
    ) -> Result<(RunId, Option<Driving>)> {
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
                admission.added(workspace);
                if !blocked {
                    self.offer(no, workspace);
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
        // A subscriber may come before the driver's first word: it must find the run in the hub.
        let live = self.hub.open(&claim.id, claim.lease.run, claim.workspace);
        for entry in &claim.log {
            live.publish(entry.chunk.clone());
        }
        let (slot, worker) = (run.slot?, self.worker.as_ref()?);
        let leased = LeasedRun {
            claim,
            planned: run.planned,
            request: run.stored.messages,
            live,
        };
        Some(worker.begin(slot, leased))
    }
}

/// What the client of an accepted run is told.
pub(super) fn accepted(caller: &Caller, run_id: RunId) -> RunAccepted {
    let workspace = &caller.workspace.slug;
    RunAccepted {
        stream_url: format!("/api/v1/workspaces/{workspace}/agent-runs/{run_id}/stream"),
        run_id,
    }
}

fn started_chunk() -> Result<Chunk> {
    let mut frames = BytesMut::new();
    Event::Started(Started {})
        .write_frame(1, &mut frames)
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
