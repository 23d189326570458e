//! The doorbells of the runs that this worker drives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::Doorbell;
use runloom_ports::store::RunNo;

#[derive(Default)]
pub(super) struct Doorbells(Mutex<Installed>);

#[derive(Default)]
struct Installed {
    entries: HashMap<RunNo, Entry>,
    /// Rises whenever somebody asks for a run that has no doorbell.
    unheard: u64,
}

#[derive(Default)]
struct Entry {
    doorbell: Arc<Doorbell>,
    /// The run was offered while it was driven: its driver may be past the point where it would notice.
    again: AtomicBool,
}

impl Doorbells {
    /// Installs a run's doorbell before it is claimed, so that no mail after the claim goes unheard. `None` when the run is
    /// driven already; its driver is rung and the run offered again when it leaves.
    pub(super) fn try_install(&self, run: RunNo) -> Option<Arc<Doorbell>> {
        let mut installed = self.lock();
        if let Some(entry) = installed.entries.get(&run) {
            entry.again.store(true, Ordering::Relaxed);
            entry.doorbell.ring();
            return None;
        }
        installed.unheard += 1;
        let entry = installed.entries.entry(run).or_default();
        Some(Arc::clone(&entry.doorbell))
    }

    /// How often somebody asked for a run without a doorbell; for [`Self::install`].
    pub(super) fn unheard(&self) -> u64 {
        self.lock().unheard
    }

    /// Installs the doorbell of a run that was created with its lease. Its number was not known before, so somebody may have
    /// asked for it in vain since `unheard` was read: then it is rung at once. A claim that is about to be refused may have
    /// left a doorbell, which is replaced.
    pub(super) fn install(&self, run: RunNo, unheard: u64) -> Arc<Doorbell> {
        let mut installed = self.lock();
        let entry = Entry::default();
        let doorbell = Arc::clone(&entry.doorbell);
        installed.entries.insert(run, entry);
        if installed.unheard != unheard {
            doorbell.ring();
        }
        doorbell
    }

    /// Rings; false when the run is not driven here.
    pub(super) fn ring(&self, run: RunNo) -> bool {
        let mut installed = self.lock();
        match installed.entries.get(&run) {
            Some(entry) => {
                entry.doorbell.ring();
                true
            }
            None => {
                installed.unheard += 1;
                false
            }
        }
    }

    /// Rings everywhere.
    pub(super) fn ring_all(&self) {
        self.lock()
            .entries
            .values()
            .for_each(|entry| entry.doorbell.ring());
    }

    /// True when the run is driven here.
    pub(super) fn is_driven(&self, run: RunNo) -> bool {
        self.lock().entries.contains_key(&run)
    }

    /// How many runs are driven here.
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Removes a run's doorbell, unless it was replaced; true when the run was offered meanwhile.
    pub(super) fn remove(&self, run: RunNo, doorbell: &Arc<Doorbell>) -> bool {
        let mut installed = self.lock();
        let own = |entry: &Entry| Arc::ptr_eq(&entry.doorbell, doorbell);
        if !installed.entries.get(&run).is_some_and(own) {
            return false;
        }
        let removed = installed.entries.remove(&run);
        removed.is_some_and(|entry| entry.again.into_inner())
    }

    fn lock(&self) -> MutexGuard<'_, Installed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunNo = RunNo(7);

    fn is_rung(doorbell: &Doorbell) -> bool {
        doorbell.take_ring()
    }

    #[test]
    fn a_run_that_was_asked_for_before_its_doorbell_is_rung_at_once() {
        let doorbells = Doorbells::default();
        let before = doorbells.unheard();
        assert!(!doorbells.ring(RUN));
        assert!(is_rung(&doorbells.install(RUN, before)));
    }

    #[test]
    fn a_run_that_nobody_asked_for_is_not_rung() {
        let doorbells = Doorbells::default();
        let doorbell = doorbells.install(RUN, doorbells.unheard());
        assert!(!is_rung(&doorbell));
        assert!(doorbells.ring(RUN));
        assert!(is_rung(&doorbell));
    }

    #[test]
    fn a_refused_claim_does_not_take_the_drivers_doorbell_away() {
        let doorbells = Doorbells::default();
        let before = doorbells.unheard();
        let of_the_claim = doorbells.try_install(RUN).unwrap();
        let of_the_driver = doorbells.install(RUN, before);
        assert!(is_rung(&of_the_driver));
        assert!(!doorbells.remove(RUN, &of_the_claim));
        assert!(doorbells.ring(RUN));
        assert!(is_rung(&of_the_driver));
    }

    #[test]
    fn a_run_that_was_offered_while_it_was_driven_is_offered_again() {
        let doorbells = Doorbells::default();
        let doorbell = doorbells.try_install(RUN).unwrap();
        assert!(doorbells.try_install(RUN).is_none());
        assert!(doorbells.remove(RUN, &doorbell));
        assert!(!doorbells.is_driven(RUN));
    }
}
