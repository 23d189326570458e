//! Runs: create, read, stream, tool results, cancel.

use std::sync::Arc;

use bytes::Bytes;
use runloom_protocol::event::split_frames;
use runloom_protocol::id::RunId;
use runloom_protocol::limits::TOOL_FILES_MAX_BYTES;
use runloom_protocol::resource::{RunAccepted, RunList, RunSnapshot, RunStatus};
use runloom_protocol::spec::{CreateRun, SubmitToolResult};

use super::auth::Caller;
use super::create_run::{AcceptedRun, RunCreation, accepted};
use crate::dispatcher::Dispatcher;
use crate::error::{Error, Result};
use crate::files;
use crate::idempotency::or_first_result;
use crate::paging::{PAGE_BYTES, PageRequest, cut_page};
use crate::spec_resolver::SpecResolver;
use crate::view;
use crate::visibility::check_run_visible;
use runloom_engine::hub::{EventStream, Hub, subscribe};
use runloom_ports::clock::Clock;
use runloom_ports::conversation::Conversation;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{Cancelled, Idempotency, RunFilter, RunRow, Store, ToolDelivery};

/// Bytes of one read of a log.
const READ_BYTES: usize = 1024 * 1024;

/// A page of events of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPage {
    /// Their frames, oldest first.
    pub frames: Vec<Bytes>,
    /// The log has more events.
    pub truncated: bool,
}

/// Where a cursor stands in the log of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPosition {
    /// The log has later events, or the run has not ended.
    Within,
    /// At the last event of an ended run.
    End,
    /// After the last event of an ended run.
    BeyondEnd,
}

/// Runs of workspaces.
pub struct RunService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) resolver: Arc<SpecResolver>,
    pub(crate) creation: Arc<RunCreation>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) shutdown: Shutdown,
    pub(crate) clock: Clock,
}

impl RunService {
    /// Creates a run, which is durable when this returns.
    ///
    /// # Errors
    /// When the request is refused; nothing was created then.
    pub async fn create(
        &self,
        caller: &Caller,
        request: CreateRun,
        idempotency: Option<Idempotency>,
    ) -> Result<RunAccepted> {
        let key = idempotency.clone();
        let created = self.try_create(caller, request, idempotency).await;
        let first = or_first_result(&*self.store, caller, key.as_ref(), created, RunId::parse);
        let run = first.await?;
        Ok(accepted(caller, run))
    }

    async fn try_create(
        &self,
        caller: &Caller,
        request: CreateRun,
        idempotency: Option<Idempotency>,
    ) -> Result<RunId> {
        let CreateRun { spec, messages } = request;
        self.creation.check_backlog(caller.workspace.no).await?;
        let checked = self
            .resolver
            .registry
            .check_project_refs(&caller.workspace, &spec.tools);
        checked.await?;
        let stored = self.resolver.resolve(caller, spec, messages, None).await?;
        let id = RunId::from_suffix(self.clock.new_id());
        let planner = &self.creation.planner;
        let planned = planner
            .plan(id.clone(), stored.clone(), Conversation::default())
            .await?;
        let run = AcceptedRun {
            id,
            stored,
            planned,
            idempotency,
            session: None,
            slot: self.dispatcher.reserve(caller.workspace.no),
            history: 0,
        };
        self.creation.create(caller, run).await
    }

    /// The snapshot of a run.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn snapshot(&self, caller: &Caller, id: &str) -> Result<RunSnapshot> {
        let row = self.row(caller, id).await?;
        // Only a run that is not over can wait for a person.
        let pending = if row.status == RunStatus::WaitingApproval {
            self.store.pending_approvals(row.no).await?
        } else {
            Vec::new()
        };
        view::run_snapshot(row, pending)
    }

    /// Runs of the workspace, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of ours.
    pub async fn list(
        &self,
        caller: &Caller,
        mut filter: RunFilter,
        page: PageRequest,
    ) -> Result<RunList> {
        filter.visible_to = caller.sees_only().map(str::to_owned);
        let workspace = caller.workspace.no;
        let rows = self.store.list_runs(workspace, &filter, page.for_store()?);
        let mut rows = rows.await?;
        let next_cursor = cut_page(&mut rows, page.limit, |row| row.no.0);
        let total = if page.include_total {
            Some(self.store.count_runs(workspace, &filter).await?)
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

    /// Streams the events of a run after `after`.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn stream(&self, caller: &Caller, id: &str, after: u64) -> Result<EventStream> {
        let run_id = RunId::parse(id).ok_or(Error::NotFound { what: "run" })?;
        check_run_visible(&*self.store, caller, &run_id).await?;
        let hub = &self.hub;
        let live = match hub.find(&run_id) {
            Some(live) if live.workspace == caller.workspace.no => live,
            Some(_) => return Err(Error::NotFound { what: "run" }),
            None => {
                let row = self.row(caller, id).await?;
                let live = hub.open(&run_id, row.no, caller.workspace.no);
                if row.status.is_terminal() {
                    live.set_ended();
                }
                live
            }
        };
        let store = Arc::clone(&self.store);
        Ok(subscribe(hub, live, store, after, &self.shutdown))
    }

    /// Where event `after` stands in the log of a run; 0 is the start.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn log_position(&self, caller: &Caller, id: &str, after: u64) -> Result<LogPosition> {
        let Some(before) = after.checked_sub(1) else {
            return Ok(LogPosition::Within);
        };
        let row = self.row(caller, id).await?;
        if !row.status.is_terminal() || !self.store.read_log(row.no, after, 1).await?.is_empty() {
            return Ok(LogPosition::Within);
        }
        Ok(
            match self.store.read_log(row.no, before, 1).await?.is_empty() {
                true => LogPosition::BeyondEnd,
                false => LogPosition::End,
            },
        )
    }

    /// Frames of a run after `after`, without waiting for more: at most `limit`, within the size of a page.
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
        let run = self.row(caller, id).await?.no;
        let mut page = EventPage::default();
        let mut bytes = 0;
        let mut cursor = after;
        loop {
            let chunks = self.store.read_log(run, cursor, READ_BYTES).await?;
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

    /// Accepts the result of a client tool, which is durable when this returns.
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
        check_run_visible(&*self.store, caller, &run).await?;
        let answer = SubmitToolResult {
            files: files::read_leniently(answer.files, TOOL_FILES_MAX_BYTES).await,
            ..answer
        };
        let (workspace, now) = (caller.workspace.no, self.clock.now());
        let (store, dispatcher) = (Arc::clone(&self.store), self.dispatcher.clone());
        let work = async move {
            let delivered = store
                .deliver_tool_result(workspace, &run, &answer, idempotency.as_ref(), now)
                .await?;
            match delivered {
                ToolDelivery::Accepted(delivery) => {
                    dispatcher.notify(delivery, workspace);
                    Ok(())
                }
                ToolDelivery::Replayed | ToolDelivery::Ignored => Ok(()),
                ToolDelivery::KeyReused => Err(Error::IdempotencyKeyReused),
                ToolDelivery::Terminal => Err(Error::RunTerminal),
                ToolDelivery::UnknownCall => Err(Error::UnknownToolUse),
                ToolDelivery::UnknownRun => Err(Error::NotFound { what: "run" }),
            }
        };
        self.dispatcher.detached("submit_tool_result", work).await
    }

    /// Cancels a run. A run that has ended stays as it is.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn cancel(&self, caller: &Caller, id: &str) -> Result<()> {
        self.cancel_because(caller, id, "user").await
    }

    /// The same for another reason.
    pub(crate) async fn cancel_because(
        &self,
        caller: &Caller,
        id: &str,
        reason: &'static str,
    ) -> Result<()> {
        let run = RunId::parse(id).ok_or(Error::NotFound { what: "run" })?;
        check_run_visible(&*self.store, caller, &run).await?;
        let (workspace, now) = (caller.workspace.no, self.clock.now());
        let (store, dispatcher) = (Arc::clone(&self.store), self.dispatcher.clone());
        let work = async move {
            match store.cancel_run(workspace, &run, reason, now).await? {
                Cancelled::Accepted(delivery) => {
                    dispatcher.notify_cancel(delivery, workspace);
                    Ok(())
                }
                Cancelled::Nothing => Ok(()),
                Cancelled::UnknownRun => Err(Error::NotFound { what: "run" }),
            }
        };
        self.dispatcher.detached("cancel_run", work).await
    }

    pub(crate) async fn row(&self, caller: &Caller, id: &str) -> Result<RunRow> {
        let run = RunId::parse(id).ok_or(Error::NotFound { what: "run" })?;
        check_run_visible(&*self.store, caller, &run).await?;
        self.store
            .run(caller.workspace.no, &run)
            .await?
            .ok_or(Error::NotFound { what: "run" })
    }
}
