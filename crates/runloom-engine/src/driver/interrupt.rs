//! What interrupts a turn: mail, a shutdown, the end of the run's time.

use std::sync::Arc;
use std::time::Duration;

use runloom_protocol::outcome::RunCancelled;

use super::{Abandon, Driver};

/// Why a turn is interrupted.
pub(super) enum TurnInterrupt {
    Cancel(Box<RunCancelled>),
    Stop,
    OutOfTime,
}

impl Driver {
    /// Waits for an interruption; `None` when mail came that does not interrupt.
    pub(super) async fn interrupt(&mut self) -> Result<Option<TurnInterrupt>, Abandon> {
        let out_of_time = self.wall_clock();
        tokio::select! {
            () = self.mailbox.rung() => {}
            () = self.parts.shutdown.interrupted() => return Ok(Some(TurnInterrupt::Stop)),
            () = out_of_time => return Ok(Some(TurnInterrupt::OutOfTime)),
        }
        self.mail_in_turn().await
    }

    /// Reads mail during a turn. A cancel interrupts it.
    pub(super) async fn mail_in_turn(&mut self) -> Result<Option<TurnInterrupt>, Abandon> {
        let mail = self.mailbox.take(&self.parts.shutdown).await?;
        let mail = mail.unwrap_or_default();
        Ok(self
            .accept(mail)?
            .map(|receipt| TurnInterrupt::Cancel(Box::new(receipt))))
    }

    /// Waits before a retry.
    pub(super) async fn pause(
        &mut self,
        pause: Duration,
    ) -> Result<Option<TurnInterrupt>, Abandon> {
        let until = tokio::time::Instant::now() + pause;
        let parts = Arc::clone(&self.parts);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return Ok(None),
                () = parts.shutdown.draining() => return Ok(Some(TurnInterrupt::Stop)),
                interrupt = self.interrupt() => if let Some(interrupt) = interrupt? {
                    return Ok(Some(interrupt));
                },
            }
        }
    }
}
