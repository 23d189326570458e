//! Driving runs without a worker, for a process that keeps the logs of its runs itself.

use std::sync::Arc;

use crate::driver::{
    Abandon, Driver, DriverParts, DriverSettings, Left, MailNotifier, Start, WakeRuns,
    WritePermits, compile_schemas,
};
use crate::hub::Hub;
use crate::planner::{Planned, Planner, StoredRun, spoken};
use runloom_ports::call_policy::CallPolicy;
use runloom_ports::file::FileReader;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{Claim, Ledger, RunLog};
use runloom_ports::tools::ToolHost;

/// The ports that embedded drivers use.
pub struct EmbeddedParts {
    /// The logs of the runs.
    pub log: Arc<dyn RunLog>,
    /// Budgets of money.
    pub ledger: Arc<dyn Ledger>,
    /// Plans runs and their children.
    pub planner: Arc<Planner>,
    /// Executes tools.
    pub tools: Arc<dyn ToolHost>,
    /// Reads the files that tools return.
    pub files: Arc<dyn FileReader>,
    /// Judges every tool call, beside the policies of the spec.
    pub call_policy: Option<Arc<dyn CallPolicy>>,
    /// Settings of the drivers.
    pub settings: DriverSettings,
    /// Told of runs that have mail or want a driver.
    pub waker: Arc<dyn WakeRuns>,
}

/// Drives claimed runs in the caller's task: nothing is spawned, and dropping the future stops the drive.
pub struct EmbeddedDriver {
    parts: Arc<DriverParts>,
    planner: Arc<Planner>,
}

impl std::fmt::Debug for EmbeddedDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedDriver").finish_non_exhaustive()
    }
}

impl EmbeddedDriver {
    /// A driver of the runs in `parts.log`.
    #[must_use]
    pub fn new(parts: EmbeddedParts) -> Self {
        let driver = DriverParts {
            log: parts.log,
            ledger: parts.ledger,
            hub: Arc::new(Hub::default()),
            tools: parts.tools,
            files: parts.files,
            settings: parts.settings,
            write_permits: WritePermits::default(),
            shutdown: Shutdown::default(),
            sub_runs: Arc::<Planner>::clone(&parts.planner),
            waker: parts.waker,
            call_policy: parts.call_policy,
        };
        Self {
            parts: Arc::new(driver),
            planner: parts.planner,
        }
    }

    /// Drives a claimed run until it ends or waits. A run that cannot be planned fails with the reason.
    ///
    /// # Errors
    /// When the log refuses to be written.
    pub async fn drive(&self, claim: Claim, notifier: Arc<MailNotifier>) -> Result<Left, Abandon> {
        let stored = serde_json::from_str::<StoredRun>(&claim.spec);
        let (planned, request) = match stored {
            Ok(stored) => {
                let request = stored.messages.clone();
                (self.plan(&claim, stored).await, request)
            }
            Err(error) => {
                let reason = format!("the stored spec cannot be read: {error}");
                let planned = self.planner.unplannable(claim.id.clone(), None, reason);
                (planned, Vec::new())
            }
        };
        compile_schemas(&claim.log, &planned.plan.schemas).await;
        let start = Start {
            claim,
            planned,
            request,
            notifier,
            changed_model: None,
            suspicion: None,
            deferral: None,
            tracing: None,
        };
        Driver::new(start, Arc::clone(&self.parts)).drive().await
    }

    async fn plan(&self, claim: &Claim, stored: StoredRun) -> Planned {
        let id = claim.id.clone();
        let history: Vec<_> = claim.history.iter().flat_map(spoken).collect();
        let planned = self
            .planner
            .plan(id.clone(), stored.clone(), history.into());
        let mut planned = match planned.await {
            Ok(planned) => planned,
            Err(error) => {
                let reason = error.to_string();
                self.planner.unplannable(id, Some(&stored), reason)
            }
        };
        if let Some(plan) = Arc::get_mut(&mut planned.plan) {
            plan.has_call_policy = self.parts.call_policy.is_some();
        }
        planned
    }
}
