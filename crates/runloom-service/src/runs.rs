//! Runs: create, read, watch, answer, cancel.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use runloom_protocol::event::split_frames;
use runloom_protocol::id::RunId;
use runloom_protocol::limits::TOOL_FILES_MAX_BYTES;
use runloom_protocol::resource::{RunAccepted, RunList, RunSnapshot, RunStatus};
use runloom_protocol::spec::{AgentSpec, CreateRun, PromptMessage, SubmitToolResult};
use tracing::warn;

use super::auth::Caller;
use super::create_run::{AcceptedRun, accepted};
use crate::error::{Error, Result};
use crate::files;
use crate::paging::{PAGE_BYTES, PageRequest, cut_page};
use crate::service::Service;
use crate::view;
use runloom_engine::catalog::CatalogModel;
use runloom_engine::hub::EventStream;
use runloom_engine::hub::subscribe;
use runloom_engine::planner::StoredRun;
use runloom_ports::conversation::Conversation;
use runloom_ports::store::{Cancelled, Idempotency, RunFilter, RunRow, ToolDelivery, WorkspaceNo};

/// How much of a log is read at once.
const READ_BYTES: usize = 1024 * 1024;

/// When a client may try again that a stopping server refused: another process answers at once, the next one soon.
const RETRY_WHEN_STOPPING: Duration = Duration::from_secs(2);

/// Events of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPage {
    /// Their frames, oldest first.
    pub frames: Vec<Bytes>,
    /// The log has more behind them.
    pub truncated: bool,
}

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
        let key = idempotency.clone();
        let created = self.try_create_run(caller, request, idempotency).await;
        let run = self
            .or_first_answer(caller, key.as_ref(), created, RunId::parse)
            .await?;
        Ok(accepted(caller, run))
    }

    async fn try_create_run(
        &self,
        caller: &Caller,
        request: CreateRun,
        idempotency: Option<Idempotency>,
    ) -> Result<RunId> {
        let CreateRun { spec, messages } = request;
        self.check_backlog(caller.workspace.no).await?;
        let stored = self.resolve(caller, spec, messages, None).await?;
        let id = RunId::from_suffix(self.clock.new_id());
        let planned = self
            .parts
            .planner
            .plan(id.clone(), stored.clone(), Conversation::default())
            .await?;
        let run = AcceptedRun {
            id,
            stored,
            planned,
            idempotency,
            session: None,
            slot: self.slot(caller),
            history: 0,
        };
        self.admit(caller, run).await
    }

    /// A run's snapshot.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn run(&self, caller: &Caller, id: &str) -> Result<RunSnapshot> {
        let row = self.run_row(caller, id).await?;
        // Only a run that is not over can wait for a person.
        let pending = if row.status == RunStatus::WaitingApproval {
            self.parts.store.pending_approvals(row.no).await?
        } else {
            Vec::new()
        };
        view::run_snapshot(row, pending)
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
        Ok(subscribe(hub, live, store, after, &self.parts.shutdown))
    }

    /// Frames of a run after `after`, without waiting for more: at most `limit`, and no more than one answer holds.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn events(
        &self,
        caller: &Caller,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Result<EventPage> {
        let run = self.run_row(caller, id).await?.no;
        let mut page = EventPage::default();
        let mut bytes = 0;
        let mut cursor = after;
        loop {
            let chunks = self.parts.store.read_log(run, cursor, READ_BYTES).await?;
            let Some(last) = chunks.last() else {
                return Ok(page);
            };
            cursor = last.last_seq;
            for chunk in &chunks {
                let numbered = split_frames(&chunk.frames).zip(chunk.first_seq..);
                for (frame, _) in numbered.filter(|(_, seq)| *seq > after) {
                    bytes += frame.len();
                    let is_full = page.frames.len() >= limit || bytes > PAGE_BYTES;
                    if is_full && !page.frames.is_empty() {
                        page.truncated = true;
                        return Ok(page);
                    }
                    page.frames.push(chunk.frames.slice_ref(frame));
                }
            }
        }
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
        let answer = SubmitToolResult {
            files: files::read_leniently(answer.files, TOOL_FILES_MAX_BYTES).await,
            ..answer
        };
        let (workspace, now) = (caller.workspace.no, self.clock.now());
        let parts = self.parts.clone();
        self.run_detached(async move {
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
        self.run_detached(async move {
            match parts.store.cancel_run(workspace, &run, "user", now).await? {
                Cancelled::Accepted(delivery) => {
                    parts.notify_cancel(delivery, workspace);
                    Ok(())
                }
                Cancelled::Nothing => Ok(()),
                Cancelled::UnknownRun => Err(Error::NotFound { what: "run" }),
            }
        })
        .await
    }

    /// Refuses a run that would only make a long queue longer, which one that finds a place in this process does not, and every
    /// run while the process stops: its client is better off at another process, or at the next one, than waiting here.
    pub(super) async fn check_backlog(&self, workspace: WorkspaceNo) -> Result<()> {
        if self.parts.shutdown.is_draining() {
            return Err(Error::Unavailable {
                message: "The server is stopping; try again.".to_owned(),
                retry_after: RETRY_WHEN_STOPPING,
            });
        }
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

    /// Resolves what a request refers to: agent, plugins, model, files. What a session stays with was asked for long ago.
    pub(super) async fn resolve(
        &self,
        caller: &Caller,
        spec: AgentSpec,
        messages: Vec<PromptMessage>,
        staying: Option<Staying<'_>>,
    ) -> Result<StoredRun> {
        let spec = self.parts.registry.resolve_agent(caller, spec).await?;
        self.parts
            .tools
            .check(&caller.workspace.slug, &spec.tools)
            .await?;
        let workspace = caller.workspace.slug.clone();
        let (model, fallback) = self.models_of(&workspace, &spec, staying).await?;
        let models: Vec<&CatalogModel> = [Some(&model), fallback.as_ref()]
            .into_iter()
            .flatten()
            .map(|model| &**model)
            .collect();
        Ok(StoredRun {
            workspace,
            key: Some(caller.key_id.to_string()),
            messages: self.take_in(caller.workspace.no, &models, messages).await?,
            model: model.id.clone(),
            fallback: fallback.map(|model| model.id.clone()),
            spec,
            session: None,
            trace: caller.trace,
        })
    }

    /// The model of a spec, and its fallback. A request that names a fallback which is none is refused; a session whose fallback was
    /// removed goes on without, and one that stays on its fallback does not need the other.
    async fn models_of(
        &self,
        workspace: &str,
        spec: &AgentSpec,
        staying: Option<Staying<'_>>,
    ) -> Result<(Arc<CatalogModel>, Option<Arc<CatalogModel>>)> {
        let catalog = &self.parts.planner.catalog;
        let model = catalog.find(workspace, spec.model_id.as_deref()).await;
        let Some(name) = spec.fallback_model_id.as_deref() else {
            return Ok((model?, None));
        };
        let fallback = match (catalog.find(workspace, Some(name)).await, staying) {
            (Ok(found), _) => found,
            (Err(error), None) => return Err(Error::from(error).at_field("fallbackModelId")),
            (Err(error), Some(_)) => {
                warn!(workspace, fallback = name, %error, "a session's fallback is not there");
                return Ok((model?, None));
            }
        };
        let active = staying.and_then(|staying| staying.active);
        if model.is_err() && active == Some(fallback.id.as_str()) {
            return Ok((fallback, None));
        }
        let model = model?;
        // An agent's fallback may be just the model that a request asks for: then there is none.
        let fallback = Some(fallback).filter(|fallback| fallback.id != model.id);
        Ok((model, fallback))
    }
}

/// What a message's session has settled on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staying<'a> {
    /// Catalog id of the model that it stays on since a run fell back.
    pub(super) active: Option<&'a str>,
}
