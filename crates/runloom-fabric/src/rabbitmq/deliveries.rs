//! Deliveries that the broker has not seen acknowledged yet.

use std::collections::HashMap;

use lapin::Acker;
use parking_lot::Mutex;
use runloom_ports::store::RunNo;
use tokio::sync::mpsc;

/// Unacknowledged deliveries of the current connection, by run. Those of a broken connection are dropped: the broker
/// delivers them again.
#[derive(Debug)]
pub(super) struct Deliveries {
    open: Mutex<OpenDeliveries>,
    receipts: mpsc::Sender<Acker>,
}

#[derive(Debug, Default)]
struct OpenDeliveries {
    /// Delivered and not pulled. There can be several messages for one run.
    waiting: HashMap<RunNo, Vec<Acker>>,
    /// Pulled, and the claim not tried yet.
    taken: HashMap<RunNo, Vec<Acker>>,
}

impl Deliveries {
    /// No deliveries, and the receiver of those to acknowledge.
    pub(super) fn new(prefetch: u16) -> (Self, mpsc::Receiver<Acker>) {
        // The broker keeps at most `prefetch` deliveries open; as many again can remain of a broken connection.
        let (receipts, due) = mpsc::channel(usize::from(prefetch.max(1)) * 2);
        let deliveries = Self {
            open: Mutex::default(),
            receipts,
        };
        (deliveries, due)
    }

    /// Notes a delivery. Must be called before the run can be pulled.
    pub(super) fn arrived(&self, run: RunNo, acker: Acker) {
        let mut open = self.open.lock();
        open.waiting.entry(run).or_default().push(acker);
    }

    /// Notes that the run was pulled. Messages that arrive later concern a newer state of it.
    pub(super) fn take(&self, run: RunNo) {
        let mut open = self.open.lock();
        if let Some(ackers) = open.waiting.remove(&run) {
            open.taken.entry(run).or_default().extend(ackers);
        }
    }

    /// Hands the run's deliveries over for acknowledgement, after its claim was tried.
    pub(super) fn done(&self, run: RunNo) {
        let taken = self.open.lock().taken.remove(&run);
        for acker in taken.unwrap_or_default() {
            // The channel is full only while nothing is connected, when the receipt is useless.
            let _ = self.receipts.try_send(acker);
        }
    }

    /// Drops all deliveries, after the connection broke.
    pub(super) fn clear(&self) {
        *self.open.lock() = OpenDeliveries::default();
    }
}
