//! Getting rid of what need not be kept any longer.

use async_trait::async_trait;

use super::{Millis, StoreResult};

/// Deleting what is old.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Deletes what is older than it has to be kept: at most `limit` runs, keys, sessions and messages of sessions
    /// each, so that a call holds up others for a short time only. A session goes when none of its runs is alive,
    /// with all that was said in it; runs that it leaves behind belong to no session then. One whose messages are too
    /// many for a call takes no more of them, and goes with the last.
    async fn purge(&self, old: Cutoffs, limit: usize) -> StoreResult<Purged>;
}

/// What is old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cutoffs {
    /// Idempotency keys from before this moment.
    pub keys: Millis,
    /// Runs and sessions that ended before this moment; `None` keeps them.
    pub ended: Option<Millis>,
    /// Sessions, ended or not, that were last used before this moment; `None` keeps them. No index helps to find
    /// them: every use would have to write it.
    pub unused: Option<Millis>,
}

/// Answer to [`Retention::purge`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Runs that are gone.
    pub runs: usize,
    /// Sessions that are gone.
    pub sessions: usize,
    /// There may be more that is old.
    pub more: bool,
}
