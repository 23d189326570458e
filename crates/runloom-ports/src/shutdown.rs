//! The shutdown of a process, in four phases.

use std::future::Future;

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The phases of a shutdown, in this order: [`Self::drain`], [`Self::interrupt`], [`Self::end_streams`],
/// [`Self::close_connections`]. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    interrupted: CancellationToken,
    streams_ended: CancellationToken,
    connections_closed: CancellationToken,
}

impl Shutdown {
    /// Phase 1: nothing more is accepted or claimed; runs are released at their next step boundary.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Phase 2: work that has not drained in time is interrupted and released.
    pub fn interrupt(&self) {
        self.interrupted.cancel();
    }

    /// Phase 3: event streams end, so that clients resume elsewhere.
    pub fn end_streams(&self) {
        self.streams_ended.cancel();
    }

    /// Phase 4: listeners close, and connections after their current request.
    pub fn close_connections(&self) {
        self.connections_closed.cancel();
    }

    /// Whether phase 1 has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Whether phase 2 has begun.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_cancelled()
    }

    /// Whether phase 3 has begun.
    #[must_use]
    pub fn has_ended_streams(&self) -> bool {
        self.streams_ended.is_cancelled()
    }

    /// Waits for phase 1.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Waits for phase 2.
    pub async fn interrupted(&self) {
        self.interrupted.cancelled().await;
    }

    /// Waits for phase 3; for streams that keep the future.
    pub fn streams_ended(&self) -> WaitForCancellationFutureOwned {
        self.streams_ended.clone().cancelled_owned()
    }

    /// Waits for phase 4.
    pub async fn connections_closed(&self) {
        self.connections_closed.cancelled().await;
    }

    /// Performs `work` until phase 1; `None` when phase 1 began first.
    pub async fn until_draining<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.draining.run_until_cancelled(work).await
    }

    /// Performs `work` until phase 2; `None` when phase 2 began first.
    pub async fn until_interrupted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.interrupted.run_until_cancelled(work).await
    }

    /// A token for one piece of work, which phase 2 cancels.
    #[must_use]
    pub fn interrupt_token(&self) -> CancellationToken {
        self.interrupted.child_token()
    }
}
