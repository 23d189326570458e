//! Interrupts: approvals that runs of a thread wait for, and the decisions that `resume` brings.

use runloom_protocol::ag_ui::{ResumeEntry, RunAgentInput};
use runloom_protocol::approval::{DecideApproval, Ruling};
use runloom_protocol::error::Issue;
use runloom_protocol::id::ApprovalId;
use runloom_protocol::scope::{Scope, ScopeSet};

use super::AgUiService;
use super::thread::ThreadView;
use crate::auth::Caller;
use crate::error::{Error, Result};

/// Code and message of the error for a request that leaves interrupts open.
pub(crate) const OPEN_CODE: &str = "interrupts_open";
pub(crate) const OPEN: &str =
    "The thread waits for approvals: answer every open interrupt in `resume`.";

/// What a request does about the interrupts of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupts {
    /// It answers all that are open, or none is and it answers none, or it only follows the thread.
    Answered,
    /// It answers some, but none is open.
    NoneOpen,
    /// It leaves some open and wants the thread to go on.
    Unanswered,
}

/// Compares `resume` with the open interrupts.
pub(crate) fn check(view: &ThreadView, input: &RunAgentInput, starts_run: bool) -> Interrupts {
    let mut open = view.live.iter().flat_map(|live| &live.approvals).peekable();
    let resumes = !input.resume.is_empty();
    if open.peek().is_none() {
        return match resumes {
            true => Interrupts::NoneOpen,
            false => Interrupts::Answered,
        };
    }
    let answers = |id: &ApprovalId| {
        let mut entries = input.resume.iter();
        entries.any(|entry| entry.interrupt_id == id.as_str())
    };
    match (resumes || starts_run) && !open.all(answers) {
        true => Interrupts::Unanswered,
        false => Interrupts::Answered,
    }
}

/// The error for answers to interrupts that are not open.
pub(crate) fn no_interrupt() -> Error {
    Error::invalid(
        "resume",
        "must be empty: no interrupt of this thread is open",
    )
}

impl AgUiService {
    /// Decides the open approvals that `resume` names. Others were decided elsewhere and are passed over.
    ///
    /// # Errors
    /// When the caller may not decide, or changed arguments do not fit.
    pub(crate) async fn decide_interrupts(
        &self,
        caller: &Caller,
        view: &ThreadView,
        resume: &[ResumeEntry],
    ) -> Result<()> {
        if resume.is_empty() {
            return Ok(());
        }
        caller.require(ScopeSet::from_iter([Scope::ApprovalsWrite]))?;
        for (index, entry) in resume.iter().enumerate() {
            let asks = |id: &&ApprovalId| id.as_str() == entry.interrupt_id;
            let mut live = view.live.iter();
            let found = live.find_map(|live| {
                let id = live.approvals.iter().find(asks)?;
                Some((&live.run, id))
            });
            let Some((run, id)) = found else {
                continue;
            };
            let request = DecideApproval {
                approval_id: id.clone(),
                ruling: Ruling {
                    decision: entry.decision,
                    input: entry.input.clone(),
                    sub_decisions: Vec::new(),
                    note: None,
                },
            };
            let decided = self.approvals.decide(caller, run.as_str(), request, None);
            decided
                .await
                .map_err(|error| within_payload(index, error))?;
        }
        Ok(())
    }
}

/// The error with the paths of this request.
fn within_payload(index: usize, error: Error) -> Error {
    let Error::Invalid(issues) = error else {
        return error;
    };
    let issues = issues.into_iter().map(|issue| Issue {
        path: format!("resume[{index}].payload.{}", issue.path),
        message: issue.message,
    });
    Error::Invalid(issues.collect())
}
