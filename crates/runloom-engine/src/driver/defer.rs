//! Deferring: a run that this process cannot plan is returned for a bounded time, for a later attempt or another
//! process.

use std::time::Duration;

use runloom_protocol::outcome::ErrorClass;

use super::{Abandon, Closed, Driver, Left};
use crate::run::{Note, Spent};
use runloom_ports::model::ModelError;
use runloom_ports::store::{Millis, Next};

/// Time after which a deferred run fails.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// Shortest and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

impl Driver {
    /// Returns the lease until the next attempt, or fails the run when it has waited too long. Mail is folded first:
    /// unread mail would wake the run at once.
    pub(super) async fn defer(&mut self, reason: &str) -> Result<Left, Abandon> {
        loop {
            if let Some(left) = self.read_mail().await? {
                return Ok(left);
            }
            let now = self.clock.now();
            if self.wall_deadline().is_some_and(|wall| wall <= now) {
                return self.fail(self.out_of_time(), Spent::default()).await;
            }
            let since = Millis(self.state.deferred_since.unwrap_or(now.0));
            let waited = now.0.saturating_sub(since.0);
            if waited >= millis(MAX_WAIT) {
                return self.fail(given_up(reason), Spent::default()).await;
            }
            if self.state.deferred_since.is_none() {
                self.note(Note::Deferred { since: since.0 });
            }
            self.journal.flush().await?;
            let again = again_at(now, waited);
            let until = self.wall_deadline().map_or(again, |wall| wall.min(again));
            let deferred = self
                .journal
                .attempt(&[], Closed::default(), Next::Defer { until })
                .await?;
            if deferred {
                return Ok(Left::Deferred(until));
            }
            self.mailbox.look();
        }
    }
}

/// The next attempt. Pauses grow with the waiting time and end on whole seconds, so that one sweep finds many runs.
fn again_at(now: Millis, waited: i64) -> Millis {
    let pause = (waited / 2).clamp(millis(PAUSE.0), millis(PAUSE.1));
    let second = now.0.saturating_add(pause).div_euclid(1000);
    Millis(second.saturating_add(1).saturating_mul(1000))
}

fn given_up(reason: &str) -> ModelError {
    let minutes = MAX_WAIT.as_secs() / 60;
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
        while now.0 - began < millis(MAX_WAIT) {
            let next = again_at(now, now.0 - began);
            pauses.push(next.0 - now.0);
            now = next;
        }
        assert!(pauses.iter().all(|pause| (1_000..=61_000).contains(pause)));
        assert!(pauses.is_sorted_by(|one, next| next + 1_000 >= *one));
        assert!(pauses.len() < 100, "{}", pauses.len());
    }
}
