//! Approvals: the inbox of a workspace, and decisions.

use runloom_protocol::approval::{ApprovalStatus, Ruling};
use runloom_protocol::id::{ApprovalId, RunId};
use runloom_protocol::resource::{Approval, ApprovalList, ApprovalReceipt};
use serde::Serialize;

use crate::client::Client;
use crate::error::Result;
use crate::transport::{Call, Repeat};

/// Which approvals to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApprovalFilter {
    /// Only approvals in this state.
    pub status: Option<ApprovalStatus>,
    /// Only approvals of this run.
    pub run: Option<RunId>,
    /// Only approvals of this root and the runs below it.
    pub root: Option<RunId>,
    /// Page size, at most 200.
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Whether the whole number is counted.
    pub include_total: bool,
}

impl ApprovalFilter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let pairs = [
            (
                "status",
                self.status.map(|status| status.as_str().to_owned()),
            ),
            ("runId", self.run.as_ref().map(ToString::to_string)),
            ("rootRunId", self.root.as_ref().map(ToString::to_string)),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("cursor", self.cursor.clone()),
            (
                "includeTotal",
                self.include_total.then(|| "true".to_owned()),
            ),
        ];
        let given = |(key, value): (_, Option<String>)| value.map(|value| (key, value));
        pairs.into_iter().filter_map(given).collect()
    }
}

/// A decision about an approval.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecision {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// What is decided.
    #[serde(flatten)]
    pub ruling: Ruling,
}

impl Client {
    /// One page of the workspace's approvals, newest first.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn approvals(&self, filter: &ApprovalFilter) -> Result<ApprovalList> {
        let mut url = self.path(&["approvals"]);
        let query = filter.query();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.transport.json(Call::get(url)).await
    }

    /// One approval.
    ///
    /// # Errors
    /// `unknown_approval`, another refusal, or the server is away.
    pub async fn approval(&self, id: &ApprovalId) -> Result<Approval> {
        self.transport
            .json(Call::get(self.path(&["approvals", id.as_str()])))
            .await
    }

    /// Decides about a tool call of the run or of a run below it. Repeated through 429, 5xx and broken connections:
    /// the same decision again changes nothing.
    ///
    /// # Errors
    /// `approval_decided` when another decision came first, `run_terminal` when the run has ended, other refusals, or
    /// the server is away.
    pub async fn decide(&self, run: &RunId, decision: &ApprovalDecision) -> Result<Approval> {
        let url = self.path(&["agent-runs", run.as_str(), "approvals"]);
        let call = Call::post(url, decision, Repeat::Harmless)?;
        let receipt: ApprovalReceipt = self.transport.json(call).await?;
        Ok(receipt.approval)
    }
}
