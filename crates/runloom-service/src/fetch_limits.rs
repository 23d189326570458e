//! How many requests have their files fetched at once: in all, and of one workspace, so that none waits for another's slow addresses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};
use runloom_ports::store::WorkspaceNo;

const ALL: usize = 32;
const OF_ONE_WORKSPACE: usize = 4;

/// How long a request waits for its turn. With the fetching that follows it is less than the time in which requests are answered.
const WAIT: Duration = Duration::from_secs(5);
/// When a refused client may try again: about as long as fetching takes.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct FetchLimits {
    all: Arc<Semaphore>,
    workspaces: Mutex<HashMap<WorkspaceNo, Arc<Semaphore>>>,
}

/// A request's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL)),
            workspaces: Mutex::default(),
        }
    }
}

impl FetchLimits {
    /// Waits for a turn, first come first served.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is none in time.
    pub(super) async fn turn(&self, workspace: WorkspaceNo) -> Result<Turn> {
        let own = self.of(workspace);
        let taking = async {
            // One's own first: whoever waits for it takes no place of others.
            let own = own.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Turn {
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
        let workspaces = self.workspaces.lock();
        let mut workspaces = workspaces.unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds are as good as new.
        workspaces.retain(|_, places| Arc::strong_count(places) > 1);
        let new = || Arc::new(Semaphore::new(OF_ONE_WORKSPACE));
        Arc::clone(workspaces.entry(workspace).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_workspace_waits_for_itself_only_and_is_told_when_to_come_again() {
        let fetching = FetchLimits::default();
        let (one, other) = (WorkspaceNo(1), WorkspaceNo(2));
        let mut turns = Vec::new();
        for _ in 0..OF_ONE_WORKSPACE {
            turns.push(fetching.turn(one).await.unwrap());
        }
        let refused = fetching.turn(one).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Unavailable { retry_after, .. } if !retry_after.is_zero()),
            "{refused:?}"
        );
        fetching.turn(other).await.unwrap();
        turns.pop();
        fetching.turn(one).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_have_a_bound_too() {
        let fetching = FetchLimits::default();
        let mut turns = Vec::new();
        for place in 0..ALL {
            let workspace = WorkspaceNo((place / OF_ONE_WORKSPACE) as i64);
            turns.push(fetching.turn(workspace).await.unwrap());
        }
        let refused = fetching.turn(WorkspaceNo(1000)).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        turns.clear();
        fetching.turn(WorkspaceNo(1000)).await.unwrap();
    }
}
