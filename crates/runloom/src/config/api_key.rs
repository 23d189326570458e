//! `[[workspaces.api_keys]]`.

use runloom_ports::secret::Secret;
use runloom_protocol::read::Keyword;

use super::table_reader::Table;
use super::workspace::monthly_budget;

/// Keys with fewer characters could be guessed.
const MIN_KEY_CHARS: usize = 24;

/// Prefixes of OAuth credentials, which keys must not have.
const OAUTH_PREFIXES: [&str; 4] = ["mantyx_at_", "mantyx_rt_", "mantyx_oa_", "mantyx_oas_"];

/// `[[workspaces.api_keys]]`.
#[derive(Debug, Clone)]
pub struct ApiKeyConfig {
    /// Its name for display.
    pub name: String,
    /// The whole key, `mantyx_…`.
    pub key: Secret,
    /// The API that it is for.
    pub usage: KeyUsage,
    /// Agents it may run; empty = every agent.
    pub agent_ids: Vec<String>,
    /// Its own limit of run starts.
    pub runs_per_minute: Option<u32>,
    /// Maximum cost of its runs in a month (UTC), in US dollars.
    pub monthly_budget_usd: Option<f64>,
    /// Whether requests with it may name the owner that they act for.
    pub act_for_owners: bool,
}

/// The API that a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUsage {
    /// The developer API.
    DeveloperApi,
    /// Published agents over A2A.
    A2a,
    /// Published agents over MCP.
    Mcp,
    /// Reading and deciding approvals.
    Approvals,
}

impl Keyword for KeyUsage {
    const ALL: &'static [Self] = &[Self::DeveloperApi, Self::A2a, Self::Mcp, Self::Approvals];

    fn word(self) -> &'static str {
        match self {
            Self::DeveloperApi => "developer_api",
            Self::A2a => "a2a",
            Self::Mcp => "mcp",
            Self::Approvals => "approvals",
        }
    }
}

pub(super) fn read(table: &Table<'_>) -> Option<ApiKeyConfig> {
    let name = table.text("name").unwrap_or_else(|| "key".to_owned());
    let key = table.required_secret("key_env");
    if let Some(key) = &key {
        check_key(table, key);
    }
    let usage = table.keyword("usage").unwrap_or(KeyUsage::DeveloperApi);
    let agent_ids = table.texts("agent_ids");
    let runs_per_minute = table.integer("runs_per_minute", 1..=u32::MAX);
    let monthly_budget_usd = monthly_budget(table);
    let act_for_owners = table.boolean("act_for_owners").unwrap_or(false);
    if act_for_owners && usage != KeyUsage::DeveloperApi {
        table.refuse(
            "act_for_owners",
            "only keys with usage developer_api may act for owners",
        );
    }
    table.finish();
    Some(ApiKeyConfig {
        name,
        key: key?,
        usage,
        agent_ids,
        runs_per_minute,
        monthly_budget_usd,
        act_for_owners,
    })
}

fn check_key(table: &Table<'_>, key: &Secret) {
    let text = key.expose();
    let is_oauth = OAUTH_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
    let is_graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !text.starts_with("mantyx_") || is_oauth || !is_graphic {
        table.refuse(
            "key_env",
            "the key must look like mantyx_…, without spaces (mantyx_at_, _rt_, _oa_ and _oas_ are OAuth's)",
        );
    } else if text.len() < MIN_KEY_CHARS {
        table.warn(
            "key_env",
            "the key is short enough to be guessed; make one with `runloom admin key create`",
        );
    }
}
