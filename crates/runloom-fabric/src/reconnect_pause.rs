//! How long to wait before the next attempt to reach a service.

use std::time::Duration;

use runloom_protocol::backoff::{Backoff, Delays};

/// Short at first, because a service that restarts is back soon; bounded, so that a repaired one is noticed soon.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

/// The pauses between attempts to reach a service.
#[derive(Debug)]
pub(crate) struct ReconnectPause(Delays);

impl Default for ReconnectPause {
    fn default() -> Self {
        Self(BACKOFF.delays())
    }
}

impl ReconnectPause {
    /// Waits before the next attempt.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0.next_delay()).await;
    }

    /// The attempt succeeded.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}
