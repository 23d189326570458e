//! `[server]`.

use runloom_ports::secret::Secret;

use super::table_reader::{SecretSetting, Table};

/// Minimum characters of a master key or an admin token; a shorter one could be guessed.
const MIN_SECRET_CHARS: usize = 16;

/// `[server]`.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `HOST:PORT`; port 0 takes a free one.
    pub listen: String,
    /// `HOST:PORT` of a second listener with metrics and probes, without a token.
    pub metrics_listen: Option<String>,
    /// Maximum connections on each listener; further clients wait.
    pub max_connections: usize,
    /// Maximum connections of one client address on each listener; further ones get 503.
    pub max_connections_per_address: usize,
    /// The address at which clients reach the server, without a slash at the end; `None` = the host of each request.
    pub public_url: Option<String>,
    /// Origins whose pages may call the API: `https://app.example`, or `*`.
    pub cors_origins: Vec<String>,
    /// The variable that holds the master key.
    pub master_key_env: String,
    /// Seals secrets at rest; `None` = the server creates one and stores it beside the data.
    pub master_key: Option<Secret>,
    /// The previous master key, from the variable with the suffix `_PREVIOUS`: opens what it sealed.
    pub previous_master_key: Option<Secret>,
    /// The variable that holds the admin token.
    pub admin_token_env: String,
    /// `None` = no admin API.
    pub admin_token: Option<Secret>,
}

pub(super) fn read(table: &Table<'_>) -> ServerConfig {
    let listen = table.text("listen");
    let listen = listen.unwrap_or_else(|| "127.0.0.1:8787".to_owned());
    if !is_address(&listen) {
        table.refuse(
            "listen",
            format_args!("`{listen}` is not HOST:PORT like 127.0.0.1:8787 or [::]:8787"),
        );
    }
    let metrics_listen = table.text("metrics_listen");
    if let Some(listen) = metrics_listen.as_deref().filter(|text| !is_address(text)) {
        table.refuse(
            "metrics_listen",
            format_args!("`{listen}` is not HOST:PORT like 127.0.0.1:9464 or [::]:9464"),
        );
    }
    let public_url = table.text("public_url");
    let public_url = public_url.map(|url| url.trim_end_matches('/').to_owned());
    if let Some(url) = public_url.as_deref().filter(|url| !is_web_url(url)) {
        table.refuse(
            "public_url",
            format_args!("`{url}` must start with http:// or https://"),
        );
    }
    let cors_origins = table.texts("cors_origins");
    for origin in cors_origins.iter().filter(|origin| !is_origin(origin)) {
        table.refuse(
            "cors_origins",
            format_args!(
                "`{origin}` must be an origin like https://app.example or http://localhost:3000 without a path, or \"*\""
            ),
        );
    }
    let max_connections = table.integer("max_connections", 1..=1_000_000_usize);
    let max_connections = max_connections.unwrap_or(16_384);
    let per_address = table.integer("max_connections_per_address", 1..=1_000_000_usize);
    let master_key = master_key(table);
    let admin_token = admin_token(table);
    let previous_master_key = master_key.variable.as_ref().and_then(|variable| {
        let previous = format!("{variable}_PREVIOUS");
        table.lookup("master_key_env", &previous)
    });
    table.finish();
    ServerConfig {
        listen,
        metrics_listen,
        max_connections,
        // One client cannot take every connection.
        max_connections_per_address: per_address.unwrap_or(max_connections.div_ceil(2)),
        public_url,
        cors_origins,
        master_key_env: master_key.variable.unwrap_or_default(),
        master_key: master_key.value,
        previous_master_key,
        admin_token_env: admin_token.variable.unwrap_or_default(),
        admin_token: admin_token.value,
    }
}

fn master_key(table: &Table<'_>) -> SecretSetting {
    let key = table.secret_or("master_key_env", "RUNLOOM_MASTER_KEY");
    if is_short(&key) {
        table.refuse(
            "master_key_env",
            format_args!(
                "the master key must have at least {MIN_SECRET_CHARS} characters; `openssl rand -hex 32` makes a good one"
            ),
        );
    }
    key
}

/// A short token is only a warning: servers on private addresses run with one.
fn admin_token(table: &Table<'_>) -> SecretSetting {
    let token = table.secret_or("admin_token_env", "RUNLOOM_ADMIN_TOKEN");
    if is_short(&token) {
        table.warn(
            "admin_token_env",
            format_args!(
                "the admin token has fewer than {MIN_SECRET_CHARS} characters and could be guessed; `openssl rand -hex 32` makes a good one"
            ),
        );
    }
    token
}

fn is_short(setting: &SecretSetting) -> bool {
    let secret = setting.value.as_ref();
    secret.is_some_and(|secret| secret.expose().len() < MIN_SECRET_CHARS)
}

fn is_address(listen: &str) -> bool {
    listen.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (bracketed || !host.contains(':')) && port.parse::<u16>().is_ok()
    })
}

/// True for an origin as browsers send it: scheme, host and port, in lower case; or `*`.
fn is_origin(origin: &str) -> bool {
    let host = ["http://", "https://"]
        .iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:[]".contains(&byte);
    origin == "*" || host.is_some_and(|host| !host.is_empty() && host.bytes().all(plain))
}

/// True for an absolute `http` or `https` URL.
pub(super) fn is_web_url(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        url.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(' '))
    })
}
