//! Log lines on standard error, and traces. Types that hold secrets do not print them.

pub(crate) mod traces;

use std::io::IsTerminal;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// Starts logging for the life of the process. A second call has no effect.
pub(crate) fn init(config: &LogConfig) {
    // The level was validated with the configuration.
    let mut filter: Targets = config.level.parse().unwrap_or_default();
    // The MCP library logs what servers send, which may repeat secrets. Only a filter that names it enables it.
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
