//! Committing batches: with retries, then published to subscribers, then the wake-ups.

use std::sync::Arc;
use std::time::Duration;

use runloom_protocol::backoff::Backoff;
use tracing::warn;

use super::DriverParts;
use super::delta_throttle::WritePermit;
use super::journal::Abandon;
use crate::hub::LiveRun;
use crate::metrics::METRICS;
use runloom_ports::crash;
use runloom_ports::store::{Batch, Chunk, CommitError, Committed, Lease, WorkspaceNo};

/// Pauses between attempts to write to a store that is unavailable.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// What became of a batch that may be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempted {
    /// It is durable.
    Written,
    /// Mail waits; nothing is written or drafted.
    MailWaits,
    /// The root has room for this number of runs only; nothing is written or drafted.
    NoRoom(u32),
}

/// Shows a durable chunk to subscribers.
pub(super) fn publish(live: &Arc<LiveRun>, chunk: Chunk) {
    if chunk.last_seq >= chunk.first_seq {
        let terminal = chunk.terminal;
        crash::point("before_publish");
        live.publish(chunk);
        crash::point("after_publish");
        if terminal {
            live.keep_for_latecomers();
        }
    }
}

/// Wakes the runs that a batch reached.
pub(super) fn wake_all(parts: &DriverParts, committed: &Committed, workspace: WorkspaceNo) {
    for delivery in &committed.deliveries {
        parts.waker.wake(*delivery, workspace);
    }
}

/// What became of a batch.
pub(super) enum Written {
    Durable(Committed),
    Refused(Attempted),
}

/// Writes a batch, with retries while the store is unavailable: a run must not continue without its log.
pub(super) async fn write(
    parts: &DriverParts,
    lease: Lease,
    batch: Batch,
    permit: &mut Option<WritePermit>,
) -> Result<Written, Abandon> {
    let mut delays = RETRY.delays();
    loop {
        match parts.log.commit(lease, batch.clone()).await {
            Ok(committed) => return Ok(Written::Durable(committed)),
            Err(CommitError::MailWaiting) => return Ok(Written::Refused(Attempted::MailWaits)),
            Err(CommitError::TooManySubRuns { room }) => {
                return Ok(Written::Refused(Attempted::NoRoom(room)));
            }
            Err(CommitError::Fenced) => {
                METRICS.fenced.add(1);
                return Err(Abandon::Fenced);
            }
            Err(CommitError::Store(error)) => {
                warn!(
                    run = lease.run.0,
                    error = &error as &dyn std::error::Error,
                    "log write failed; retrying"
                );
            }
        }
        // Other runs may write meanwhile.
        *permit = None;
        tokio::select! {
            () = tokio::time::sleep(delays.next_delay()) => {}
            () = parts.shutdown.interrupted() => return Err(Abandon::Interrupted),
        }
    }
}
