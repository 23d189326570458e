//! The parts put together: from a configuration to a running server.

use std::path::Path;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Config;

/// A running server.
#[derive(Debug)]
pub struct App {
    _private: (),
}

impl App {
    /// Opens the store, keeps what the configuration declares in step, recovers runs, and serves on the listener. Returns when the
    /// server is ready. Cancelling `shutdown` stops it in order.
    ///
    /// # Errors
    /// When a part cannot be started.
    #[expect(clippy::unused_async, reason = "the parts are opened asynchronously")]
    pub async fn start(
        config: Config,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> anyhow::Result<Self> {
        drop((config, listener, shutdown));
        anyhow::bail!("this build has no server yet")
    }

    /// Returns when the server has stopped.
    ///
    /// # Errors
    /// When a part failed.
    #[expect(clippy::unused_async, reason = "waits for the parts")]
    pub async fn stopped(self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Brings the database to this version.
///
/// # Errors
/// When it cannot be opened, or is of a newer version.
#[expect(clippy::unused_async, reason = "the store is opened asynchronously")]
pub async fn migrate(_config: &Config) -> anyhow::Result<()> {
    anyhow::bail!("this build has no store yet")
}

/// Looks whether the database is whole; the answer is for people.
///
/// # Errors
/// When it cannot be opened or is damaged.
#[expect(clippy::unused_async, reason = "the store is opened asynchronously")]
pub async fn check_store(_path: &Path) -> anyhow::Result<String> {
    anyhow::bail!("this build has no store yet")
}

/// The OpenAPI document of the HTTP API.
///
/// # Errors
/// When it cannot be written.
pub fn openapi() -> anyhow::Result<String> {
    anyhow::bail!("this build has no HTTP API yet")
}
