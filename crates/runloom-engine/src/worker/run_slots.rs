//! Run slots, shared fairly between workspaces.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::metrics::METRICS;
use runloom_ports::store::WorkspaceNo;

/// Slots that a workspace may hold for each free one. One workspace alone gets nearly all slots of a worker, several
/// busy ones get equal parts, and some slots always stay free, so that the first run of another workspace need not
/// wait.
const SHARE: usize = 7;

/// The run slots of a worker.
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
    /// A slot was refused since the last one was returned, so a caller may be waiting.
    refused: bool,
}

impl RunSlots {
    /// `total` free slots.
    pub(super) fn new(total: usize) -> Arc<Self> {
        METRICS.places.add(signed(total));
        Arc::new(Self {
            taken: Mutex::default(),
            free: watch::Sender::new(total),
            total,
        })
    }

    /// The number of free slots. It signals a change when the first slot is free again, and when a slot is returned
    /// after [`Self::admits`] or [`Self::take`] refused one.
    pub(super) fn watch(&self) -> watch::Receiver<usize> {
        self.free.subscribe()
    }

    /// The number of slots.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Whether a workspace may take one more.
    pub(super) fn admits(&self, workspace: Option<WorkspaceNo>) -> bool {
        self.may_take(&mut self.taken.lock(), workspace)
    }

    /// Takes a slot, if the workspace may take one more.
    pub(super) fn take(self: &Arc<Self>, workspace: Option<WorkspaceNo>) -> Option<RunSlot> {
        let mut taken = self.taken.lock();
        if !self.may_take(&mut taken, workspace) {
            return None;
        }
        taken.all += 1;
        *taken.by.entry(workspace).or_default() += 1;
        self.free.send_if_modified(|free| {
            *free = self.total - taken.all;
            false
        });
        drop(taken);
        METRICS.places_taken.add(1);
        Some(RunSlot {
            slots: Arc::clone(self),
            workspace,
        })
    }

    fn may_take(&self, taken: &mut Taken, workspace: Option<WorkspaceNo>) -> bool {
        let held = taken.by.get(&workspace).copied().unwrap_or_default();
        let admitted = held < SHARE * (self.total - taken.all);
        taken.refused |= !admitted;
        admitted
    }
}

/// The right to drive one run; returned when it is dropped.
#[derive(Debug)]
pub(super) struct RunSlot {
    slots: Arc<RunSlots>,
    workspace: Option<WorkspaceNo>,
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        let awaited = std::mem::take(&mut taken.refused) || taken.all == self.slots.total;
        taken.all -= 1;
        if let Some(held) = taken.by.get_mut(&self.workspace) {
            *held -= 1;
            if *held == 0 {
                taken.by.remove(&self.workspace);
            }
        }
        self.slots.free.send_if_modified(|free| {
            *free = self.slots.total - taken.all;
            awaited
        });
        METRICS.places_taken.add(-1);
    }
}

impl Drop for RunSlots {
    fn drop(&mut self) {
        METRICS.places.add(-signed(self.total));
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many as there are for a workspace.
    fn fill(slots: &Arc<RunSlots>, workspace: i64) -> Vec<RunSlot> {
        std::iter::from_fn(|| slots.take(Some(WorkspaceNo(workspace)))).collect()
    }

    #[test]
    fn one_workspace_gets_all_of_a_few_slots() {
        for total in 1..=7 {
            assert_eq!(fill(&RunSlots::new(total), 1).len(), total);
        }
    }

    #[test]
    fn one_workspace_leaves_slots_for_others() {
        let slots = RunSlots::new(256);
        let first = fill(&slots, 1);
        assert_eq!(first.len(), 224);
        let second = fill(&slots, 2);
        assert_eq!(second.len(), 28);
        assert!(slots.admits(Some(WorkspaceNo(3))));
    }

    #[test]
    fn returned_slots_go_to_workspaces_with_fewer() {
        let slots = RunSlots::new(256);
        let mut first = fill(&slots, 1);
        let second = fill(&slots, 2);
        first.truncate(100);
        assert!(!slots.admits(None) || slots.admits(Some(WorkspaceNo(2))));
        let more = fill(&slots, 2);
        assert!(second.len() + more.len() > 100);
        assert!(slots.admits(Some(WorkspaceNo(3))));
        drop((first, second, more));
        assert_eq!(*slots.watch().borrow(), 256);
        assert!(slots.taken.lock().by.is_empty());
    }

    #[test]
    fn signals_after_a_refusal_only() {
        let slots = RunSlots::new(16);
        let watch = slots.watch();
        drop(slots.take(None));
        assert!(!watch.has_changed().unwrap(), "nobody waits");
        let first = fill(&slots, 1);
        assert!(!watch.has_changed().unwrap());
        drop(first);
        assert!(watch.has_changed().unwrap(), "the last one was refused");
    }

    #[test]
    fn signals_the_first_free_slot() {
        let slots = RunSlots::new(1);
        let only = slots.take(None);
        let watch = slots.watch();
        drop(only);
        assert!(watch.has_changed().unwrap());
        assert_eq!(*watch.borrow(), 1);
    }
}
