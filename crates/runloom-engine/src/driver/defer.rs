//! A run that this process cannot plan: it was accepted, so it is left for later and for other processes, for a while.

use std::time::Duration;

use runloom_protocol::outcome::ErrorClass;

use super::{Abandon, Driver, Left};
use crate::run::{Note, Spent};
use runloom_ports::model::ModelError;
use runloom_ports::store::{Millis, Next};

/// How long a run waits for a process that can plan it.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Shortest and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

impl Driver {
    /// Leaves the run until it is worth another attempt, or ends it when it has waited too long. What others told it is folded in
    /// first, as ever: mail that stayed would wake it at once.
    pub(super) async fn stall(&mut self, reason: &str) -> Result<Left, Abandon> {
        loop {
            if let Some(left) = self.read_mail().await? {
                return Ok(left);
            }
            let now = self.clock.now();
            if self.wall_deadline().is_some_and(|wall| wall <= now) {
                return self.fail(self.out_of_time(), Spent::default()).await;
            }
            let since = Millis(self.state.stalled_since.unwrap_or(now.0));
            let waited = now.0.saturating_sub(since.0);
            if waited >= millis(PATIENCE) {
                return self.fail(given_up(reason), Spent::default()).await;
            }
            if self.state.stalled_since.is_none() {
                self.note(Note::Stalled { since: since.0 });
            }
            self.journal.flush().await?;
            let again = again_at(now, waited);
            let until = self.wall_deadline().map_or(again, |wall| wall.min(again));
            let deferred = self
                .journal
                .attempt(&[], Vec::new(), Next::Defer { until })
                .await?;
            if deferred {
                return Ok(Left::Deferred(until));
            }
            self.mailbox.look();
        }
    }
}

/// Pauses grow with the time that was waited. They end on whole seconds, so that one look finds many that wait.
fn again_at(now: Millis, waited: i64) -> Millis {
    let pause = (waited / 2).clamp(millis(PAUSE.0), millis(PAUSE.1));
    let second = now.0.saturating_add(pause).div_euclid(1000);
    Millis(second.saturating_add(1).saturating_mul(1000))
}

fn given_up(reason: &str) -> ModelError {
    let minutes = PATIENCE.as_secs() / 60;
    let message = format!("no process could take the run up for {minutes} minutes: {reason}");
    ModelError::new(ErrorClass::Server, message)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let mut now = Millis(1_700_000_000_250);
        let (began, mut pauses) = (now.0, Vec::new());
        while now.0 - began < millis(PATIENCE) {
            let next = again_at(now, now.0 - began);
            pauses.push(next.0 - now.0);
            now = next;
        }
        assert!(pauses.iter().all(|pause| (1_000..=61_000).contains(pause)));
        assert!(pauses.is_sorted_by(|one, next| next + 1_000 >= *one));
        assert!(pauses.len() < 100, "{}", pauses.len());
    }
}
