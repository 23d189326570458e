//! The bus port: announcements between processes.

use async_trait::async_trait;

use super::store::RunNo;

/// Tells other processes that something has changed in the store. Best effort: an announcement that is lost or doubled costs time,
/// never work, because everyone also looks by themselves now and then.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Announces. Never waits; what cannot be sent is dropped.
    fn announce(&self, signal: Signal);

    /// The next announcement of another process. Cancel-safe.
    async fn next(&self) -> Signal;

    /// Whether other processes are heard now.
    fn is_up(&self) -> bool {
        true
    }

    /// Whether other processes exist at all: if not, nobody has to look by themselves.
    fn is_shared(&self) -> bool;
}

/// What is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// There is mail for a run that somebody drives.
    Mail(RunNo),
    /// A run's log has grown.
    Events {
        /// Which run.
        run: RunNo,
        /// Number of its last event.
        last_seq: u64,
    },
    /// A run wants a worker.
    Jobs,
    /// Workspaces, keys or documents have changed.
    Registry,
    /// Announcements were lost: look at everything.
    Lost,
}

/// The bus of a process that is alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBus;

#[async_trait]
impl Bus for NoBus {
    fn announce(&self, _signal: Signal) {}

    async fn next(&self) -> Signal {
        std::future::pending().await
    }

    fn is_shared(&self) -> bool {
        false
    }
}
