//! The clocks of one call.

use std::time::Duration;

use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;
use tokio::time::Instant;

use crate::settings::Timeouts;

/// When a call is given up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    started: Instant,
    first_byte: Duration,
    idle: Duration,
    /// The end of everything.
    pub(crate) total: Instant,
}

impl Deadlines {
    /// The call begins.
    pub(crate) fn start(timeouts: &Timeouts) -> Self {
        // More than a day is as good as for ever, and cannot overflow a clock.
        let span = |ms: u64| Duration::from_millis(ms.min(86_400_000));
        let started = Instant::now();
        Self {
            started,
            first_byte: span(timeouts.first_byte_ms),
            idle: span(timeouts.idle_ms),
            total: started + span(timeouts.total_ms),
        }
    }

    /// When something must have come.
    pub(crate) fn first_byte(&self) -> Instant {
        (self.started + self.first_byte).min(self.total)
    }

    /// When more must have come, for a wait that begins now.
    pub(crate) fn next_byte(&self) -> Instant {
        (Instant::now() + self.idle).min(self.total)
    }

    /// Nothing came in time.
    pub(crate) fn nothing_came(&self) -> ModelError {
        ModelError::new(
            ErrorClass::Timeout,
            format!(
                "the provider sent nothing within {} ms",
                (self.first_byte() - self.started).as_millis()
            ),
        )
    }

    /// Something came, and then too little.
    pub(crate) fn went_silent(&self) -> ModelError {
        let message = if Instant::now() >= self.total {
            let limit = (self.total - self.started).as_millis();
            format!("the provider's answer took longer than {limit} ms")
        } else {
            let limit = self.idle.as_millis();
            format!("the provider fell silent for {limit} ms in the middle of its answer")
        };
        ModelError::new(ErrorClass::UpstreamDeadline, message)
    }
}
