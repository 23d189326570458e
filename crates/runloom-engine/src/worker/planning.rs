//! Planning a claimed run.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use runloom_protocol::event::{EventKind, frame_kind, split_frames};
use runloom_protocol::spec::PromptMessage;
use tracing::warn;

use super::Worker;
use crate::driver::{MAX_ATTEMPTS, MailNotifier, Start, Tracing};
use crate::planner::{Planned, StoredRun};
use crate::retained_history;
use runloom_ports::conversation::Conversation;
use runloom_ports::error::{Chain, Error};
use runloom_ports::store::{Claim, Claimable, LogEntry, Millis, RunNo};

/// Milliseconds for which a deferred run is left to other processes after its timer is due.
const OTHERS_FIRST: i64 = 20_000;

/// Runs that this process could not plan, and until when it does not claim them. Otherwise an idle process that cannot
/// plan a run would always claim it before a busy one that can.
#[derive(Debug, Default)]
pub(super) struct DeferredRuns(Mutex<HashMap<RunNo, Millis>>);

impl DeferredRuns {
    /// Leaves the run to other processes for a while after `until`.
    pub(super) fn add(&self, run: RunNo, until: Millis) {
        let until = Millis(until.0.saturating_add(OTHERS_FIRST));
        self.0.lock().insert(run, until);
    }

    /// Those of `found` that are not left to other processes now.
    pub(super) fn without(&self, found: &[Claimable], now: Millis) -> Vec<Claimable> {
        let mut runs = self.0.lock();
        runs.retain(|_, until| *until > now);
        let mine = found.iter().filter(|one| !runs.contains_key(&one.run));
        mine.copied().collect()
    }

    /// Whether no run is left to other processes.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// Why a run has no plan.
enum PlanFailure {
    /// No process can make one.
    Refused(String),
    /// This process cannot make one now; another process, or a later attempt, may.
    Deferred(String),
}

impl Worker {
    /// Plans a claimed run. A run without a plan gets a driver as well, which reads its mail and ends or defers it.
    pub(super) async fn plan(&self, claim: Claim, notifier: Arc<MailNotifier>) -> Start {
        let stored = match serde_json::from_str::<StoredRun>(&claim.spec) {
            Ok(stored) => stored,
            Err(error) => {
                let reason = format!("the stored spec cannot be read by this version: {error}");
                warn!(reason, "run deferred");
                return self.without_plan(claim, None, PlanFailure::Deferred(reason), notifier);
            }
        };
        if claim.attempts > MAX_ATTEMPTS {
            // It is only ended. What may have crashed its workers is not touched again.
            let given_up = PlanFailure::Refused("the run is given up".to_owned());
            return self.without_plan(claim, Some(stored), given_up, notifier);
        }
        // The session may have changed its model after the run was accepted.
        let asked = stored.model.clone();
        let stored = stored.staying_on(claim.active_model.as_deref());
        match self.try_plan(&claim, &stored).await {
            Ok(planned) => {
                let changed = (stored.model != asked).then(|| Arc::from(stored.model.as_str()));
                let mut start = self.start_of(claim, planned, stored.messages, notifier);
                start.changed_model = changed;
                start
            }
            Err(unplanned) => self.without_plan(claim, Some(stored), unplanned, notifier),
        }
    }

    async fn try_plan(&self, claim: &Claim, stored: &StoredRun) -> Result<Planned, PlanFailure> {
        let planner = &self.parts.planner;
        let deferred = |error: &Error, reason: String| {
            warn!(error = %Chain(error), "run deferred");
            PlanFailure::Deferred(reason)
        };
        let opened = stored.opened(&*planner.sealer).map_err(|error| {
            let reason = "the header values of its tools were sealed with another master key";
            deferred(&error, reason.to_owned())
        })?;
        let history = retained_history::continued(Conversation::default(), &claim.history);
        let planned = planner.plan(claim.id.clone(), opened, history).await;
        let planned = planned.map_err(|error| match &error {
            Error::Invalid(_) => PlanFailure::Refused(error.to_string()),
            // The model is not configured here, or something failed; another process may be able to.
            _ => deferred(&error, error.to_string()),
        })?;
        match &planned.missing_fallback {
            // The first model must not continue for the fallback.
            Some(reason) if fell_back(&claim.log) => Err(PlanFailure::Deferred(reason.clone())),
            _ => Ok(planned),
        }
    }

    fn without_plan(
        &self,
        claim: Claim,
        stored: Option<StoredRun>,
        unplanned: PlanFailure,
        notifier: Arc<MailNotifier>,
    ) -> Start {
        let (reason, deferral) = match unplanned {
            PlanFailure::Refused(reason) => (reason, None),
            PlanFailure::Deferred(reason) => (reason.clone(), Some(reason)),
        };
        let (planner, id) = (&self.parts.planner, claim.id.clone());
        let planned = planner.unplannable(id, stored.as_ref(), reason);
        let request = stored.map_or_else(Vec::new, |stored| stored.messages);
        let mut start = self.start_of(claim, planned, request, notifier);
        start.deferral = deferral;
        start
    }

    /// What a driver starts with.
    pub(super) fn start_of(
        &self,
        claim: Claim,
        planned: Planned,
        request: Vec<PromptMessage>,
        notifier: Arc<MailNotifier>,
    ) -> Start {
        let tracer = self.parts.tracer.as_ref();
        let tracing = tracer.and_then(|tracer| Tracing::of(tracer, &claim, &planned));
        Start {
            claim,
            planned,
            request,
            notifier,
            changed_model: None,
            suspicion: None,
            deferral: None,
            tracing,
        }
    }
}

/// Whether the fallback of the run has taken over.
fn fell_back(log: &[LogEntry]) -> bool {
    let mut frames = log
        .iter()
        .flat_map(|entry| split_frames(&entry.chunk.frames));
    frames.any(|frame| frame_kind(frame) == Some(EventKind::ModelFallback))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runloom_ports::store::WorkspaceNo;

    #[test]
    fn deferred_runs_are_left_to_other_processes() {
        let deferred_runs = DeferredRuns::default();
        let found = [1, 2].map(|run| Claimable {
            run: RunNo(run),
            workspace: WorkspaceNo(1),
            attempts: 0,
        });
        deferred_runs.add(RunNo(1), Millis(1_000));
        let mine = |now: i64| deferred_runs.without(&found, Millis(now));
        assert_eq!(mine(1_001), [found[1]]);
        assert!(!deferred_runs.is_empty());
        assert_eq!(mine(1_000 + OTHERS_FIRST), found);
        assert!(deferred_runs.is_empty());
    }
}
