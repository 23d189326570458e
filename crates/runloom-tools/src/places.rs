//! How many things of a kind there are at once: in all, and for one workspace, so that none waits for another's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for sandboxes, or for connections.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    each: usize,
    workspaces: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// How many wait for a place.
    waiting: AtomicUsize,
}

/// A place until it is dropped.
pub(crate) struct Place {
    _all: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
}

/// What there is no more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scarce {
    /// Places of the workspace.
    Own,
    /// Places at all.
    All,
}

impl Places {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all.max(1))),
            each: each.max(1),
            workspaces: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for a place, first come first served. Whoever waits bounds the wait.
    pub(crate) async fn take(&self, workspace: &str) -> Place {
        self.take_asking(workspace, |_| ()).await
    }

    /// [`Self::take`] that asks for one to be given back when there is none, once it stands in line for it.
    pub(crate) async fn take_asking(&self, workspace: &str, ask: impl Fn(Scarce)) -> Place {
        let own = self.acquire(self.of(workspace), || ask(Scarce::Own)).await;
        let all = self
            .acquire(Arc::clone(&self.all), || ask(Scarce::All))
            .await;
        Place {
            _all: all,
            _own: own,
        }
    }

    /// Whether somebody waits, and a place of the workspace may be what they wait for.
    pub(crate) fn is_wanted(&self, workspace: &str) -> bool {
        let full =
            || self.all.available_permits() == 0 || self.of(workspace).available_permits() == 0;
        self.waiting.load(Ordering::Acquire) > 0 && full()
    }

    async fn acquire(
        &self,
        places: Arc<Semaphore>,
        ask: impl Fn(),
    ) -> Option<OwnedSemaphorePermit> {
        let mut taking = std::pin::pin!(places.acquire_owned());
        let taken = tokio::select! {
            biased;
            taken = &mut taking => taken,
            () = std::future::ready(()) => {
                let _waiting = Waiting::among(&self.waiting);
                ask();
                taking.await
            }
        };
        taken.ok()
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

/// Somebody waits, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
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

    #[tokio::test]
    async fn a_full_house_wants_nothing_back_until_somebody_waits() {
        let places = Places::new(2, 2);
        let _taken = (places.take("a").await, places.take("b").await);
        assert!(!places.is_wanted("a"));
        let mut waiting = Box::pin(places.take("c"));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(places.is_wanted("a"));
        drop(waiting);
        assert!(!places.is_wanted("a"));
    }
}
