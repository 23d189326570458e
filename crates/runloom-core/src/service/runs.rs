//! Runs: create, read, watch, answer, cancel.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use runloom_protocol::event::{Event, Started, split_frames};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::{RunAccepted, RunList, RunSnapshot};
use runloom_protocol::spec::{AgentSpec, CreateRun, PromptMessage, Role, SubmitToolResult};

use super::auth::Caller;
use super::{EventStream, PageRequest, Service, ServiceParts, cut_page, view};
use crate::error::{Error, Result};
use crate::hub::subscribe;
use crate::metrics::METRICS;
use crate::planner::{Planned, StoredRun};
use crate::ports::store::{
    Cancelled, Chunk, Claim, Created, Idempotency, Lease, LogEntry, Millis, NewRun, RunFilter,
    RunRow, StartNow, ToolDelivery, WorkspaceNo,
};
use crate::worker::Place;

/// Characters of a prompt that lists show.
const PREVIEW_CHARS: usize = 200;
/// How much of a log one page of `events` reads.
const EVENTS_PAGE_BYTES: usize = 1024 * 1024;

impl Service {
    /// Accepts a run: when this returns, it is durable.
    ///
    /// # Errors
    /// When the request cannot be run; nothing was created then.
    pub async fn create_run(
        &self,
        caller: &Caller,
        request: CreateRun,
        idempotency: Option<Idempotency>,
    ) -> Result<RunAccepted> {
        let CreateRun { spec, messages } = request;
        self.admit_run(caller.workspace.no).await?;
        let stored = self.resolve(caller, spec, messages).await?;
        let id = RunId::from_suffix(self.clock.new_id());
        let planned = self
            .parts
            .planner
            .plan(id.clone(), stored.clone(), Vec::new())
            .await?;
        let place = self
            .parts
            .worker
            .as_ref()
            .and_then(|worker| worker.reserve(caller.workspace.no));
        let chunk = started_chunk()?;
        let start = place
            .as_ref()
            .zip(self.parts.worker.as_ref())
            .map(|(_, worker)| StartNow {
                worker: worker.id().to_owned(),
                chunk: chunk.clone(),
            });
        let new = self.new_run(caller, &id, &stored, idempotency, start)?;
        let (parts, workspace) = (self.parts.clone(), caller.workspace.no);
        let admission = Arc::clone(&self.admission);
        // A run that is created with its lease belongs to this worker: it must be driven even if the client has hung up.
        let id = self
            .see_through(async move {
                let now = new.created_at;
                match parts.store.create_run(new).await? {
                    Created::New {
                        run,
                        lease: Some(lease),
                        ..
                    } => {
                        let claim = first_claim(workspace, &id, lease, chunk, now);
                        parts.begin(place, claim, planned, stored.messages, run);
                    }
                    Created::New {
                        run,
                        blocked: false,
                        ..
                    } => {
                        admission.added(workspace);
                        parts.offer(run, workspace);
                    }
                    Created::New { .. } => admission.added(workspace),
                    Created::Replayed(first) => return Ok(first),
                    Created::KeyReused => return Err(Error::IdempotencyKeyReused),
                    Created::NoSession => return Err(Error::NotFound { what: "session" }),
                    Created::SessionEnded => return Err(Error::SessionEnded),
                }
                Ok(id)
            })
            .await?;
        METRICS.runs_accepted.add(1);
        Ok(accepted(caller, &id))
    }

    /// A run's snapshot.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn run(&self, caller: &Caller, id: &str) -> Result<RunSnapshot> {
        view::run_snapshot(self.run_row(caller, id).await?)
    }

    /// Runs of the workspace, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of ours.
    pub async fn list_runs(
        &self,
        caller: &Caller,
        filter: RunFilter,
        page: PageRequest,
    ) -> Result<RunList> {
        let workspace = caller.workspace.no;
        let mut rows = self
            .parts
            .store
            .list_runs(workspace, &filter, page.for_store()?)
            .await?;
        let next_cursor = cut_page(&mut rows, page.limit, |row| row.no.0);
        let total = if page.include_total {
            Some(self.parts.store.count_runs(workspace, &filter).await?)
        } else {
            None
        };
        let limit = u32::try_from(page.limit).unwrap_or(u32::MAX);
        Ok(RunList {
            total,
            limit,
            next_cursor,
            runs: rows.into_iter().map(view::run_list_item).collect(),
        })
    }

    /// Streams a run's events after `after`.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn stream(&self, caller: &Caller, id: &str, after: u64) -> Result<EventStream> {
        let run_id = RunId::parse(id).ok_or(Error::NotFound { what: "run" })?;
        let hub = &self.parts.hub;
        let live = match hub.find(&run_id) {
            Some(live) if live.workspace == caller.workspace.no => live,
            Some(_) => return Err(Error::NotFound { what: "run" }),
            None => {
                let row = self.run_row(caller, id).await?;
                let live = hub.open(&run_id, row.no, caller.workspace.no);
                if row.status.is_terminal() {
                    live.set_ended();
                }
                live
            }
        };
        let store = Arc::clone(&self.parts.store);
        Ok(subscribe(
            hub,
            live,
            store,
            after,
            self.parts.end_streams.clone(),
        ))
    }

    /// Frames of a run after `after`, without waiting for more.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn events(
        &self,
        caller: &Caller,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Bytes>> {
        let row = self.run_row(caller, id).await?;
        let mut frames = Vec::new();
        let mut cursor = after;
        while frames.len() < limit {
            let chunks = self
                .parts
                .store
                .read_log(row.no, cursor, EVENTS_PAGE_BYTES)
                .await?;
            let Some(last) = chunks.last() else { break };
            cursor = last.last_seq;
            for chunk in &chunks {
                let numbered = split_frames(&chunk.frames).zip(chunk.first_seq..);
                let new = numbered
                    .filter(|(_, seq)| *seq > after)
                    .map(|(frame, _)| chunk.frames.slice_ref(frame));
                frames.extend(new);
            }
        }
        frames.truncate(limit);
        Ok(frames)
    }

    /// Accepts a client's answer to a tool call: when this returns, it is durable.
    ///
    /// # Errors
    /// When no such call waits.
    pub async fn submit_tool_result(
        &self,
        caller: &Caller,
        id: &str,
        answer: SubmitToolResult,
        idempotency: Option<Idempotency>,
    ) -> Result<()> {
        let run = RunId::parse(id).ok_or(Error::NotFound { what: "run" })?;
        let (workspace, now) = (caller.workspace.no, self.clock.now());
        let parts = self.parts.clone();
        self.see_through(async move {
            let delivered = parts
                .store
                .deliver_tool_result(workspace, &run, &answer, idempotency.as_ref(), now)
                .await?;
            match delivered {
                ToolDelivery::Accepted(delivery) => {
                    parts.notify(delivery, workspace);
                    Ok(())
                }
                ToolDelivery::Replayed | ToolDelivery::Ignored => Ok(()),
                ToolDelivery::KeyReused => Err(Error::IdempotencyKeyReused),
                ToolDelivery::Terminal => Err(Error::RunTerminal),
                ToolDelivery::UnknownCall => Err(Error::UnknownToolUse),
                ToolDelivery::UnknownRun => Err(Error::NotFound { what: "run" }),
            }
        })
        .await
    }

    /// Asks a run to stop. A run that has ended stays as it is.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn cancel_run(&self, caller: &Caller, id: &str) -> Result<()> {
        let run = RunId::parse(id).ok_or(Error::NotFound { what: "run" })?;
        let (parts, workspace, now) = (self.parts.clone(), caller.workspace.no, self.clock.now());
        self.see_through(async move {
            match parts.store.cancel_run(workspace, &run, "user", now).await? {
                Cancelled::Accepted(delivery) => {
                    parts.notify(delivery, workspace);
                    Ok(())
                }
                Cancelled::Nothing => Ok(()),
                Cancelled::UnknownRun => Err(Error::NotFound { what: "run" }),
            }
        })
        .await
    }

    /// Refuses a run that would only make a long queue longer. One that finds a place in this process does not.
    pub(super) async fn admit_run(&self, workspace: WorkspaceNo) -> Result<()> {
        let worker = self.parts.worker.as_ref();
        if worker.is_some_and(|worker| worker.has_room(workspace)) {
            return Ok(());
        }
        self.admission.check(workspace).await
    }

    pub(super) async fn run_row(&self, caller: &Caller, id: &str) -> Result<RunRow> {
        let run = RunId::parse(id).ok_or(Error::NotFound { what: "run" })?;
        self.parts
            .store
            .run(caller.workspace.no, &run)
            .await?
            .ok_or(Error::NotFound { what: "run" })
    }

    /// Resolves what a spec refers to: agent, plugins, model.
    pub(super) async fn resolve(
        &self,
        caller: &Caller,
        spec: AgentSpec,
        messages: Vec<PromptMessage>,
    ) -> Result<StoredRun> {
        let spec = self.parts.registry.resolve_agent(caller, spec).await?;
        self.parts
            .tools
            .check(&caller.workspace.slug, &spec.tools)
            .await?;
        let workspace = caller.workspace.slug.clone();
        let model = self
            .parts
            .planner
            .catalog
            .find(&workspace, spec.model_id.as_deref())
            .await?
            .id
            .clone();
        Ok(StoredRun {
            workspace,
            key: Some(caller.key_id.to_string()),
            model,
            spec,
            messages,
        })
    }

    pub(super) fn new_run(
        &self,
        caller: &Caller,
        id: &RunId,
        stored: &StoredRun,
        idempotency: Option<Idempotency>,
        start: Option<StartNow>,
    ) -> Result<NewRun> {
        Ok(NewRun {
            id: id.clone(),
            workspace: caller.workspace.no,
            credential: caller.key_id.to_string(),
            session: None,
            spec: serde_json::to_string(&stored.sealed(&self.parts.planner.vault)?)
                .map_err(Error::internal)?,
            public_spec: serde_json::to_string(&view::public_spec(&stored.spec))
                .map_err(Error::internal)?,
            metadata: stored.spec.metadata.clone(),
            spec_name: stored.spec.name.clone(),
            agent_id: stored.spec.agent_id.as_ref().map(ToString::to_string),
            model_id: stored.model.clone(),
            input_preview: preview(&stored.messages),
            created_at: self.clock.now(),
            idempotency,
            start,
        })
    }
}

impl ServiceParts {
    /// Hands a run that was created with its lease to the worker.
    fn begin(
        &self,
        place: Option<Place>,
        claim: Claim,
        planned: Planned,
        request: Vec<PromptMessage>,
        run: crate::ports::store::RunNo,
    ) {
        // A subscriber may come before the driver's first word: it must find the run in the hub.
        let live = self.hub.open(&claim.id, run, claim.workspace);
        for entry in &claim.log {
            live.publish(entry.chunk.clone());
        }
        if let (Some(place), Some(worker)) = (place, &self.worker) {
            worker.begin(place, claim, planned, request, live);
        }
    }
}

pub(super) fn accepted(caller: &Caller, id: &RunId) -> RunAccepted {
    let stream_url = format!(
        "/api/v1/workspaces/{}/agent-runs/{id}/stream",
        caller.workspace.slug
    );
    RunAccepted {
        run_id: id.clone(),
        stream_url,
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
    id: &RunId,
    lease: Lease,
    chunk: Chunk,
    now: Millis,
) -> Claim {
    Claim {
        lease,
        id: id.clone(),
        workspace,
        session: None,
        spec: String::new(),
        history: Vec::new(),
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
