//! What operators are told: log lines on standard error, and traces. Secrets never reach either: the types that hold them do not print.

pub(crate) mod traces;

use std::io::IsTerminal;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// Starts logging for the life of the process. A second call changes nothing.
pub(crate) fn init(config: &LogConfig) {
    // The level was checked with the configuration.
    let mut filter: Targets = config.level.parse().unwrap_or_default();
    // The MCP library logs what servers say, who may repeat what they were sent; only who names it wants that.
    if !config.level.contains("rmcp") && filter.would_enable("rmcp", &tracing::Level::WARN) {
        filter = filter.with_target("rmcp", LevelFilter::ERROR);
    }
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match config.format {
        LogFormat::Pretty => lines.compact().boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init();
}
