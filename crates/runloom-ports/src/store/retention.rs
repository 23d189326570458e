//! Deletion of old rows.

use async_trait::async_trait;

use super::{Millis, StoreResult};

/// Deletes old rows.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Deletes rows past their retention: at most `limit` each of runs, idempotency keys, sessions and messages, so
    /// that a call blocks others only briefly. A session is deleted with its messages when none of its runs is alive;
    /// remaining runs then have no session. A session with more messages than fit into a call accepts no new ones and
    /// is deleted with the last of them.
    async fn purge(&self, old: Cutoffs, limit: usize) -> StoreResult<Purged>;
}

/// The times before which rows are old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cutoffs {
    /// Idempotency keys from before this moment.
    pub keys: Millis,
    /// Runs and sessions that ended before this time are deleted; `None` keeps them.
    pub ended: Option<Millis>,
    /// Sessions, ended or not, that were last used before this time are deleted; `None` keeps them. There is no index
    /// for this, because every use would have to write it.
    pub unused: Option<Millis>,
}

/// Answer to [`Retention::purge`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Number of deleted runs.
    pub runs: usize,
    /// Number of deleted sessions.
    pub sessions: usize,
    /// There may be more that is old.
    pub more: bool,
}
