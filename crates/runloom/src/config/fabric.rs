//! `[fabric]`: how processes find work and learn of changes.

use runloom_ports::secret::Secret;

use super::store::StoreConfig;
use super::table_reader::Table;

/// `[fabric]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricConfig {
    /// Offers runs to workers.
    pub queue: QueueConfig,
    /// Carries announcements between processes.
    pub bus: BusConfig,
}

impl FabricConfig {
    /// True when queue or bus work inside one process only, so that there can be only one.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.queue == QueueConfig::Embedded || self.bus == BusConfig::Embedded
    }
}

/// `fabric.queue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueConfig {
    /// In this process.
    Embedded,
    /// The database.
    Store,
    /// RabbitMQ, by its address.
    Amqp(Secret),
}

/// `fabric.bus`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusConfig {
    /// In this process.
    Embedded,
    /// The database.
    Store,
    /// Valkey or Redis, by its address.
    Redis(Secret),
}

/// A key whose value is `embedded`, `store` or the address of a service.
struct ServiceKey {
    key: &'static str,
    schemes: &'static [&'static str],
    check_url: fn(&str) -> Result<(), runloom_fabric::Error>,
}

const QUEUE: ServiceKey = ServiceKey {
    key: "queue",
    schemes: &["amqp"],
    check_url: runloom_fabric::check_amqp_url,
};

const BUS: ServiceKey = ServiceKey {
    key: "bus",
    schemes: &["redis", "rediss"],
    check_url: runloom_fabric::check_redis_url,
};

/// The default is the database when processes can share it, else this process.
pub(super) fn read(table: &Table<'_>, store: &StoreConfig) -> FabricConfig {
    let queue = match service(table, &QUEUE, store).as_str() {
        "embedded" => QueueConfig::Embedded,
        "store" => QueueConfig::Store,
        url => QueueConfig::Amqp(Secret::new(url)),
    };
    let bus = match service(table, &BUS, store).as_str() {
        "embedded" => BusConfig::Embedded,
        "store" => BusConfig::Store,
        url => BusConfig::Redis(Secret::new(url)),
    };
    table.finish();
    FabricConfig { queue, bus }
}

fn service(table: &Table<'_>, service: &ServiceKey, store: &StoreConfig) -> String {
    let is_shared = store.postgres.is_some();
    let default = if is_shared { "store" } else { "embedded" };
    let word = table
        .text(service.key)
        .unwrap_or_else(|| default.to_owned());
    let scheme = word.split_once("://").map(|(scheme, _)| scheme);
    let is_address = scheme.is_some_and(|scheme| service.schemes.contains(&scheme));
    if !(word == "embedded" || word == "store" || is_address) {
        let scheme = service.schemes[0];
        table.refuse(
            service.key,
            format_args!("must be \"embedded\", \"store\" or {scheme}://…"),
        );
    } else if word != "embedded" && !is_shared {
        table.refuse(
            service.key,
            "needs a database that processes can share: set store.url to postgres://…, or use \"embedded\"",
        );
    } else if let Some(Err(error)) = is_address.then(|| (service.check_url)(&word)) {
        table.refuse(service.key, error);
    }
    word
}
