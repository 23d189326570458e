//! Approvals: the inbox, and the decisions of people.

use std::sync::Arc;

use runloom_protocol::approval::{DecideApproval, DecidedBy, DeciderKind, Ruling};
use runloom_protocol::error::Issue;
use runloom_protocol::id::{AgentId, ApprovalId, KeyId, RunId};
use runloom_protocol::policy::Decision;
use runloom_protocol::resource::{Approval, ApprovalList, ApprovalReceipt};

use super::auth::Caller;
use crate::dispatcher::Dispatcher;
use crate::error::{Error, Result};
use crate::paging::{PAGE_BYTES, PageRequest, cursor_behind, cut_page};
use crate::view;
use crate::visibility::check_run_visible;
use runloom_engine::call_checks::CallChecks;
use runloom_engine::policy::compile_all;
use runloom_ports::clock::{Clock, rfc3339};
use runloom_ports::store::{
    ApprovalFilter, ApprovalRow, DecisionDelivery, Idempotency, PutDecision, Store,
};
use runloom_schema::SchemaCache;

/// Approvals of workspaces.
pub struct ApprovalService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) schemas: Arc<SchemaCache>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) clock: Clock,
}

impl ApprovalService {
    /// Accepts a person's decision about a tool call: when this returns, it is durable.
    ///
    /// # Errors
    /// When there is no such approval, it has another decision, it is not for this credential, the run has ended, or
    /// changed arguments do not fit the tool or are denied by a policy.
    pub async fn decide(
        &self,
        caller: &Caller,
        run: &str,
        request: DecideApproval,
        idempotency: Option<Idempotency>,
    ) -> Result<ApprovalReceipt> {
        let run = RunId::parse(run).ok_or(Error::NotFound { what: "run" })?;
        check_run_visible(&*self.store, caller, &run).await?;
        let DecideApproval {
            approval_id,
            mut ruling,
        } = request;
        if let Some(row) = self.find_approval(caller, &approval_id).await? {
            // Arguments that are given as they were are not changed.
            ruling.input.take_if(|input| *input == row.request.input);
            check_sub_decisions(&row, &ruling)?;
            self.check_changes(caller, &row, &ruling).await?;
        }
        let decision = PutDecision {
            workspace: caller.workspace.no,
            run,
            approval: approval_id,
            ruling,
            by: decider(caller),
            idempotency,
            now: self.clock.now(),
        };
        let workspace = caller.workspace.no;
        let (store, dispatcher) = (Arc::clone(&self.store), self.dispatcher.clone());
        let approval = self
            .dispatcher
            .detached("decide_approval", async move {
                match store.decide_approval(decision).await? {
                    DecisionDelivery::Accepted(delivery, row) => {
                        dispatcher.notify(delivery, workspace);
                        Ok(shown(*row))
                    }
                    DecisionDelivery::Same(row) => Ok(shown(*row)),
                    DecisionDelivery::Decided(row) => {
                        Err(Error::ApprovalDecided(Box::new(shown(*row))))
                    }
                    DecisionDelivery::KeyReused => Err(Error::IdempotencyKeyReused),
                    DecisionDelivery::NotForThisCredential => Err(Error::Forbidden {
                        message: "The policy wants another credential to decide than the one that started the run"
                            .to_owned(),
                    }),
                    DecisionDelivery::Terminal => Err(Error::RunTerminal),
                    DecisionDelivery::UnknownApproval => Err(Error::UnknownApproval),
                    DecisionDelivery::UnknownRun => Err(Error::NotFound { what: "run" }),
                }
            })
            .await?;
        Ok(ApprovalReceipt { ok: true, approval })
    }

    /// One approval of the workspace.
    ///
    /// # Errors
    /// When there is no such approval.
    pub async fn get(&self, caller: &Caller, id: &str) -> Result<Approval> {
        let id = ApprovalId::parse(id).ok_or(Error::UnknownApproval)?;
        let found = self.find_approval(caller, &id).await?;
        found.map(shown).ok_or(Error::UnknownApproval)
    }

    /// Approvals of the workspace, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of ours.
    pub async fn list(
        &self,
        caller: &Caller,
        mut filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<ApprovalList> {
        filter.visible_to = caller.sees_only().map(str::to_owned);
        let (store, workspace) = (&self.store, caller.workspace.no);
        let found = store
            .list_approvals(workspace, &filter, page.for_store()?, PAGE_BYTES)
            .await?;
        let mut rows = found.rows;
        let next_cursor = if found.cut {
            rows.last().map(|row| cursor_behind(row.no))
        } else {
            cut_page(&mut rows, page.limit, |row| row.no)
        };
        let total = if page.include_total {
            Some(store.count_approvals(workspace, &filter).await?)
        } else {
            None
        };
        Ok(ApprovalList {
            total,
            limit: u32::try_from(page.limit).unwrap_or(u32::MAX),
            next_cursor,
            approvals: rows.into_iter().map(shown).collect(),
        })
    }

    async fn find_approval(&self, caller: &Caller, id: &ApprovalId) -> Result<Option<ApprovalRow>> {
        let (store, workspace) = (&self.store, caller.workspace.no);
        let found = store.approval(workspace, id).await?;
        if let Some(row) = &found {
            let visible = check_run_visible(&**store, caller, &row.request.run_id).await;
            visible.map_err(|error| match error {
                Error::NotFound { .. } => Error::UnknownApproval,
                other => other,
            })?;
        }
        Ok(found)
    }

    /// Checks changed arguments against the tool's schema and the policies of the run, off the async threads.
    async fn check_changes(
        &self,
        caller: &Caller,
        row: &ApprovalRow,
        ruling: &Ruling,
    ) -> Result<()> {
        let is_changed = |ruling: &Ruling| {
            let changed = |sub: &runloom_protocol::approval::SubDecision| sub.input.is_some();
            ruling.input.is_some() || ruling.sub_decisions.iter().any(changed)
        };
        if !is_changed(ruling) {
            return Ok(());
        }
        let (store, run) = (&self.store, &row.request.run_id);
        let asking = store.run(caller.workspace.no, run).await?;
        let asking = asking.ok_or(Error::NotFound { what: "run" })?;
        let spec = view::parse_spec(&asking.public_spec)?;
        let checks: Option<CallChecks> =
            serde_json::from_str(&row.checks).map_err(Error::internal)?;
        let (ruling, schemas) = (ruling.clone(), Arc::clone(&self.schemas));
        let checking = tokio::task::spawn_blocking(move || {
            let policies = compile_all(spec.policies(), &schemas)?;
            checks.map_or(Ok(()), |checks| checks.check(&ruling, &policies, &schemas))
        });
        let checked = checking.await.map_err(Error::internal)?;
        checked.map_err(Error::Invalid)
    }
}

/// Sub-decisions are about sub-actions for which a person was asked.
fn check_sub_decisions(row: &ApprovalRow, ruling: &Ruling) -> Result<()> {
    let asked = |id: &str| {
        let mut known = row.request.sub_actions.iter();
        known.any(|sub| sub.id == id && sub.decision == Decision::Ask)
    };
    let decisions = ruling.sub_decisions.iter().enumerate();
    let issues: Vec<Issue> = decisions
        .filter(|(_, decision)| !asked(&decision.id))
        .map(|(index, decision)| Issue {
            path: format!("subDecisions[{index}].id"),
            message: format!(
                "no approval was requested for the sub-action `{}`",
                decision.id
            ),
        })
        .collect();
    if issues.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(issues))
    }
}

fn decider(caller: &Caller) -> DecidedBy {
    let id = caller.key_id.as_str();
    DecidedBy {
        kind: if KeyId::parse(id).is_some() {
            DeciderKind::Key
        } else {
            DeciderKind::Grant
        },
        id: Some(id.to_owned()),
    }
}

/// An approval as clients see it.
fn shown(row: ApprovalRow) -> Approval {
    let request = row.request;
    let decision = row.decision;
    let ruling = decision.as_ref().map(|decision| &decision.ruling);
    Approval {
        approval_id: request.approval_id,
        status: row.status,
        run_id: request.run_id,
        root_run_id: row.root,
        depth: request.depth,
        tool_use_id: request.tool_use_id,
        name: request.name,
        input: request.input,
        effect: request.effect,
        annotations: request.annotations,
        rule: request.rule,
        reason: request.reason,
        sub_actions: request.sub_actions,
        agent_id: row.agent_id.as_deref().and_then(AgentId::parse),
        session_id: row.session,
        metadata: row.metadata,
        created_at: rfc3339(row.created_at),
        expires_at: rfc3339(row.expires_at),
        decision: ruling.map(|ruling| ruling.decision),
        edited_input: ruling.and_then(|ruling| ruling.input.clone()),
        note: ruling.and_then(|ruling| ruling.note.clone()),
        decided_at: decision.as_ref().map(|decision| rfc3339(decision.at)),
        by: decision.map(|decision| decision.by),
    }
}
