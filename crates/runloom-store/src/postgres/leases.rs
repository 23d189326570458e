//! Who is alive.
//!
//! A lease is good for as long as its worker gives signs of life. Their age is measured by the database's clock
//! alone: the clocks of the machines that workers run on differ, and a worker must not look dead because another
//! one's clock is fast. (All other times come from the callers.) A lease is never taken away by time: it is void only
//! when another worker has claimed the run, which raises the epoch, so a worker that was merely slow goes on as long
//! as nobody did.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use runloom_ports::store::StoreResult;

use super::error::Failure;
use super::pool::{Pool, Session};

/// Silence after which others may claim a worker's runs, unless the options say otherwise. Workers speak every two
/// seconds and look for runs every two, too: a dead worker's runs are taken over within ten.
pub(super) const SILENCE_MS: i64 = 7_000;

/// A sign of life this young is not repeated for a claim.
const FRESH: Duration = Duration::from_secs(1);

/// SQL: true when `worker` was heard of lately. `$silence` is the number of the parameter that [`Workers::silence`]
/// fills.
macro_rules! alive {
    ($worker:literal, $silence:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM workers WHERE workers.id = ",
            $worker,
            " AND workers.heartbeat_at >= statement_timestamp() - ",
            $silence,
            "::DOUBLE PRECISION * INTERVAL '1 millisecond')"
        )
    };
}
pub(super) use alive;

/// What this process has told of its workers.
#[derive(Debug)]
pub(super) struct Workers {
    silence_ms: i64,
    told: Mutex<HashMap<String, Instant>>,
}

impl Workers {
    /// Workers that are silent for longer than `silence_ms` count as dead.
    pub(super) fn new(silence_ms: i64) -> Self {
        Self {
            silence_ms,
            told: Mutex::default(),
        }
    }

    /// The longest silence of a living worker, in milliseconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds of a silence are far below 2^52"
    )]
    pub(super) fn silence(&self) -> f64 {
        self.silence_ms as f64
    }

    /// A sign of life.
    pub(super) async fn tell(&self, pool: &Pool, worker: &str) -> StoreResult<()> {
        pool.read(|session| async move { hear(&session, worker).await })
            .await?;
        self.told(worker);
        Ok(())
    }

    /// True when there was a sign of life just now, so that a new lease needs none.
    pub(super) fn is_fresh(&self, worker: &str) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(worker).is_some_and(|last| last.elapsed() < FRESH)
    }

    /// A sign of life is stored.
    pub(super) fn told(&self, worker: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, last| last.elapsed() < FRESH);
        told.insert(worker.to_owned(), Instant::now());
    }
}

/// Makes a worker known that nobody has heard of. Of one that is known nothing changes: its old leases must not come
/// to life.
pub(super) async fn introduce(session: &Session, worker: &str) -> Result<(), Failure> {
    session
        .execute(
            "INSERT INTO workers (id, heartbeat_at) VALUES ($1, clock_timestamp()) ON CONFLICT DO NOTHING",
            &[&worker],
        )
        .await?;
    Ok(())
}

/// Writes a sign of life.
pub(super) async fn hear(session: &Session, worker: &str) -> Result<(), Failure> {
    session
        .execute(
            "INSERT INTO workers (id, heartbeat_at) VALUES ($1, clock_timestamp())
             ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at",
            &[&worker],
        )
        .await?;
    Ok(())
}
