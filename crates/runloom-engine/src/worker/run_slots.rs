//! RunSlots for runs, shared fairly between workspaces.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::metrics::METRICS;
use runloom_ports::store::WorkspaceNo;

/// RunSlots that a workspace may hold for each one that is free. So one workspace alone gets nearly all of a worker, several that
/// want more than there is get equal parts of nearly all, and some places always stay free for one that has none yet:
/// whatever the runs of the others wait for, its first run need not wait for them.
const SHARE: usize = 7;

/// The places of a worker.
#[derive(Debug)]
pub(super) struct RunSlots {
    taken: Mutex<Taken>,
    free: watch::Sender<usize>,
    total: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<Option<WorkspaceNo>, usize>,
    /// Somebody was told that there is none. Who was not does not wait, and most runs come and go without anybody waiting.
    refused: bool,
}

impl RunSlots {
    /// So many, all free.
    pub(super) fn new(total: usize) -> Arc<Self> {
        METRICS.places.add(signed(total));
        Arc::new(Self {
            taken: Mutex::default(),
            free: watch::Sender::new(total),
            total,
        })
    }

    /// How many are free. It tells of a change when there is one free again, or when somebody to whom [`Self::admits`] or
    /// [`Self::take`] said no may be let in.
    pub(super) fn watch(&self) -> watch::Receiver<usize> {
        self.free.subscribe()
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Whether a workspace may have one more.
    pub(super) fn admits(&self, workspace: Option<WorkspaceNo>) -> bool {
        self.may_take(&mut self.lock(), workspace)
    }

    /// A place, if the workspace may have one more.
    pub(super) fn take(self: &Arc<Self>, workspace: Option<WorkspaceNo>) -> Option<RunSlot> {
        let mut taken = self.lock();
        if !self.may_take(&mut taken, workspace) {
            return None;
        }
        taken.all += 1;
        *taken.by.entry(workspace).or_default() += 1;
        self.set_free(&taken, false);
        drop(taken);
        METRICS.places_taken.add(1);
        Some(RunSlot {
            places: Arc::clone(self),
            workspace,
        })
    }

    fn may_take(&self, taken: &mut Taken, workspace: Option<WorkspaceNo>) -> bool {
        let held = taken.by.get(&workspace).copied().unwrap_or_default();
        let admitted = held < SHARE * (self.total - taken.all);
        taken.refused |= !admitted;
        admitted
    }

    fn set_free(&self, taken: &Taken, tell: bool) {
        self.free.send_if_modified(|free| {
            *free = self.total - taken.all;
            tell
        });
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place for one run; free again when it is dropped.
#[derive(Debug)]
pub(super) struct RunSlot {
    places: Arc<RunSlots>,
    workspace: Option<WorkspaceNo>,
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        let awaited = std::mem::take(&mut taken.refused) || taken.all == self.places.total;
        taken.all -= 1;
        if let Some(held) = taken.by.get_mut(&self.workspace) {
            *held -= 1;
            if *held == 0 {
                taken.by.remove(&self.workspace);
            }
        }
        self.places.set_free(&taken, awaited);
        METRICS.places_taken.add(-1);
    }
}

impl Drop for RunSlots {
    fn drop(&mut self) {
        METRICS.places.add(-signed(self.total));
    }
}

fn signed(places: usize) -> i64 {
    i64::try_from(places).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many as there are for a workspace.
    fn fill(places: &Arc<RunSlots>, workspace: i64) -> Vec<RunSlot> {
        std::iter::from_fn(|| places.take(Some(WorkspaceNo(workspace)))).collect()
    }

    #[test]
    fn a_few_places_are_all_given_to_whoever_wants_them() {
        for total in 1..=7 {
            assert_eq!(fill(&RunSlots::new(total), 1).len(), total);
        }
    }

    #[test]
    fn one_workspace_gets_nearly_all_and_leaves_room_for_others() {
        let places = RunSlots::new(256);
        let first = fill(&places, 1);
        assert_eq!(first.len(), 224);
        let second = fill(&places, 2);
        assert_eq!(second.len(), 28);
        assert!(places.admits(Some(WorkspaceNo(3))));
    }

    #[test]
    fn places_that_come_free_go_to_those_with_fewer() {
        let places = RunSlots::new(256);
        let mut first = fill(&places, 1);
        let second = fill(&places, 2);
        first.truncate(100);
        assert!(!places.admits(None) || places.admits(Some(WorkspaceNo(2))));
        let more = fill(&places, 2);
        assert!(second.len() + more.len() > 100);
        assert!(places.admits(Some(WorkspaceNo(3))));
        drop((first, second, more));
        assert_eq!(*places.watch().borrow(), 256);
        assert!(places.lock().by.is_empty());
    }

    #[test]
    fn only_who_was_refused_hears_of_a_free_place() {
        let places = RunSlots::new(16);
        let watch = places.watch();
        drop(places.take(None));
        assert!(!watch.has_changed().unwrap(), "nobody waits");
        let first = fill(&places, 1);
        assert!(!watch.has_changed().unwrap());
        drop(first);
        assert!(watch.has_changed().unwrap(), "the last one was refused");
    }

    #[test]
    fn a_place_after_none_at_all_is_heard_of() {
        let places = RunSlots::new(1);
        let only = places.take(None);
        let watch = places.watch();
        drop(only);
        assert!(watch.has_changed().unwrap());
        assert_eq!(*watch.borrow(), 1);
    }
}
