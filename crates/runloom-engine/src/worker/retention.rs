//! Retention: deletes old runs, sessions, idempotency keys and OAuth tokens. Apart from the sweeper, whose timers
//! must not wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::Worker;
use runloom_ports::store::{Cutoffs, Millis, Purged};

/// Time between two rounds.
const EVERY: Duration = Duration::from_secs(60);
/// Time between two searches for unused sessions, which read every session.
const UNUSED_EVERY: Duration = Duration::from_secs(3600);
/// Rows of one deletion.
const PAGE: usize = 100;
/// Shortest pause before the next page.
const PAUSE: Duration = Duration::from_millis(10);
/// Lifetime of an idempotency key.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long an OAuth code is kept after its end, so that a second use revokes what the first gave.
const CODES_KEPT: Duration = Duration::from_secs(24 * 3600);

impl Worker {
    pub(super) async fn delete_old(self: Arc<Self>) {
        let shutdown = self.parts.tasks.shutdown.clone();
        let mut looked_for_unused: Option<Instant> = None;
        while !shutdown.is_draining() {
            let mut old = self.cutoffs();
            if looked_for_unused.is_some_and(|at| at.elapsed() < UNUSED_EVERY) {
                old.unused = None;
            } else {
                looked_for_unused = Some(Instant::now());
            }
            self.purge(old).await;
            self.purge_expired().await;
            shutdown.until_draining(tokio::time::sleep(EVERY)).await;
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

    /// Deletes everything that is old now, page by page. The pause after a page is as long as the page took, so that it
    /// uses at most half of the store's time.
    async fn purge(&self, old: Cutoffs) {
        let shutdown = &self.parts.tasks.shutdown;
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
                    warn!(%error, "retention failed");
                    break;
                }
            }
            let rest = tokio::time::sleep(began.elapsed().max(PAUSE));
            if !gone.more || shutdown.until_draining(rest).await.is_none() {
                break;
            }
        }
        let Purged { runs, sessions, .. } = gone;
        if runs > 0 || sessions > 0 {
            info!(runs, sessions, "retention deleted old rows");
        }
    }
}

impl Worker {
    /// Deletes expired OAuth tokens and codes, page by page.
    async fn purge_expired(&self) {
        let shutdown = &self.parts.tasks.shutdown;
        let now = self.clock.now();
        let codes = earlier(now, CODES_KEPT);
        loop {
            let began = Instant::now();
            match self.parts.store.purge_expired(now, codes, PAGE).await {
                Ok(gone) if gone >= PAGE => {}
                Ok(_) => break,
                Err(error) => {
                    warn!(%error, "deletion of expired tokens failed");
                    break;
                }
            }
            let rest = tokio::time::sleep(began.elapsed().max(PAUSE));
            if shutdown.until_draining(rest).await.is_none() {
                break;
            }
        }
    }
}

fn earlier(at: Millis, by: Duration) -> Millis {
    Millis(at.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
