//! The notifiers of the runs that this worker drives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::MailNotifier;
use runloom_ports::store::RunNo;

#[derive(Default)]
pub(super) struct MailNotifiers(Mutex<Installed>);

#[derive(Default)]
struct Installed {
    entries: HashMap<RunNo, Entry>,
    /// Rises whenever somebody asks for a run that has no notifier.
    unheard: u64,
}

#[derive(Default)]
struct Entry {
    notifier: Arc<MailNotifier>,
    /// The run was offered while it was driven: its driver may be past the point where it would notice.
    again: AtomicBool,
}

impl MailNotifiers {
    /// Installs a run's notifier before it is claimed, so that no mail after the claim goes unheard. `None` when the run is
    /// driven already; its driver is rung and the run offered again when it leaves.
    pub(super) fn try_install(&self, run: RunNo) -> Option<Arc<MailNotifier>> {
        let mut installed = self.lock();
        if let Some(entry) = installed.entries.get(&run) {
            entry.again.store(true, Ordering::Relaxed);
            entry.notifier.ring();
            return None;
        }
        installed.unheard += 1;
        let entry = installed.entries.entry(run).or_default();
        Some(Arc::clone(&entry.notifier))
    }

    /// How often somebody asked for a run without a notifier; for [`Self::install`].
    pub(super) fn unheard(&self) -> u64 {
        self.lock().unheard
    }

    /// Installs the notifier of a run that was created with its lease. Its number was not known before, so somebody may have
    /// asked for it in vain since `unheard` was read: then it is rung at once. A claim that is about to be refused may have
    /// left a notifier, which is replaced.
    pub(super) fn install(&self, run: RunNo, unheard: u64) -> Arc<MailNotifier> {
        let mut installed = self.lock();
        let entry = Entry::default();
        let notifier = Arc::clone(&entry.notifier);
        installed.entries.insert(run, entry);
        if installed.unheard != unheard {
            notifier.ring();
        }
        notifier
    }

    /// Rings; false when the run is not driven here.
    pub(super) fn ring(&self, run: RunNo) -> bool {
        let mut installed = self.lock();
        match installed.entries.get(&run) {
            Some(entry) => {
                entry.notifier.ring();
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
            .for_each(|entry| entry.notifier.ring());
    }

    /// True when the run is driven here.
    pub(super) fn is_driven(&self, run: RunNo) -> bool {
        self.lock().entries.contains_key(&run)
    }

    /// How many runs are driven here.
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Removes a run's notifier, unless it was replaced; true when the run was offered meanwhile.
    pub(super) fn remove(&self, run: RunNo, notifier: &Arc<MailNotifier>) -> bool {
        let mut installed = self.lock();
        let own = |entry: &Entry| Arc::ptr_eq(&entry.notifier, notifier);
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

    fn is_rung(notifier: &MailNotifier) -> bool {
        notifier.take_ring()
    }

    #[test]
    fn a_run_that_was_asked_for_before_its_doorbell_is_rung_at_once() {
        let notifiers = MailNotifiers::default();
        let before = notifiers.unheard();
        assert!(!notifiers.ring(RUN));
        assert!(is_rung(&notifiers.install(RUN, before)));
    }

    #[test]
    fn a_run_that_nobody_asked_for_is_not_rung() {
        let notifiers = MailNotifiers::default();
        let notifier = notifiers.install(RUN, notifiers.unheard());
        assert!(!is_rung(&notifier));
        assert!(notifiers.ring(RUN));
        assert!(is_rung(&notifier));
    }

    #[test]
    fn a_refused_claim_does_not_take_the_drivers_doorbell_away() {
        let notifiers = MailNotifiers::default();
        let before = notifiers.unheard();
        let of_the_claim = notifiers.try_install(RUN).unwrap();
        let of_the_driver = notifiers.install(RUN, before);
        assert!(is_rung(&of_the_driver));
        assert!(!notifiers.remove(RUN, &of_the_claim));
        assert!(notifiers.ring(RUN));
        assert!(is_rung(&of_the_driver));
    }

    #[test]
    fn a_run_that_was_offered_while_it_was_driven_is_offered_again() {
        let notifiers = MailNotifiers::default();
        let notifier = notifiers.try_install(RUN).unwrap();
        assert!(notifiers.try_install(RUN).is_none());
        assert!(notifiers.remove(RUN, &notifier));
        assert!(!notifiers.is_driven(RUN));
    }
}
