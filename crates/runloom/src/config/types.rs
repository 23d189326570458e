//! What there is to configure, checked. `docs/configuration.md` has every key with its default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use runloom_protocol::definition::{PluginManifest, ProviderKind};
use serde_json::{Map, Value};

use super::Problem;

/// The whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`.
    pub server: ServerConfig,
    /// `[store]`.
    pub store: StoreConfig,
    /// `[fabric]`.
    pub fabric: FabricConfig,
    /// `[runs]`.
    pub runs: RunsConfig,
    /// `sessions.retention_days`: after so many days without use sessions are deleted; `None` = never.
    pub session_retention_days: Option<u32>,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[outbound]`.
    pub outbound: OutboundConfig,
    /// `[code]`.
    pub code: CodeConfig,
    /// `dashboard.enabled`: whether the pages for people are served.
    pub dashboard: bool,
    /// `[log]`.
    pub log: LogConfig,
    /// `[platform]`.
    pub platform: PlatformConfig,
    /// `[[workspaces]]`.
    pub workspaces: Vec<WorkspaceConfig>,
    /// `[[plugins]]`.
    pub plugins: Vec<PluginConfig>,
    /// What is allowed but probably not meant, or not served yet.
    pub warnings: Vec<Problem>,
}

/// A key or token: never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the clear text.
    #[must_use]
    pub fn new(clear: impl Into<String>) -> Self {
        Self(clear.into())
    }

    /// The clear text, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `[server]`.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `HOST:PORT`; port 0 takes a free one.
    pub listen: String,
    /// `HOST:PORT` of a second listener with metrics and probes, without a token.
    pub metrics_listen: Option<String>,
    /// Connections at once on each listener; further clients wait.
    pub max_connections: usize,
    /// How clients reach the server, without a slash at the end; `None` = by the host that they name.
    pub public_url: Option<String>,
    /// The variable that holds the master key.
    pub master_key_env: String,
    /// Seals secrets at rest; `None` = the server makes one and keeps it beside the data.
    pub master_key: Option<Secret>,
    /// The master key from before, from the variable with `_PREVIOUS` behind its name: still opens what it sealed.
    pub previous_master_key: Option<Secret>,
    /// The variable that holds the admin token.
    pub admin_token_env: String,
    /// `None` = no admin API.
    pub admin_token: Option<Secret>,
}

/// `[store]`.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The database file; not used with Postgres.
    pub sqlite: PathBuf,
    /// The address of a Postgres database; it may hold a password.
    pub postgres: Option<Secret>,
}

impl StoreConfig {
    /// The address as the store takes it.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.postgres {
            Some(url) => url.expose().to_owned(),
            None => format!("sqlite:{}", self.sqlite.display()),
        }
    }

    /// The address for people: without a password.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.postgres {
            Some(_) => "postgres (address not shown)".to_owned(),
            None => self.url(),
        }
    }
}

/// `[fabric]`: how processes find work and hear of each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricConfig {
    /// Who offers runs to workers.
    pub queue: QueueConfig,
    /// Who tells processes of what others did.
    pub bus: BusConfig,
}

impl FabricConfig {
    /// True when nothing leaves the process, so that there can be only one.
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

/// `[runs]`. Times in milliseconds.
#[derive(Debug, Clone)]
pub struct RunsConfig {
    /// How long a client's tool is waited for.
    pub local_tool_timeout_ms: u64,
    /// Tool turns of a run that names no limit.
    pub max_tool_turns: u32,
    /// How long a waiting run stays in memory.
    pub park_after_ms: u64,
    /// One model call in all.
    pub provider_timeout_ms: u64,
    /// Until a model call's first byte.
    pub provider_first_byte_ms: u64,
    /// Silence inside a model call.
    pub provider_idle_ms: u64,
    /// Runs that are driven at the same time.
    pub max_concurrent: usize,
    /// How long a stopping server waits for its runs to reach a step boundary.
    pub drain_ms: u64,
    /// Days after which ended runs and ended sessions are deleted; `None` = never.
    pub retention_days: Option<u32>,
}

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
    /// Runs of all workspaces that may wait for a worker; 0 = any number.
    pub max_backlog: u64,
    /// Runs of one workspace that may wait for a worker; 0 = any number.
    pub max_backlog_per_workspace: u64,
    /// Bytes of a request's body.
    pub max_body_bytes: usize,
}

/// `[outbound]`: what server-resolved tools may reach.
#[derive(Debug, Clone, Default)]
pub struct OutboundConfig {
    /// Whether private addresses may be reached.
    pub allow_private_networks: bool,
    /// `host`, `host:port` or `*.domain` that may be reached all the same.
    pub allow_hosts: Vec<String>,
}

/// `[code]`: code tools.
#[derive(Debug, Clone, Copy)]
pub struct CodeConfig {
    /// Whether there are any.
    pub enabled: bool,
}

/// `[log]`.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// `error` … `trace`, or filter directives like `info,runloom_engine=debug`.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// `[platform]`: what every workspace sees.
#[derive(Debug, Clone)]
pub struct PlatformConfig {
    /// Whether `platform:demo` is offered; `None` = only by `runloom dev`.
    pub demo: Option<bool>,
    /// Providers of every workspace.
    pub providers: Vec<ProviderConfig>,
}

/// `[[workspaces]]`.
#[derive(Debug, Clone)]
pub struct WorkspaceConfig {
    /// Its name in URLs.
    pub slug: String,
    /// For people.
    pub name: String,
    /// `<provider id>/<model id>` or a catalog id.
    pub default_model: Option<String>,
    /// What its runs may cost in a month (UTC), in US dollars.
    pub monthly_budget_usd: Option<f64>,
    /// Its keys.
    pub api_keys: Vec<ApiKeyConfig>,
    /// Its providers.
    pub providers: Vec<ProviderConfig>,
    /// Its secrets.
    pub secrets: Vec<SecretConfig>,
    /// Its agents.
    pub agents: Vec<DocumentConfig>,
    /// Its tools.
    pub tools: Vec<DocumentConfig>,
    /// Its plugins.
    pub plugins: Vec<DocumentConfig>,
    /// Its A2A peers.
    pub external_agents: Vec<DocumentConfig>,
    /// Its OAuth apps; not served yet.
    pub oauth_apps: Vec<OauthAppConfig>,
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUsage {
    /// The API of the protocol.
    DeveloperApi,
    /// Hosted A2A only.
    A2a,
    /// Hosted MCP only.
    Mcp,
}

/// `[[workspaces.api_keys]]`.
#[derive(Debug, Clone)]
pub struct ApiKeyConfig {
    /// For people.
    pub name: String,
    /// The whole key, `mantyx_…`.
    pub key: Secret,
    /// What it is for.
    pub usage: KeyUsage,
    /// Agents it may run; empty = every agent.
    pub agent_ids: Vec<String>,
    /// Its own limit of run starts.
    pub runs_per_minute: Option<u32>,
    /// What its runs may cost in a month (UTC), in US dollars.
    pub monthly_budget_usd: Option<f64>,
}

/// `[[workspaces.providers]]` and `[[platform.providers]]`.
#[derive(Clone)]
pub struct ProviderConfig {
    /// Its name in model ids.
    pub id: String,
    /// Which API it speaks.
    pub kind: ProviderKind,
    /// Where it is; `None` = the vendor's own address.
    pub base_url: Option<String>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// The key; `None` when none is named, or the variable is not set.
    pub api_key: Option<Secret>,
    /// Sent with every call.
    pub headers: BTreeMap<String, String>,
    /// An HTTP or SOCKS proxy for this provider.
    pub proxy: Option<String>,
    /// Its models.
    pub models: Vec<ModelConfig>,
    /// Keys that only its adapter knows. `x_env = "VAR"` stands here as `x`, with the variable's value.
    pub extra: Map<String, Value>,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and the adapter's keys may be credentials: only their names are shown.
        f.debug_struct("ProviderConfig")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key)
            .field("headers", &self.headers.keys())
            .field("models", &self.models)
            .field("extra", &self.extra.keys())
            .finish_non_exhaustive()
    }
}

/// One entry of a provider's `models`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The vendor's own name.
    pub id: String,
    /// For people; `None` = the id.
    pub label: Option<String>,
    /// Tokens that it can read.
    pub context_window: Option<u64>,
    /// Tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Whether it reasons; `None` = the adapter decides by the name.
    pub reasoning: Option<bool>,
    /// What it costs.
    pub pricing: Option<PricingConfig>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PricingConfig {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input from a cache.
    pub cache_read: Option<f64>,
}

/// `[[workspaces.agents]]`, `tools`, `plugins` or `external_agents`.
#[derive(Clone)]
pub struct DocumentConfig {
    /// Its name in URLs.
    pub slug: String,
    /// What it says, as written.
    pub definition: Value,
}

impl fmt::Debug for DocumentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may be credentials.
        f.debug_tuple("DocumentConfig").field(&self.slug).finish()
    }
}

/// `[[plugins]]`.
#[derive(Debug, Clone)]
pub struct PluginConfig {
    /// Its name without the `@`.
    pub slug: String,
    /// What it brings; `None` = the plugin of this name is not wanted.
    pub manifest: Option<PluginManifest>,
    /// The workspaces that have it; `None` = all.
    pub workspaces: Option<Vec<String>>,
}

/// `[[workspaces.secrets]]`.
#[derive(Debug, Clone)]
pub struct SecretConfig {
    /// What `{{secret:NAME}}` calls it.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// `[[workspaces.oauth_apps]]`.
#[derive(Debug, Clone)]
pub struct OauthAppConfig {
    /// `mantyx_oa_…`.
    pub client_id: String,
    /// What people read at the consent page; the client id when it is empty.
    pub name: String,
    /// Its secret.
    pub client_secret: Secret,
    /// Whether users of other workspaces may use it.
    pub public: bool,
    /// Where codes may be sent.
    pub redirect_uris: Vec<String>,
    /// What it may ask for.
    pub scopes: Vec<String>,
    /// Whether it may act for itself.
    pub allow_client_credentials: bool,
}

impl ProviderConfig {
    /// The offline provider, with nothing to configure.
    #[must_use]
    pub fn demo(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            kind: ProviderKind::Demo,
            base_url: None,
            api_key_env: None,
            api_key: None,
            headers: BTreeMap::new(),
            proxy: None,
            models: Vec::new(),
            extra: Map::new(),
        }
    }
}

impl ModelConfig {
    /// A model of which nothing but the name is known.
    #[must_use]
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            label: None,
            context_window: None,
            max_output_tokens: None,
            reasoning: None,
            pricing: None,
        }
    }
}
