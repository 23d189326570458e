//! Concurrency limits in total and per workspace, so that no workspace waits for another's work.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits one resource, such as sandboxes or connections, in total and per workspace.
pub(crate) struct WorkspaceLimits {
    total: Arc<Semaphore>,
    per_workspace: usize,
    workspaces: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Callers that wait for a permit.
    waiting: AtomicUsize,
}

/// Maximum permits at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    pub(crate) total: usize,
    pub(crate) per_workspace: usize,
}

/// One unit of the resource, held until it is dropped.
pub(crate) struct WorkspacePermit {
    _total: Option<OwnedSemaphorePermit>,
    _workspace: Option<OwnedSemaphorePermit>,
}

/// The limit that is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// The workspace's own limit.
    Workspace,
    /// The total limit.
    Total,
}

impl WorkspaceLimits {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self {
            total: Arc::new(Semaphore::new(capacity.total.max(1))),
            per_workspace: capacity.per_workspace.max(1),
            workspaces: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for a permit, first come first served. The caller bounds the wait.
    pub(crate) async fn acquire(&self, workspace: &str) -> WorkspacePermit {
        self.acquire_or_reclaim(workspace, |_| ()).await
    }

    /// [`Self::acquire`] that calls `reclaim` when no permit is free. By then the caller is in the queue, so that a
    /// permit that `reclaim` frees cannot be taken by a later caller.
    pub(crate) async fn acquire_or_reclaim(
        &self,
        workspace: &str,
        reclaim: impl Fn(Exhausted),
    ) -> WorkspacePermit {
        let own = self.semaphore(workspace);
        let own = self.wait(own, || reclaim(Exhausted::Workspace)).await;
        let total = Arc::clone(&self.total);
        let total = self.wait(total, || reclaim(Exhausted::Total)).await;
        WorkspacePermit {
            _total: total,
            _workspace: own,
        }
    }

    /// Whether a caller waits that a permit of this workspace could serve.
    pub(crate) fn is_contended(&self, workspace: &str) -> bool {
        let is_exhausted = || {
            self.total.available_permits() == 0
                || self.semaphore(workspace).available_permits() == 0
        };
        self.waiting.load(Ordering::Acquire) > 0 && is_exhausted()
    }

    async fn wait(
        &self,
        semaphore: Arc<Semaphore>,
        reclaim: impl Fn(),
    ) -> Option<OwnedSemaphorePermit> {
        let mut acquiring = std::pin::pin!(semaphore.acquire_owned());
        let acquired = tokio::select! {
            biased;
            acquired = &mut acquiring => acquired,
            () = std::future::ready(()) => {
                let _waiting = WaitingCount::enter(&self.waiting);
                reclaim();
                acquiring.await
            }
        };
        acquired.ok()
    }

    fn semaphore(&self, workspace: &str) -> Arc<Semaphore> {
        let mut workspaces = self.workspaces.lock();
        // Semaphores without holders are full, so they need not be kept.
        workspaces.retain(|name, own| name == workspace || Arc::strong_count(own) > 1);
        let new = || Arc::new(Semaphore::new(self.per_workspace));
        Arc::clone(workspaces.entry(workspace.to_owned()).or_insert_with(new))
    }
}

/// Counts a waiting caller until it is dropped.
struct WaitingCount<'a>(&'a AtomicUsize);

impl<'a> WaitingCount<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_busy_workspace_does_not_block_others() {
        let limits = WorkspaceLimits::new(Capacity {
            total: 3,
            per_workspace: 2,
        });
        let (one, _two) = (limits.acquire("a").await, limits.acquire("a").await);
        assert!(limits.acquire("a").now_or_never().is_none());
        let _other = limits.acquire("b").await;
        assert!(limits.acquire("b").now_or_never().is_none());
        drop(one);
        assert!(limits.acquire("a").now_or_never().is_some());
    }

    #[tokio::test]
    async fn is_contended_only_while_a_caller_waits() {
        let limits = WorkspaceLimits::new(Capacity {
            total: 2,
            per_workspace: 2,
        });
        let _taken = (limits.acquire("a").await, limits.acquire("b").await);
        assert!(!limits.is_contended("a"));
        let mut waiting = Box::pin(limits.acquire("c"));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(limits.is_contended("a"));
        drop(waiting);
        assert!(!limits.is_contended("a"));
    }
}
