//! Messages that the broker waits to hear about.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lapin::Acker;
use runloom_ports::store::RunNo;
use tokio::sync::mpsc;

/// The deliveries of the present connection, by run. Those of a broken one are worth nothing: the broker delivers them again.
#[derive(Debug)]
pub(super) struct Deliveries {
    open: Mutex<Open>,
    receipts: mpsc::Sender<Acker>,
}

#[derive(Debug, Default)]
struct Open {
    /// Delivered and not yet pulled. Several messages can be about one run.
    waiting: HashMap<RunNo, Vec<Acker>>,
    /// Pulled and not yet tried.
    taken: HashMap<RunNo, Vec<Acker>>,
}

impl Deliveries {
    /// None yet, and where their receipts come out.
    pub(super) fn new(prefetch: u16) -> (Self, mpsc::Receiver<Acker>) {
        // The broker lets no more than `prefetch` be open; as many again can be left of a connection that broke.
        let (receipts, due) = mpsc::channel(usize::from(prefetch.max(1)) * 2);
        let deliveries = Self {
            open: Mutex::default(),
            receipts,
        };
        (deliveries, due)
    }

    /// A message about this run has arrived. Call it before the run can be pulled.
    pub(super) fn arrived(&self, run: RunNo, acker: Acker) {
        self.open().waiting.entry(run).or_default().push(acker);
    }

    /// The run was pulled. Messages that arrive from now on are about something newer.
    pub(super) fn take(&self, run: RunNo) {
        let mut open = self.open();
        if let Some(ackers) = open.waiting.remove(&run) {
            open.taken.entry(run).or_default().extend(ackers);
        }
    }

    /// The run was tried.
    pub(super) fn done(&self, run: RunNo) {
        for acker in self.open().taken.remove(&run).unwrap_or_default() {
            // Full only when nothing is connected, and then the receipt is worth nothing.
            let _ = self.receipts.try_send(acker);
        }
    }

    /// The connection is gone.
    pub(super) fn forget(&self) {
        *self.open() = Open::default();
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
