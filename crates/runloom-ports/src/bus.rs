//! The bus port: wake-ups between processes.

use async_trait::async_trait;

use super::store::RunNo;

/// Announces changes of the store to other processes. A lost or repeated signal costs time, not correctness, because
/// every process also polls the store.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Announces a signal without waiting. A signal that cannot be sent is dropped.
    fn announce(&self, signal: Signal);

    /// The next signal of another process. Cancel-safe.
    async fn next(&self) -> Signal;

    /// Whether signals of other processes arrive now.
    fn is_up(&self) -> bool;

    /// Whether other processes share the store. If not, the store need not be polled.
    fn is_shared(&self) -> bool;
}

/// A change of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A run has mail.
    Mail(RunNo),
    /// The log of a run has new events.
    Events {
        /// The run.
        run: RunNo,
        /// Number of its last event.
        last_seq: u64,
    },
    /// A run waits for a worker.
    Jobs,
    /// Workspaces, keys or documents have changed.
    Registry,
    /// Signals were lost: everything may have changed.
    Lost,
}

/// The bus of a single process.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBus;

#[async_trait]
impl Bus for NoBus {
    fn announce(&self, _signal: Signal) {}

    async fn next(&self) -> Signal {
        std::future::pending().await
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        false
    }
}
