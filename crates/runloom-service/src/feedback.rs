//! Feedback on runs.

use std::sync::Arc;

use runloom_protocol::id::{AgentId, FeedbackId, RunId};
use runloom_protocol::resource::{FeedbackItem, FeedbackList, FeedbackReceipt, TargetKind};
use runloom_protocol::spec::SubmitFeedback;

use super::auth::Caller;
use crate::error::{Error, Result};
use crate::paging::{PAGE_BYTES, PageRequest, cursor_behind, cut_page};
use crate::visibility::check_run_visible;
use runloom_ports::clock::{Clock, rfc3339};
use runloom_ports::store::{FeedbackFilter, FeedbackPut, FeedbackRow, PutFeedback, Store};

/// Feedback on runs.
pub struct FeedbackService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
}

impl FeedbackService {
    /// Stores the feedback on a run and replaces an earlier one. Returns whether it is the first.
    ///
    /// # Errors
    /// When the workspace has no such run.
    pub async fn submit(
        &self,
        caller: &Caller,
        run: &str,
        said: SubmitFeedback,
    ) -> Result<(FeedbackReceipt, bool)> {
        let run = RunId::parse(run).ok_or(Error::NotFound { what: "run" })?;
        check_run_visible(&*self.store, caller, &run).await?;
        let id = FeedbackId::from_suffix(self.clock.new_id());
        let put = PutFeedback {
            id: id.clone(),
            workspace: caller.workspace.no,
            run: run.clone(),
            verdict: said.verdict,
            explanation: said.explanation,
            snapshot: said.content_snapshot,
            now: self.clock.now(),
        };
        let (id, is_first) = match self.store.put_feedback(put).await? {
            FeedbackPut::New => (id, true),
            FeedbackPut::Replaced(first) => (first, false),
            FeedbackPut::UnknownRun => return Err(Error::NotFound { what: "run" }),
        };
        let receipt = FeedbackReceipt {
            id,
            verdict: said.verdict,
            target_kind: TargetKind::AgentRun,
            agent_run_id: run,
        };
        Ok((receipt, is_first))
    }

    /// Feedback of the workspace, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of ours.
    pub async fn list(
        &self,
        caller: &Caller,
        mut filter: FeedbackFilter,
        page: PageRequest,
    ) -> Result<FeedbackList> {
        filter.visible_to = caller.sees_only().map(str::to_owned);
        let (store, workspace) = (&self.store, caller.workspace.no);
        let found = store
            .list_feedback(workspace, &filter, page.for_store()?, PAGE_BYTES)
            .await?;
        let mut rows = found.rows;
        let next_cursor = if found.cut {
            rows.last().map(|row| cursor_behind(row.no))
        } else {
            cut_page(&mut rows, page.limit, |row| row.no)
        };
        let total = if page.include_total {
            Some(store.count_feedback(workspace, &filter).await?)
        } else {
            None
        };
        Ok(FeedbackList {
            total,
            limit: u32::try_from(page.limit).unwrap_or(u32::MAX),
            next_cursor,
            feedback: rows.into_iter().map(item).collect(),
        })
    }
}

fn item(row: FeedbackRow) -> FeedbackItem {
    FeedbackItem {
        id: row.id,
        verdict: row.verdict,
        explanation: row.explanation,
        content_snapshot: row.snapshot,
        target_kind: TargetKind::AgentRun,
        agent_run_id: row.run,
        session_id: row.session,
        agent_id: row.agent_id.as_deref().and_then(AgentId::parse),
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
    }
}
