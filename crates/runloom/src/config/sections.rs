//! The single sections: server, store, fabric, runs, sessions, limits, outbound, code, dashboard, log, platform.

use std::collections::BTreeSet;
use std::path::PathBuf;

use runloom_protocol::definition::{ProviderKind, ToolAction};
use runloom_service::registry::code_tools;
use runloom_tools::outbound::OutboundPolicy;

use super::document::Node;
use super::table::{Context, Table};
use super::types::{
    BusConfig, CodeConfig, Config, FabricConfig, LimitsConfig, LogConfig, LogFormat,
    OutboundConfig, PlatformConfig, QueueConfig, RunsConfig, Secret, ServerConfig, StoreConfig,
};
use super::{plugins, providers, workspaces};

/// A day: longer waits are slips of the unit.
const MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// A bound that only the type sets.
const NO_MAX: u64 = u32::MAX as u64;

/// Characters of a master key or an admin token; a shorter one could be guessed.
const MIN_SECRET: usize = 16;

pub(super) fn read<'a>(root: &'a Node, context: &'a Context<'a>) -> Config {
    let root = Table::of_node(context, String::new(), root);
    let server = server(root.section("server"));
    let store = store(root.section("store"));
    let fabric = fabric(root.section("fabric"), &store);
    let platform = platform(root.section("platform"));
    let config = Config {
        server,
        store,
        fabric,
        runs: runs(root.section("runs")),
        session_retention_days: sessions(root.section("sessions")),
        limits: limits(root.section("limits")),
        outbound: outbound(root.section("outbound")),
        code: code(root.section("code")),
        dashboard: dashboard(root.section("dashboard")),
        log: log(root.section("log")),
        workspaces: workspaces::read(root.tables("workspaces"), &platform),
        plugins: plugins::read(root.tables("plugins")),
        platform,
        warnings: Vec::new(),
    };
    if !config.code.enabled {
        refuse_code(&root, &config);
    }
    root.finish();
    config
}

/// Who switches code off and declares some has not decided yet.
fn refuse_code(root: &Table<'_>, config: &Config) {
    let declared = config.workspaces.iter().flat_map(|workspace| {
        let documents = workspace.tools.iter().chain(&workspace.plugins);
        let code = documents.filter(|document| !code_tools(&document.definition).is_empty());
        code.map(|document| format!("`{}` of workspace `{}`", document.slug, workspace.slug))
    });
    let of_plugins = config.plugins.iter().filter(|plugin| {
        let tools = plugin.manifest.iter().flat_map(|manifest| &manifest.tools);
        tools
            .into_iter()
            .any(|tool| matches!(tool.action, ToolAction::Code(_)))
    });
    let of_plugins = of_plugins.map(|plugin| format!("the plugin `{}`", plugin.slug));
    for what in declared.chain(of_plugins) {
        root.invalid(
            "code",
            format!("`enabled` is false, and {what} has code tools"),
        );
    }
}

fn code(table: Table<'_>) -> CodeConfig {
    let config = CodeConfig {
        enabled: table.boolean("enabled").unwrap_or(true),
    };
    table.finish();
    config
}

fn dashboard(table: Table<'_>) -> bool {
    let enabled = table.boolean("enabled").unwrap_or(true);
    table.finish();
    enabled
}

fn server(table: Table<'_>) -> ServerConfig {
    let listen = table
        .text("listen")
        .unwrap_or_else(|| "127.0.0.1:8787".to_owned());
    if !is_address(&listen) {
        table.invalid(
            "listen",
            format!("`{listen}` is not HOST:PORT like 127.0.0.1:8787 or [::]:8787"),
        );
    }
    let metrics_listen = table.text("metrics_listen");
    if let Some(listen) = metrics_listen
        .as_deref()
        .filter(|listen| !is_address(listen))
    {
        table.invalid(
            "metrics_listen",
            format!("`{listen}` is not HOST:PORT like 127.0.0.1:9464 or [::]:9464"),
        );
    }
    let max_connections = table
        .integer("max_connections", 1..=1_000_000)
        .and_then(|connections| usize::try_from(connections).ok());
    let public_url = table
        .text("public_url")
        .map(|url| url.trim_end_matches('/').to_owned());
    if let Some(url) = public_url.as_deref().filter(|url| !is_web_url(url)) {
        table.invalid(
            "public_url",
            format!("`{url}` must start with http:// or https://"),
        );
    }
    let (master_key_env, master_key) = table.secret("master_key_env", Some("RUNLOOM_MASTER_KEY"));
    let (admin_token_env, admin_token) =
        table.secret("admin_token_env", Some("RUNLOOM_ADMIN_TOKEN"));
    let is_short = |secret: &Option<Secret>| {
        secret
            .as_ref()
            .is_some_and(|secret| secret.expose().len() < MIN_SECRET)
    };
    if is_short(&master_key) {
        table.invalid(
            "master_key_env",
            format!("the master key must have at least {MIN_SECRET} characters; `openssl rand -hex 32` makes a good one"),
        );
    }
    // Servers that nobody else reaches have been started with shorter ones: they go on.
    if is_short(&admin_token) {
        table.warn(
            "admin_token_env",
            format!("the admin token has fewer than {MIN_SECRET} characters and could be guessed; `openssl rand -hex 32` makes a good one"),
        );
    }
    let previous_master_key = master_key_env
        .as_ref()
        .and_then(|variable| table.variable(&format!("{variable}_PREVIOUS")));
    table.finish();
    ServerConfig {
        listen,
        metrics_listen,
        max_connections: max_connections.unwrap_or(16_384),
        public_url,
        master_key_env: master_key_env.unwrap_or_default(),
        master_key,
        previous_master_key,
        admin_token_env: admin_token_env.unwrap_or_default(),
        admin_token,
    }
}

fn store(table: Table<'_>) -> StoreConfig {
    let url = table
        .text("url")
        .unwrap_or_else(|| "sqlite:.runloom/runloom.db".to_owned());
    let is_postgres = url.starts_with("postgres:") || url.starts_with("postgresql:");
    let path = match url.strip_prefix("sqlite:") {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None => {
            if !is_postgres {
                // It may hold a password, so it is not repeated.
                table.invalid(
                    "url",
                    "must be sqlite:PATH, like sqlite:.runloom/runloom.db, or postgres://USER:PASSWORD@HOST/DATABASE",
                );
            }
            ""
        }
    };
    if url.starts_with("sqlite:") && (path.is_empty() || path.starts_with(':')) {
        table.invalid(
            "url",
            "must name a file: the log has to outlive the process",
        );
    }
    if is_postgres && let Err(error) = runloom_store::check_url(&url) {
        table.invalid("url", error);
    }
    let sqlite = PathBuf::from(path);
    table.finish();
    let postgres = is_postgres.then(|| Secret::new(url));
    StoreConfig { sqlite, postgres }
}

/// With a database that processes share the default is the database itself; a file in one process needs nothing else.
fn fabric(table: Table<'_>, store: &StoreConfig) -> FabricConfig {
    let is_shared = store.postgres.is_some();
    type CheckUrl = fn(&str) -> Result<(), runloom_fabric::Error>;
    let read = |key: &'static str, schemes: &[&str], check: CheckUrl| {
        let value = table.text(key);
        let word = match value.as_deref() {
            None if is_shared => "store",
            None => "embedded",
            Some(word) => word,
        };
        let named = word.split_once("://").map(|(scheme, _)| scheme);
        let is_address = named.is_some_and(|scheme| schemes.contains(&scheme));
        if word != "embedded" && !is_shared && (word == "store" || is_address) {
            table.invalid(
                key,
                "needs a database that processes can share: set store.url to postgres://…, or use \"embedded\"",
            );
        } else if !(word == "embedded" || word == "store" || is_address) {
            table.invalid(
                key,
                format!("must be \"embedded\", \"store\" or {}://…", schemes[0]),
            );
        } else if let Some(Err(error)) = is_address.then(|| check(word)) {
            table.invalid(key, error);
        }
        word.to_owned()
    };
    let queue = match read("queue", &["amqp"], runloom_fabric::check_amqp_url).as_str() {
        "embedded" => QueueConfig::Embedded,
        "store" => QueueConfig::Store,
        url => QueueConfig::Amqp(Secret::new(url)),
    };
    let bus = match read("bus", &["redis", "rediss"], runloom_fabric::check_redis_url).as_str() {
        "embedded" => BusConfig::Embedded,
        "store" => BusConfig::Store,
        url => BusConfig::Redis(Secret::new(url)),
    };
    table.finish();
    FabricConfig { queue, bus }
}

fn runs(table: Table<'_>) -> RunsConfig {
    let ms = |key, default| table.integer(key, 1..=MAX_MS).unwrap_or(default);
    let config = RunsConfig {
        local_tool_timeout_ms: ms("local_tool_timeout_ms", 300_000),
        max_tool_turns: small(table.integer("max_tool_turns", 1..=100), 32),
        park_after_ms: ms("park_after_ms", 5_000),
        provider_timeout_ms: ms("provider_timeout_ms", 600_000),
        provider_first_byte_ms: ms("provider_first_byte_ms", 60_000),
        provider_idle_ms: ms("provider_idle_ms", 60_000),
        max_concurrent: small(table.integer("max_concurrent", 1..=100_000), 256) as usize,
        drain_ms: table.integer("drain_ms", 0..=MAX_MS).unwrap_or(20_000),
        retention_days: retention_days(&table),
    };
    for key in ["provider_first_byte_ms", "provider_idle_ms"] {
        if table
            .integer(key, 1..=MAX_MS)
            .is_some_and(|ms| ms > config.provider_timeout_ms)
        {
            let total = config.provider_timeout_ms;
            table.invalid(
                key,
                format!("must not be longer than provider_timeout_ms ({total})"),
            );
        }
    }
    table.finish();
    config
}

fn sessions(table: Table<'_>) -> Option<u32> {
    let days = retention_days(&table);
    table.finish();
    days
}

fn retention_days(table: &Table<'_>) -> Option<u32> {
    table
        .integer("retention_days", 0..=36_500)
        .and_then(|days| u32::try_from(days).ok())
        .filter(|days| *days > 0)
}

fn limits(table: Table<'_>) -> LimitsConfig {
    let rate = |key, default| small(table.integer(key, 1..=NO_MAX), default);
    let config = LimitsConfig {
        run_starts_per_minute: rate("run_starts_per_minute", 120),
        lifecycle_per_minute: rate("lifecycle_per_minute", 600),
        writes_per_minute: rate("writes_per_minute", 120),
        reads_per_minute: rate("reads_per_minute", 6000),
        max_backlog: table.integer("max_backlog", 0..=NO_MAX).unwrap_or(100_000),
        max_backlog_per_workspace: table
            .integer("max_backlog_per_workspace", 0..=NO_MAX)
            .unwrap_or(25_000),
        max_body_bytes: table
            .integer("max_body_bytes", 1024..=1024 * 1024 * 1024)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(8 * 1024 * 1024),
    };
    table.finish();
    config
}

fn outbound(table: Table<'_>) -> OutboundConfig {
    let config = OutboundConfig {
        allow_private_networks: table.boolean("allow_private_networks").unwrap_or(false),
        allow_hosts: table.texts("allow_hosts"),
    };
    for host in &config.allow_hosts {
        if OutboundPolicy::check_host(host).is_err() {
            table.invalid(
                "allow_hosts",
                format!("`{host}` must be a host, host:port or *.domain"),
            );
        }
    }
    table.finish();
    config
}

/// The words that `log.level` knows.
const LOG_LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

fn log(table: Table<'_>) -> LogConfig {
    let config = LogConfig {
        level: table.text("level").unwrap_or_else(|| "info".to_owned()),
        format: table
            .one_of(
                "format",
                &[("pretty", LogFormat::Pretty), ("json", LogFormat::Json)],
            )
            .unwrap_or(LogFormat::Pretty),
    };
    let is_level = |word: &str| {
        LOG_LEVELS
            .iter()
            .any(|level| level.eq_ignore_ascii_case(word))
    };
    let mut parts = config.level.split(',').map(str::trim);
    // The filter would take a misspelt level for the name of a target, and then log nothing else.
    if let Some(word) = parts.find(|part| !part.contains('=') && !is_level(part)) {
        table.invalid(
            "level",
            format!(
                "`{word}` is not a level: use one of {}, or filters like info,runloom_engine=debug",
                LOG_LEVELS.join(", ")
            ),
        );
    } else if let Err(error) = config.level.parse::<tracing_subscriber::filter::Targets>() {
        table.invalid(
            "level",
            format!(
                "`{}` is not a level or a filter like info,runloom_engine=debug: {error}",
                config.level
            ),
        );
    }
    table.finish();
    config
}

fn platform(table: Table<'_>) -> PlatformConfig {
    let config = PlatformConfig {
        demo: table.boolean("demo"),
        providers: providers::read(&table),
    };
    let mut seen = BTreeSet::from(["demo", "demo-spare"]);
    for provider in &config.providers {
        for model in &provider.models {
            let demo = provider.kind == ProviderKind::Demo && model.id == "demo";
            if !demo && !seen.insert(&model.id) {
                let id = &model.id;
                table.invalid(
                    "providers",
                    format!("two platform models would be called platform:{id}"),
                );
            }
        }
    }
    table.finish();
    config
}

fn small(number: Option<u64>, default: u32) -> u32 {
    number.map_or(default, |number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn is_address(listen: &str) -> bool {
    listen.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (bracketed || !host.contains(':')) && port.parse::<u16>().is_ok()
    })
}

pub(super) fn is_web_url(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        url.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(' '))
    })
}
