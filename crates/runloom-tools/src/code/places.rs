//! How many sandboxes run at once: in all, and for one workspace, so that none waits for another's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for sandboxes.
pub(super) struct Places {
    all: Arc<Semaphore>,
    each: usize,
    workspaces: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place until it is dropped.
pub(super) struct Place {
    _all: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all.max(1))),
            each: each.max(1),
            workspaces: Mutex::default(),
        }
    }

    /// Waits for a place, first come first served. Whoever waits bounds the wait.
    pub(super) async fn take(&self, workspace: &str) -> Place {
        let own = self.of(workspace).acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        Place {
            _all: all,
            _own: own,
        }
    }

    fn of(&self, workspace: &str) -> Arc<Semaphore> {
        let mut workspaces = self
            .workspaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds are as good as new.
        workspaces.retain(|name, places| name == workspace || Arc::strong_count(places) > 1);
        let new = || Arc::new(Semaphore::new(self.each));
        Arc::clone(workspaces.entry(workspace.to_owned()).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_busy_workspace_waits_for_itself_and_not_for_others() {
        let places = Places::new(3, 2);
        let (one, _two) = (places.take("a").await, places.take("a").await);
        assert!(places.take("a").now_or_never().is_none());
        let _other = places.take("b").await;
        assert!(places.take("b").now_or_never().is_none());
        drop(one);
        assert!(places.take("a").now_or_never().is_some());
    }
}
