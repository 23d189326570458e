//! What the writer remembers of leases, and who is alive.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use runloom_ports::store::{Lease, Millis, RunNo};

/// Leases that are held, as far as the writer has met them: spares the hot path its look at the run's row. Every
/// change of a lease passes the writer, and a rollback forgets everything, so what is remembered is what is stored.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<RunNo, Holding>);

/// One remembered lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding {
    /// Epoch of the holder.
    pub(super) epoch: u64,
    /// The row counts claims since the last batch; the next batch resets it.
    pub(super) attempts_counted: bool,
    /// Mail up to here is deleted.
    pub(super) mail_through: i64,
    /// Set when nothing was ever written for the run but its row, its spec and its log: its end has nothing else to
    /// look for.
    pub(super) plain: Option<Plain>,
}

/// A run of which all is known that its end needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain {
    /// Its session. Nobody else says something there while the run is alive.
    pub(super) session: Option<Standing>,
}

/// How a session stood when its run began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// Which session.
    pub(super) no: i64,
    /// How many messages it has.
    pub(super) messages: u64,
}

impl Held {
    /// What is known of the run's lease.
    pub(super) fn get(&self, run: RunNo) -> Option<Holding> {
        self.0.get(&run).copied()
    }

    /// Remembers a lease.
    pub(super) fn set(&mut self, lease: Lease, attempts_counted: bool, mail_through: i64) {
        let known = self
            .get(lease.run)
            .filter(|known| known.epoch == lease.epoch);
        let holding = Holding {
            epoch: lease.epoch,
            attempts_counted,
            mail_through,
            plain: known.and_then(|known| known.plain),
        };
        self.0.insert(lease.run, holding);
    }

    /// Whether the run of a remembered lease is plain from now on.
    pub(super) fn set_plain(&mut self, run: RunNo, plain: Option<Plain>) {
        if let Some(holding) = self.0.get_mut(&run) {
            holding.plain = plain;
        }
    }

    /// Nobody holds the run any more.
    pub(super) fn remove(&mut self, run: RunNo) {
        self.0.remove(&run);
    }

    /// Something was rolled back.
    pub(super) fn forget_all(&mut self) {
        self.0.clear();
    }
}

/// Silence after which a worker counts as dead, unless the options say otherwise. It lives in this process, so only a
/// panic or a bug silences it.
pub(super) const SILENCE_MS: i64 = 60_000;

/// When each worker was last heard of. In memory only: workers live in this process, and their leases die with it.
#[derive(Debug)]
pub(super) struct Workers {
    heard: Mutex<HashMap<String, Millis>>,
    silence_ms: i64,
}

impl Workers {
    /// Workers that are silent for longer than `silence_ms` count as dead.
    pub(super) fn new(silence_ms: i64) -> Self {
        Self {
            heard: Mutex::default(),
            silence_ms,
        }
    }

    /// A sign of life.
    pub(super) fn hear(&self, worker: &str, now: Millis) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match heard.get_mut(worker) {
            Some(last) => *last = (*last).max(now),
            None => {
                let oldest = now.0.saturating_sub(self.silence_ms);
                heard.retain(|_, last| last.0 >= oldest);
                heard.insert(worker.to_owned(), now);
            }
        }
    }

    /// True when the worker was heard of lately.
    pub(super) fn is_alive(&self, worker: &str, now: Millis) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard
            .get(worker)
            .is_some_and(|last| now.0.saturating_sub(last.0) <= self.silence_ms)
    }

    /// Everybody who was heard of lately.
    pub(super) fn alive(&self, now: Millis) -> Vec<String> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard
            .iter()
            .filter(|(_, last)| now.0.saturating_sub(last.0) <= self.silence_ms)
            .map(|(worker, _)| worker.clone())
            .collect()
    }
}
