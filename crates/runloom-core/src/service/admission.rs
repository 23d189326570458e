//! Admission: no new runs while too many wait already. Answers to tool calls and cancels are let in always: they end what waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::metrics::METRICS;
use crate::ports::store::{Store, WorkspaceNo};

/// How long a count is believed. What this process lets in meanwhile is added; what others let in is seen at the next count.
const FRESH: Duration = Duration::from_millis(500);
/// When a refused client may try again: about as long as a backlog takes to get visibly shorter.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How many runs may wait for their first worker; 0 = any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Of all workspaces together.
    pub max_backlog: u64,
    /// Of one workspace.
    pub max_backlog_per_workspace: u64,
}

/// Counts what waits, now and then.
pub(super) struct Admission {
    store: Arc<dyn Store>,
    limits: AdmissionLimits,
    backlog: Mutex<Backlog>,
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Backlog {
    counted: Option<Instant>,
    all: u64,
    by: HashMap<WorkspaceNo, u64>,
}

impl Admission {
    pub(super) fn new(store: Arc<dyn Store>, limits: AdmissionLimits) -> Self {
        Self {
            store,
            limits,
            backlog: Mutex::default(),
            counting: tokio::sync::Mutex::default(),
        }
    }

    /// Lets one more run of a workspace in.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when too many wait.
    pub(super) async fn check(&self, workspace: WorkspaceNo) -> Result<()> {
        if self.limits == AdmissionLimits::default() {
            return Ok(());
        }
        self.count().await?;
        let backlog = self.lock();
        let own = backlog.by.get(&workspace).copied().unwrap_or_default();
        let (all, limits) = (backlog.all, self.limits);
        drop(backlog);
        if limits.max_backlog > 0 && all >= limits.max_backlog {
            METRICS.refused_by_server.add(1);
            return Err(refused("This server has"));
        }
        if limits.max_backlog_per_workspace > 0 && own >= limits.max_backlog_per_workspace {
            METRICS.refused_by_workspace.add(1);
            return Err(refused("This workspace has"));
        }
        Ok(())
    }

    /// A run that waits was made.
    pub(super) fn added(&self, workspace: WorkspaceNo) {
        let mut backlog = self.lock();
        backlog.all += 1;
        *backlog.by.entry(workspace).or_default() += 1;
    }

    /// Counts anew when the last count is old. One counts; the others go on with what is known, unless nothing is.
    async fn count(&self) -> Result<()> {
        let Some(counted) = self.lock().counted else {
            let _turn = self.counting.lock().await;
            return self.count_now().await;
        };
        if counted.elapsed() >= FRESH
            && let Ok(_turn) = self.counting.try_lock()
        {
            return self.count_now().await;
        }
        Ok(())
    }

    async fn count_now(&self) -> Result<()> {
        let counted = self.store.backlog().await?;
        let mut backlog = self.lock();
        backlog.counted = Some(Instant::now());
        backlog.all = counted.iter().map(|(_, runs)| runs).sum();
        backlog.by = counted.into_iter().collect();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(whose: &str) -> Error {
    Error::Unavailable {
        message: format!("{whose} too many runs waiting already; try again later."),
        retry_after: RETRY_AFTER,
    }
}
