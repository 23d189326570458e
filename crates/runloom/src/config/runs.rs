//! `[runs]` and `[sessions]`.

use runloom_protocol::limits::{
    APPROVAL_TIMEOUT_MS_DEFAULT, APPROVAL_TIMEOUT_MS_MAX, APPROVAL_TIMEOUT_MS_MIN,
};

use super::table_reader::Table;

/// A day: a longer time is a mistake in the unit.
const MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// `[runs]`. Times in milliseconds.
#[derive(Debug, Clone)]
pub struct RunsConfig {
    /// How long a run waits for the result of a client tool.
    pub local_tool_timeout_ms: u64,
    /// Tool turns of a run that names no limit.
    pub max_tool_turns: u32,
    /// Runs that a root may have below it.
    pub max_sub_runs: u32,
    /// A run that waits longer for its client is parked.
    pub park_after_ms: u64,
    /// How long an approval stays open when its rule does not say.
    pub approval_timeout_ms: u64,
    /// One model call in all.
    pub provider_timeout_ms: u64,
    /// Until a model call's first byte.
    pub provider_first_byte_ms: u64,
    /// Silence inside a model call.
    pub provider_idle_ms: u64,
    /// Run slots: runs driven at once by one process.
    pub max_concurrent: usize,
    /// How long a stopping server waits for its runs to reach a step boundary.
    pub drain_ms: u64,
    /// Days after which ended runs and ended sessions are deleted; `None` = never.
    pub retention_days: Option<u32>,
}

pub(super) fn read(table: &Table<'_>) -> RunsConfig {
    let ms = |key, default| table.integer(key, 1..=MAX_MS).unwrap_or(default);
    let config = RunsConfig {
        local_tool_timeout_ms: ms("local_tool_timeout_ms", 300_000),
        max_tool_turns: table.integer("max_tool_turns", 1..=100).unwrap_or(32),
        max_sub_runs: table.integer("max_sub_runs", 1..=10_000).unwrap_or(64),
        park_after_ms: ms("park_after_ms", 5_000),
        approval_timeout_ms: table
            .integer(
                "approval_timeout_ms",
                APPROVAL_TIMEOUT_MS_MIN..=APPROVAL_TIMEOUT_MS_MAX,
            )
            .unwrap_or(APPROVAL_TIMEOUT_MS_DEFAULT),
        provider_timeout_ms: ms("provider_timeout_ms", 600_000),
        provider_first_byte_ms: ms("provider_first_byte_ms", 60_000),
        provider_idle_ms: ms("provider_idle_ms", 60_000),
        max_concurrent: table.integer("max_concurrent", 1..=100_000).unwrap_or(256),
        drain_ms: table.integer("drain_ms", 0..=MAX_MS).unwrap_or(20_000),
        retention_days: retention_days(table),
    };
    let total = config.provider_timeout_ms;
    for (key, ms) in [
        ("provider_first_byte_ms", config.provider_first_byte_ms),
        ("provider_idle_ms", config.provider_idle_ms),
    ] {
        // The defaults may be longer than a total that the file shortens.
        if table.has(key) && ms > total {
            table.refuse(
                key,
                format_args!("must not be longer than provider_timeout_ms ({total})"),
            );
        }
    }
    table.finish();
    config
}

/// `sessions.retention_days`.
pub(super) fn read_sessions(table: &Table<'_>) -> Option<u32> {
    let days = retention_days(table);
    table.finish();
    days
}

fn retention_days(table: &Table<'_>) -> Option<u32> {
    let days = table.integer("retention_days", 0..=36_500);
    days.filter(|days| *days > 0)
}
