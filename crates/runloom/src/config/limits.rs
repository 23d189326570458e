//! `[limits]`.

use super::table_reader::Table;

/// `[limits]`.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// Per credential.
    pub run_starts_per_minute: u32,
    /// Tool results, cancels, feedback; per credential.
    pub lifecycle_per_minute: u32,
    /// Other changes; per credential.
    pub writes_per_minute: u32,
    /// Reads and streams; per credential.
    pub reads_per_minute: u32,
    /// Maximum runs of all workspaces that wait for a worker; 0 = no limit.
    pub max_backlog: u64,
    /// Maximum runs of one workspace that wait for a worker; 0 = no limit.
    pub max_backlog_per_workspace: u64,
    /// Maximum bytes of a request body.
    pub max_body_bytes: usize,
}

pub(super) fn read(table: &Table<'_>) -> LimitsConfig {
    const MAX_BACKLOG: u64 = u32::MAX as u64;
    let rate = |key, default| table.integer(key, 1..=u32::MAX).unwrap_or(default);
    let backlog = |key, default| table.integer(key, 0..=MAX_BACKLOG).unwrap_or(default);
    let config = LimitsConfig {
        run_starts_per_minute: rate("run_starts_per_minute", 120),
        lifecycle_per_minute: rate("lifecycle_per_minute", 600),
        writes_per_minute: rate("writes_per_minute", 120),
        reads_per_minute: rate("reads_per_minute", 6000),
        max_backlog: backlog("max_backlog", 100_000),
        max_backlog_per_workspace: backlog("max_backlog_per_workspace", 25_000),
        max_body_bytes: table
            .integer("max_body_bytes", 1024..=1024 * 1024 * 1024)
            .unwrap_or(8 * 1024 * 1024),
    };
    table.finish();
    config
}
