//! `[log]`.

use runloom_protocol::read::Keyword;
use tracing_subscriber::filter::Targets;

use super::table_reader::Table;

/// The levels of `log.level`.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// `[log]`.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// `error` … `trace`, or filter directives like `info,runloom_engine=debug`.
    pub level: String,
    /// The format of log lines.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For reading in a terminal.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl Keyword for LogFormat {
    const ALL: &'static [Self] = &[Self::Pretty, Self::Json];

    fn word(self) -> &'static str {
        match self {
            Self::Pretty => "pretty",
            Self::Json => "json",
        }
    }
}

pub(super) fn read(table: &Table<'_>) -> LogConfig {
    let config = LogConfig {
        level: table.text("level").unwrap_or_else(|| "info".to_owned()),
        format: table.keyword("format").unwrap_or(LogFormat::Pretty),
    };
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let mut parts = config.level.split(',').map(str::trim);
    // The filter would take a misspelt level for the name of a target and log nothing else.
    if let Some(word) = parts.find(|part| !part.contains('=') && !is_level(part)) {
        let levels = LEVELS.join(", ");
        table.refuse(
            "level",
            format_args!(
                "`{word}` is not a level: use one of {levels}, or filters like info,runloom_engine=debug"
            ),
        );
    } else if let Err(error) = config.level.parse::<Targets>() {
        let level = &config.level;
        table.refuse(
            "level",
            format_args!(
                "`{level}` is not a level or a filter like info,runloom_engine=debug: {error}"
            ),
        );
    }
    table.finish();
    config
}
