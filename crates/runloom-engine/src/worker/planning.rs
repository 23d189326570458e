//! From a claimed run to what its driver starts with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runloom_protocol::event::{EventKind, frame_kind, split_frames};
use runloom_protocol::spec::PromptMessage;
use tracing::warn;

use super::Worker;
use crate::driver::{MAX_ATTEMPTS, MailNotifier, Start, Tracing};
use crate::planner::{Planned, StoredRun, spoken};
use crate::retained_history;
use runloom_ports::error::{Chain, Error};
use runloom_ports::store::{Claim, Claimable, LogEntry, Millis, RunNo};

/// How long a run that this process could not plan is left to the others when its time comes.
const OTHERS_FIRST: i64 = 20_000;

/// Runs that this process could not plan, and until when it does not take them up itself: one that has nothing else to do would be the first
/// every time, and one that could plan them but is busy never.
#[derive(Debug, Default)]
pub(super) struct DeferredRuns(Mutex<HashMap<RunNo, Millis>>);

impl DeferredRuns {
    /// The run is tried again at `until`, by the others first.
    pub(super) fn add(&self, run: RunNo, until: Millis) {
        let until = Millis(until.0.saturating_add(OTHERS_FIRST));
        self.runs().insert(run, until);
    }

    /// What of these is not left to others now.
    pub(super) fn without(&self, found: &[Claimable], now: Millis) -> Vec<Claimable> {
        let mut runs = self.runs();
        runs.retain(|_, until| *until > now);
        let mine = found.iter().filter(|one| !runs.contains_key(&one.run));
        mine.copied().collect()
    }

    /// Nothing is left to others.
    pub(super) fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunNo, Millis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a run has no plan.
enum PlanFailure {
    /// It can never have one.
    Refused(String),
    /// This process cannot make one now; later, or another process, may.
    Stalled(String),
}

impl Worker {
    /// Plans a claimed run. One that has no plan gets a driver as well: its mail is read, and it ends or waits.
    pub(super) async fn plan(&self, claim: Claim, notifier: Arc<MailNotifier>) -> Start {
        let stored = match serde_json::from_str::<StoredRun>(&claim.spec) {
            Ok(stored) => stored,
            Err(error) => {
                let reason = format!("the stored spec cannot be read by this version: {error}");
                warn!(
                    reason,
                    "this process cannot plan the run; it is left for later"
                );
                return self.without_plan(claim, None, PlanFailure::Stalled(reason), notifier);
            }
        };
        if claim.attempts > MAX_ATTEMPTS {
            // It is only ended. Whatever in it kills workers is not touched again.
            let given_up = PlanFailure::Refused("the run is given up".to_owned());
            return self.without_plan(claim, Some(stored), given_up, notifier);
        }
        // What was planned when the run came in is older than what its session knows by now.
        let asked = stored.model.clone();
        let stored = stored.staying_on(claim.active_model.as_deref());
        match self.try_plan(&claim, &stored).await {
            Ok(planned) => {
                let moved = (stored.model != asked).then(|| Arc::from(stored.model.as_str()));
                let mut start = self.start_of(claim, planned, stored.messages, notifier);
                start.moved_to = moved;
                start
            }
            Err(unplanned) => self.without_plan(claim, Some(stored), unplanned, notifier),
        }
    }

    async fn try_plan(&self, claim: &Claim, stored: &StoredRun) -> Result<Planned, PlanFailure> {
        let planner = &self.parts.planner;
        let stalled = |error: &Error, reason: String| {
            warn!(error = %Chain(error), "this process cannot plan the run; it is left for later");
            PlanFailure::Stalled(reason)
        };
        let opened = stored.opened(&*planner.sealer).map_err(|error| {
            let reason = "the header values of its tools were sealed with another master key";
            stalled(&error, reason.to_owned())
        })?;
        let history = retained_history::bounded(claim.history.iter().flat_map(spoken).collect());
        let planned = planner.plan(claim.id.clone(), opened, history).await;
        let planned = planned.map_err(|error| match &error {
            Error::Invalid(_) => PlanFailure::Refused(error.to_string()),
            // The model is not offered here, or something failed: neither is the run's fault.
            _ => stalled(&error, error.to_string()),
        })?;
        match &planned.missing_fallback {
            // Its first model must not go on in the name of the other.
            Some(reason) if fell_back(&claim.log) => Err(PlanFailure::Stalled(reason.clone())),
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
        let (reason, stalled) = match unplanned {
            PlanFailure::Refused(reason) => (reason, None),
            PlanFailure::Stalled(reason) => (reason.clone(), Some(reason)),
        };
        let (planner, id) = (&self.parts.planner, claim.id.clone());
        let planned = planner.unplannable(id, stored.as_ref(), reason);
        let request = stored.map_or_else(Vec::new, |stored| stored.messages);
        let mut start = self.start_of(claim, planned, request, notifier);
        start.stalled = stalled;
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
        let context = planned.context(&claim.id);
        let tools = Arc::clone(&self.parts.tools);
        let tracer = self.parts.tracer.as_ref();
        let tracing = tracer.and_then(|tracer| Tracing::of(tracer, &claim, &planned));
        Start {
            monthly_budgets: planned.monthly_budgets,
            claim,
            plan: planned.plan,
            model: planned.model,
            fallback: planned.fallback,
            moved_to: None,
            tools,
            files: Arc::clone(&self.parts.files),
            context,
            request,
            notifier,
            suspicion: None,
            turns: self.turns.clone(),
            stalled: None,
            tracing,
        }
    }
}

/// The fallback of the run has taken over.
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
    fn a_run_that_could_not_be_planned_is_left_to_others_for_a_while() {
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
