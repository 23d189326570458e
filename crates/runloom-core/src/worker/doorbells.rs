//! The doorbells of the runs that this worker drives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::Doorbell;
use crate::ports::store::RunNo;

#[derive(Default)]
pub(super) struct Doorbells(Mutex<HashMap<RunNo, Entry>>);

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
        let mut entries = self.lock();
        if let Some(entry) = entries.get(&run) {
            entry.again.store(true, Ordering::Relaxed);
            entry.doorbell.ring();
            return None;
        }
        Some(Arc::clone(&entries.entry(run).or_default().doorbell))
    }

    /// Installs the doorbell of a run that was just created.
    pub(super) fn install(&self, run: RunNo) -> Arc<Doorbell> {
        Arc::clone(&self.lock().entry(run).or_default().doorbell)
    }

    /// Rings; false when the run is not driven here.
    pub(super) fn ring(&self, run: RunNo) -> bool {
        self.lock()
            .get(&run)
            .inspect(|entry| entry.doorbell.ring())
            .is_some()
    }

    /// True when the run is driven here.
    pub(super) fn is_driven(&self, run: RunNo) -> bool {
        self.lock().contains_key(&run)
    }

    /// Removes a run's doorbell; true when the run was offered meanwhile.
    pub(super) fn remove(&self, run: RunNo) -> bool {
        self.lock()
            .remove(&run)
            .is_some_and(|entry| entry.again.into_inner())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunNo, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
