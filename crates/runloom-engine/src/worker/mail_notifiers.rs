//! The mail notifiers of the runs that this worker drives.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::driver::MailNotifier;
use runloom_ports::store::RunNo;

#[derive(Default)]
pub(super) struct MailNotifiers(Mutex<Installed>);

#[derive(Default)]
struct Installed {
    entries: HashMap<RunNo, Entry>,
    /// Number of notifications for runs without a notifier.
    unheard: u64,
}

#[derive(Default)]
struct Entry {
    notifier: Arc<MailNotifier>,
    /// The run was offered while it was driven. Its driver may have read its mail for the last time.
    again: AtomicBool,
}

impl MailNotifiers {
    /// Installs the notifier of a run before it is claimed, so that no mail after the claim is missed. `None` when the
    /// run is driven already: its driver is notified, and the run is offered again when the driver leaves.
    pub(super) fn try_install(&self, run: RunNo) -> Option<Arc<MailNotifier>> {
        let mut installed = self.0.lock();
        if let Some(entry) = installed.entries.get(&run) {
            entry.again.store(true, Ordering::Relaxed);
            entry.notifier.ring();
            return None;
        }
        installed.unheard += 1;
        let entry = installed.entries.entry(run).or_default();
        Some(Arc::clone(&entry.notifier))
    }

    /// Number of notifications for runs without a notifier; for [`Self::install`].
    pub(super) fn unheard(&self) -> u64 {
        self.0.lock().unheard
    }

    /// Installs the notifier of a run that was created with its lease. If any notification was missed since `unheard`
    /// was read, it may have been for this run, so its driver is notified at once. A notifier of a claim that is
    /// about to be refused is replaced.
    pub(super) fn install(&self, run: RunNo, unheard: u64) -> Arc<MailNotifier> {
        let mut installed = self.0.lock();
        let entry = Entry::default();
        let notifier = Arc::clone(&entry.notifier);
        installed.entries.insert(run, entry);
        if installed.unheard != unheard {
            notifier.ring();
        }
        notifier
    }

    /// Notifies the driver of a run; false when it is not driven here.
    pub(super) fn ring(&self, run: RunNo) -> bool {
        let mut installed = self.0.lock();
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

    /// Notifies every driver.
    pub(super) fn ring_all(&self) {
        self.0
            .lock()
            .entries
            .values()
            .for_each(|entry| entry.notifier.ring());
    }

    /// Whether the run is driven here.
    pub(super) fn is_driven(&self, run: RunNo) -> bool {
        self.0.lock().entries.contains_key(&run)
    }

    /// Number of runs that are driven here.
    pub(super) fn len(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// Removes the notifier of a run, unless it was replaced. True when the run was offered meanwhile.
    pub(super) fn remove(&self, run: RunNo, notifier: &Arc<MailNotifier>) -> bool {
        let mut installed = self.0.lock();
        let own = |entry: &Entry| Arc::ptr_eq(&entry.notifier, notifier);
        if !installed.entries.get(&run).is_some_and(own) {
            return false;
        }
        let removed = installed.entries.remove(&run);
        removed.is_some_and(|entry| entry.again.into_inner())
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
    fn missed_notification_is_repeated_at_install() {
        let notifiers = MailNotifiers::default();
        let before = notifiers.unheard();
        assert!(!notifiers.ring(RUN));
        assert!(is_rung(&notifiers.install(RUN, before)));
    }

    #[test]
    fn installs_without_notification() {
        let notifiers = MailNotifiers::default();
        let notifier = notifiers.install(RUN, notifiers.unheard());
        assert!(!is_rung(&notifier));
        assert!(notifiers.ring(RUN));
        assert!(is_rung(&notifier));
    }

    #[test]
    fn refused_claim_keeps_the_notifier_of_the_driver() {
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
    fn run_offered_while_driven_is_offered_again() {
        let notifiers = MailNotifiers::default();
        let notifier = notifiers.try_install(RUN).unwrap();
        assert!(notifiers.try_install(RUN).is_none());
        assert!(notifiers.remove(RUN, &notifier));
        assert!(!notifiers.is_driven(RUN));
    }
}
