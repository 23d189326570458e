//! Approvals in the driver: requests become durable with their time limits; decisions come as mail.

use runloom_protocol::approval::ApprovalStatus;
use runloom_protocol::event::{ApprovalRequested, Event};
use runloom_protocol::id::ApprovalId;
use runloom_protocol::resource::RunStatus;

use super::{Abandon, Driver};
use crate::call_checks::CallChecks;
use crate::metrics::METRICS;
use crate::run::{self, ApprovalAsk, Decided, Note};
use runloom_ports::clock::rfc3339;
use runloom_ports::crash;
use runloom_ports::store::{Millis, NewApproval};

impl Driver {
    /// Publishes all approvals of a turn at once. They are durable when this returns.
    pub(super) async fn request_approvals(
        &mut self,
        asks: Vec<ApprovalAsk>,
    ) -> Result<(), Abandon> {
        let now = self.clock.now();
        let asked = asks.iter().map(|ask| ask.request.approval_id.clone());
        let paused: Vec<ApprovalId> = asked.collect();
        for ask in asks {
            let timeout = ask
                .timeout_ms
                .map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
            let timeout = timeout.unwrap_or_else(|| self.parts.settings.approval_timeout_ms());
            let expires_at = Millis(now.0.saturating_add(timeout));
            let request = ApprovalRequested {
                expires_at: rfc3339(expires_at),
                ..ask.request
            };
            let checks = CallChecks::of(&self.state.toolbox, &request.name);
            self.journal.open_approval(NewApproval {
                request: request.clone(),
                expires_at,
                approver: ask.approver,
                checks: serde_json::to_string(&checks)?,
            });
            let tool_use_id = request.tool_use_id.clone();
            self.record(Event::ApprovalRequested(request))?;
            self.note(Note::AwaitsApproval {
                tool_use_id,
                deadline: expires_at.0,
            });
        }
        self.tell_paused(paused);
        self.journal.set_status(RunStatus::WaitingApproval);
        self.journal.flush().await?;
        crash::point("after_approval_request");
        Ok(())
    }

    /// Folds a person's decision. A decision about a call that does not wait changes nothing.
    pub(super) fn accept_decision(&mut self, decided: &Decided<'_>) -> Result<(), Abandon> {
        if let Some(event) = run::decide(&self.state, decided) {
            METRICS.approval_decided(decided.ruling.decision.into());
            self.record(event)?;
            crash::point("approval_read");
        }
        Ok(())
    }
}

/// The approval that an event ends because its time ran out.
pub(super) fn expired(event: &Event) -> Option<ApprovalId> {
    match event {
        Event::ApprovalDecided(decided) if decided.status == ApprovalStatus::Expired => {
            Some(decided.approval_id.clone())
        }
        _ => None,
    }
}
