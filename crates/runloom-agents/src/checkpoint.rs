//! Checkpoints of paused runs, and the decisions with which they continue.

use std::collections::HashMap;

use runloom_engine::call_checks::CallChecks;
use runloom_engine::planner::StoredRun;
use runloom_engine::policy::compile_all;
use runloom_ports::store::MailBody;
use runloom_protocol::approval::{ApprovalVerdict, DecidedBy, DeciderKind, Ruling, SubDecision};
use runloom_schema::SchemaCache;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::memory_log::{Purse, Row};

/// A paused run: the logs of the whole tree, without secrets. It can be stored and resumed in another process.
/// Resuming the same checkpoint twice executes its calls twice.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    pub(crate) rows: Vec<Row>,
    pub(crate) seq: u64,
    pub(crate) purses: HashMap<String, Purse>,
}

/// One decision for [`crate::Agent::resume`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApprovalDecision {
    /// The approval.
    pub approval_id: String,
    /// Whether the call is executed.
    pub approve: bool,
    /// The arguments to execute instead.
    pub input: Option<Value>,
    /// Decisions about single sub-actions.
    pub sub_decisions: Vec<SubDecision>,
    /// A note for the model.
    pub note: Option<String>,
}

impl ApprovalDecision {
    fn ruling(&self) -> Ruling {
        Ruling {
            decision: match self.approve {
                true => ApprovalVerdict::Approve,
                false => ApprovalVerdict::Deny,
            },
            input: self.input.clone(),
            sub_decisions: self.sub_decisions.clone(),
            note: self.note.clone(),
        }
    }
}

impl Checkpoint {
    /// Adds decisions as mail to the runs that wait for them. Nothing is changed when one of them is refused.
    pub(crate) fn decide(
        &mut self,
        decisions: &[ApprovalDecision],
        now: i64,
    ) -> Result<(), String> {
        let mut made: HashMap<&str, Ruling> = HashMap::new();
        let mut mail = Vec::new();
        for decision in decisions {
            let (id, ruling) = (decision.approval_id.as_str(), decision.ruling());
            if let Some(first) = made.get(id) {
                if first.decides_as(&ruling) {
                    continue;
                }
                return Err(format!("the approval {id} has two different decisions"));
            }
            let asks = |row: &Row| row.pending(id).is_some();
            let Some(place) = self.rows.iter().position(asks) else {
                return Err(format!(
                    "the approval {id} is not pending in this checkpoint"
                ));
            };
            let row = &self.rows[place];
            let Some(asked) = row.pending(id) else {
                continue;
            };
            check(row, &asked.checks, &ruling)
                .map_err(|why| format!("the decision about {id}: {why}"))?;
            // Its time has run out: the run denies it.
            if asked.expires_at > now {
                let by = DecidedBy {
                    kind: DeciderKind::Key,
                    id: None,
                };
                let approval = asked.request.approval_id.clone();
                let ruling = ruling.clone();
                mail.push((
                    place,
                    MailBody::Approval {
                        approval,
                        ruling,
                        by,
                    },
                ));
            }
            made.insert(id, ruling);
        }
        for (place, body) in mail {
            self.rows[place].receive(now, body);
        }
        Ok(())
    }
}

/// Changed arguments must fit the tool's schema, and no rule of the run may deny them.
fn check(row: &Row, checks: &str, ruling: &Ruling) -> Result<(), String> {
    if ruling.input.is_some() && ruling.decision == ApprovalVerdict::Deny {
        return Err("`input` is allowed with an approval only".to_owned());
    }
    let checks: Option<CallChecks> = serde_json::from_str(checks).map_err(|it| it.to_string())?;
    let stored: StoredRun = serde_json::from_str(&row.spec).map_err(|it| it.to_string())?;
    let schemas = SchemaCache::new();
    let words = |issues: Vec<runloom_protocol::error::Issue>| {
        let lines = issues.into_iter();
        let lines: Vec<String> = lines
            .map(|it| format!("{}: {}", it.path, it.message))
            .collect();
        lines.join("; ")
    };
    let policies = compile_all(stored.spec.policies(), &schemas).map_err(words)?;
    match checks {
        Some(checks) => checks.check(ruling, &policies, &schemas).map_err(words),
        None => Ok(()),
    }
}
