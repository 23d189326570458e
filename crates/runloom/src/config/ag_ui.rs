//! `[ag_ui]`: the endpoint for AG-UI front ends.

use std::time::Duration;

use runloom_service::AgUiSettings;

use super::table_reader::Table;

/// A day: a longer time is a mistake in the unit.
const MAX_MS: u64 = 24 * 60 * 60 * 1000;

pub(super) fn read(table: &Table<'_>) -> AgUiSettings {
    let default = AgUiSettings::default();
    let ms = |key, min| {
        let ms = table.integer(key, min..=MAX_MS);
        ms.map(Duration::from_millis)
    };
    let settings = AgUiSettings {
        enabled: table.boolean("enabled").unwrap_or(default.enabled),
        tool_timeout: ms("tool_timeout_ms", 1).unwrap_or(default.tool_timeout),
        on_disconnect: table
            .keyword("on_disconnect")
            .unwrap_or(default.on_disconnect),
        disconnect_grace: ms("disconnect_grace_ms", 0).unwrap_or(default.disconnect_grace),
    };
    table.finish();
    settings
}
