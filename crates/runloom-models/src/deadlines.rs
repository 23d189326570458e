//! Deadlines of one call.

use std::time::Duration;

use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;
use tokio::time::Instant;

use crate::settings::Timeouts;

/// When a call times out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    started: Instant,
    first_byte: Duration,
    idle: Duration,
    /// When the whole call must have ended.
    pub(crate) total: Instant,
}

impl Deadlines {
    /// Deadlines of a call that starts now.
    pub(crate) fn start(timeouts: &Timeouts) -> Self {
        // Capped at a day, so that adding it to an instant cannot overflow.
        let span = |ms: u64| Duration::from_millis(ms.min(86_400_000));
        let started = Instant::now();
        Self {
            started,
            first_byte: span(timeouts.first_byte_ms),
            idle: span(timeouts.idle_ms),
            total: started + span(timeouts.total_ms),
        }
    }

    /// When the first byte of the body must have come.
    pub(crate) fn first_byte(&self) -> Instant {
        (self.started + self.first_byte).min(self.total)
    }

    /// When the next chunk must have come, for a wait that begins now.
    pub(crate) fn next_byte(&self) -> Instant {
        (Instant::now() + self.idle).min(self.total)
    }

    /// The error of a call whose first byte did not come in time.
    pub(crate) fn first_byte_missed(&self) -> ModelError {
        ModelError::new(
            ErrorClass::Timeout,
            format!(
                "the provider sent nothing within {} ms",
                (self.first_byte() - self.started).as_millis()
            ),
        )
    }

    /// The error of a response that paused or took too long.
    pub(crate) fn response_missed(&self) -> ModelError {
        let message = if Instant::now() >= self.total {
            let limit = (self.total - self.started).as_millis();
            format!("the provider's response took longer than {limit} ms")
        } else {
            let limit = self.idle.as_millis();
            format!("the provider sent nothing for {limit} ms in the middle of its response")
        };
        ModelError::new(ErrorClass::UpstreamDeadline, message)
    }
}
