//! Limits of concurrent attachment fetches: of the process, and of one workspace, so that workspaces do not wait for
//! the slow addresses of others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};
use runloom_ports::store::WorkspaceNo;

const TOTAL: usize = 32;
const PER_WORKSPACE: usize = 4;

/// Time that a request waits for a permit. Together with the fetch it is shorter than the request timeout.
const WAIT: Duration = Duration::from_secs(5);
/// Hint for refused clients, about the duration of a fetch.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The limits.
pub(super) struct FetchLimits {
    all: Arc<Semaphore>,
    workspaces: Mutex<HashMap<WorkspaceNo, Arc<Semaphore>>>,
}

/// The right to fetch the files of one request.
#[derive(Debug)]
pub(super) struct FetchPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(TOTAL)),
            workspaces: Mutex::default(),
        }
    }
}

impl FetchLimits {
    /// Waits for a permit, first come, first served.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is none in time.
    pub(super) async fn acquire(&self, workspace: WorkspaceNo) -> Result<FetchPermit> {
        let own = self.of(workspace);
        let taking = async {
            // The workspace first, so that a waiting request holds no permit of the process.
            let own = own.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(FetchPermit {
                _own: own,
                _all: all,
            })
        };
        let taken = tokio::time::timeout(WAIT, taking).await;
        taken.ok().flatten().ok_or_else(|| Error::Unavailable {
            message: "Too many files are being fetched; try again.".to_owned(),
            retry_after: RETRY_AFTER,
        })
    }

    fn of(&self, workspace: WorkspaceNo) -> Arc<Semaphore> {
        let mut workspaces = self.workspaces.lock();
        // Semaphores that nobody holds are dropped.
        workspaces.retain(|_, permits| Arc::strong_count(permits) > 1);
        let new = || Arc::new(Semaphore::new(PER_WORKSPACE));
        Arc::clone(workspaces.entry(workspace).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn workspaces_have_their_own_limit() {
        let fetching = FetchLimits::default();
        let (one, other) = (WorkspaceNo(1), WorkspaceNo(2));
        let mut permits = Vec::new();
        for _ in 0..PER_WORKSPACE {
            permits.push(fetching.acquire(one).await.unwrap());
        }
        let refused = fetching.acquire(one).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Unavailable { retry_after, .. } if !retry_after.is_zero()),
            "{refused:?}"
        );
        fetching.acquire(other).await.unwrap();
        permits.pop();
        fetching.acquire(one).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn process_has_a_limit() {
        let fetching = FetchLimits::default();
        let mut permits = Vec::new();
        for index in 0..TOTAL {
            let workspace = WorkspaceNo((index / PER_WORKSPACE) as i64);
            permits.push(fetching.acquire(workspace).await.unwrap());
        }
        let refused = fetching.acquire(WorkspaceNo(1000)).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        permits.clear();
        fetching.acquire(WorkspaceNo(1000)).await.unwrap();
    }
}
