//! Deletes what is past its retention. Beside the sweeper, whose timers must not wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::Worker;
use runloom_ports::store::{Cutoffs, Millis, Purged};

/// How often it is looked for.
const EVERY: Duration = Duration::from_secs(60);
/// How often sessions that nobody uses are looked for: that looks at every session.
const UNUSED_EVERY: Duration = Duration::from_secs(3600);
/// How much is deleted at once.
const PAGE: usize = 100;
/// Shortest pause before the next page.
const PAUSE: Duration = Duration::from_millis(10);
/// How long an idempotency key is remembered.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long an OAuth code is remembered after its end: who uses one a second time takes back what the first time gave.
const CODES_KEPT: Duration = Duration::from_secs(24 * 3600);

impl Worker {
    pub(super) async fn delete_old(self: Arc<Self>) {
        let stop = self.parts.tasks.stop.clone();
        let mut looked_for_unused: Option<Instant> = None;
        while !stop.is_cancelled() {
            let mut old = self.cutoffs();
            if looked_for_unused.is_some_and(|at| at.elapsed() < UNUSED_EVERY) {
                old.unused = None;
            } else {
                looked_for_unused = Some(Instant::now());
            }
            self.purge(old).await;
            self.purge_expired().await;
            stop.run_until_cancelled(tokio::time::sleep(EVERY)).await;
        }
    }

    fn cutoffs(&self) -> Cutoffs {
        let now = self.clock.now();
        let settings = &self.settings;
        Cutoffs {
            keys: earlier(now, KEYS_KEPT),
            ended: settings.retention.map(|kept| earlier(now, kept)),
            unused: settings.session_retention.map(|kept| earlier(now, kept)),
        }
    }

    /// Deletes all that is old now, page by page. Between two pages it rests for as long as one took, so that others have half of the
    /// store's time at least.
    async fn purge(&self, old: Cutoffs) {
        let stop = &self.parts.tasks.stop;
        let mut gone = Purged::default();
        loop {
            let began = Instant::now();
            match self.parts.store.purge(old, PAGE).await {
                Ok(page) => {
                    gone.runs += page.runs;
                    gone.sessions += page.sessions;
                    gone.more = page.more;
                }
                Err(error) => {
                    warn!(%error, "cannot delete what is past its retention");
                    break;
                }
            }
            let rest = tokio::time::sleep(began.elapsed().max(PAUSE));
            if !gone.more || stop.run_until_cancelled(rest).await.is_none() {
                break;
            }
        }
        let Purged { runs, sessions, .. } = gone;
        if runs > 0 || sessions > 0 {
            info!(runs, sessions, "deleted what is past its retention");
        }
    }
}

impl Worker {
    /// Deletes OAuth's tokens and codes that nobody can use any more, page by page.
    async fn purge_expired(&self) {
        let stop = &self.parts.tasks.stop;
        let now = self.clock.now();
        let codes = earlier(now, CODES_KEPT);
        loop {
            let began = Instant::now();
            match self.parts.store.purge_expired(now, codes, PAGE).await {
                Ok(gone) if gone >= PAGE => {}
                Ok(_) => break,
                Err(error) => {
                    warn!(%error, "cannot delete expired tokens");
                    break;
                }
            }
            let rest = tokio::time::sleep(began.elapsed().max(PAUSE));
            if stop.run_until_cancelled(rest).await.is_none() {
                break;
            }
        }
    }
}

fn earlier(at: Millis, by: Duration) -> Millis {
    Millis(at.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
