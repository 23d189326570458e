//! The backlog limit: refuses new runs while too many wait. Tool results and cancels are always accepted, because
//! they shorten the backlog.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use runloom_engine::metrics::METRICS;
use runloom_ports::store::{Store, WorkspaceNo};

/// Time for which a count is used. Runs that this process creates are added to it; other changes appear at the next
/// count.
const FRESH: Duration = Duration::from_millis(500);
/// Maximum age of a count that may refuse a run, or ten times the duration of counting if that is longer, so that
/// counting does not become the load.
const FRESH_TO_REFUSE: (Duration, u32) = (Duration::from_millis(20), 10);
/// Hint for refused clients: about the time in which a backlog becomes shorter.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How many runs may wait for their first worker; 0 = any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BacklogLimits {
    /// Of all workspaces together.
    pub max_backlog: u64,
    /// For one workspace.
    pub max_backlog_per_workspace: u64,
}

/// Counts waiting runs at intervals.
pub(super) struct BacklogLimit {
    store: Arc<dyn Store>,
    limits: BacklogLimits,
    backlog: Mutex<Backlog>,
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Backlog {
    counted: Option<Instant>,
    /// How long counting took.
    took: Duration,
    all: u64,
    by: HashMap<WorkspaceNo, u64>,
}

impl BacklogLimit {
    pub(super) fn new(store: Arc<dyn Store>, limits: BacklogLimits) -> Self {
        Self {
            store,
            limits,
            backlog: Mutex::default(),
            counting: tokio::sync::Mutex::default(),
        }
    }

    /// Checks that a workspace may have one more run.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when too many wait.
    pub(super) async fn check(&self, workspace: WorkspaceNo) -> Result<()> {
        if self.limits == BacklogLimits::default() {
            return Ok(());
        }
        self.count(FRESH).await?;
        if self.judge(workspace).is_none() {
            return Ok(());
        }
        let (least, times) = FRESH_TO_REFUSE;
        let fresh = least.max(self.lock().took * times);
        self.count(fresh).await?;
        match self.judge(workspace) {
            None => Ok(()),
            Some(Full::Server) => {
                METRICS.refused_by_server.add(1);
                Err(refused("This server has"))
            }
            Some(Full::Workspace) => {
                METRICS.refused_by_workspace.add(1);
                Err(refused("This workspace has"))
            }
        }
    }

    /// The limit that is reached, if any.
    fn judge(&self, workspace: WorkspaceNo) -> Option<Full> {
        let (backlog, limits) = (self.lock(), self.limits);
        let own = backlog.by.get(&workspace).copied().unwrap_or_default();
        let reached = |count: u64, limit: u64| limit > 0 && count >= limit;
        if reached(backlog.all, limits.max_backlog) {
            Some(Full::Server)
        } else {
            reached(own, limits.max_backlog_per_workspace).then_some(Full::Workspace)
        }
    }

    /// Adds a run that waits.
    pub(super) fn added(&self, workspace: WorkspaceNo) {
        let mut backlog = self.lock();
        backlog.all += 1;
        *backlog.by.entry(workspace).or_default() += 1;
    }

    /// Counts again when the last count is old. One task counts; the others use the last count, if there is one.
    async fn count(&self, fresh: Duration) -> Result<()> {
        let Some(counted) = self.lock().counted else {
            let _turn = self.counting.lock().await;
            return self.count_now().await;
        };
        if counted.elapsed() >= fresh
            && let Ok(_turn) = self.counting.try_lock()
        {
            return self.count_now().await;
        }
        Ok(())
    }

    async fn count_now(&self) -> Result<()> {
        let began = Instant::now();
        let counted = self.store.backlog().await?;
        let mut backlog = self.lock();
        backlog.took = began.elapsed();
        backlog.counted = Some(Instant::now());
        backlog.all = counted.iter().map(|(_, runs)| runs).sum();
        backlog.by = counted.into_iter().collect();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit that is reached.
enum Full {
    Server,
    Workspace,
}

fn refused(whose: &str) -> Error {
    Error::Unavailable {
        message: format!("{whose} too many runs waiting already; try again later."),
        retry_after: RETRY_AFTER,
    }
}
