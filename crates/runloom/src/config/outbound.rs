//! `[outbound]`: the addresses that server tools may connect to.

use runloom_tools::outbound::OutboundPolicy;

use super::table_reader::Table;

/// `[outbound]`.
#[derive(Debug, Clone, Default)]
pub struct OutboundConfig {
    /// Whether private addresses are allowed.
    pub allow_private_networks: bool,
    /// `host`, `host:port` or `*.domain` that are allowed even with a private address.
    pub allow_hosts: Vec<String>,
}

pub(super) fn read(table: &Table<'_>) -> OutboundConfig {
    let config = OutboundConfig {
        allow_private_networks: table.boolean("allow_private_networks").unwrap_or(false),
        allow_hosts: table.texts("allow_hosts"),
    };
    for host in &config.allow_hosts {
        if OutboundPolicy::check_host(host).is_err() {
            table.refuse(
                "allow_hosts",
                format_args!("`{host}` must be a host, host:port or *.domain"),
            );
        }
    }
    table.finish();
    config
}
