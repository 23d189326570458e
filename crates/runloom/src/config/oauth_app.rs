//! `[[workspaces.oauth_apps]]`.

use runloom_ports::secret::Secret;
use runloom_protocol::read::Keyword;
use runloom_protocol::scope::{Scope, ScopeSet};
use runloom_service::oauth::redirect_problem;

use super::table_reader::Table;

/// Secrets with fewer characters could be guessed.
const MIN_SECRET_CHARS: usize = 24;

/// `[[workspaces.oauth_apps]]`.
#[derive(Debug, Clone)]
pub struct OauthAppConfig {
    /// `mantyx_oa_…`.
    pub client_id: String,
    /// The name on the consent page; the client id when it is empty.
    pub name: String,
    /// Its secret.
    pub client_secret: Secret,
    /// The users who may use it.
    pub visibility: AppVisibility,
    /// Where authorisation codes may be sent.
    pub redirect_uris: Vec<String>,
    /// Scopes that it may request.
    pub scopes: Vec<String>,
    /// Whether it may use the client credentials grant.
    pub allow_client_credentials: bool,
}

/// The users who may use an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppVisibility {
    /// Users of its own workspace.
    Private,
    /// Users of every workspace.
    Public,
}

impl Keyword for AppVisibility {
    const ALL: &'static [Self] = &[Self::Private, Self::Public];

    fn word(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

pub(super) fn read(table: &Table<'_>) -> Option<OauthAppConfig> {
    let client_id = table.required("client_id");
    let prefixed = |id: &String| id.starts_with("mantyx_oa_");
    if !client_id.as_ref().is_none_or(prefixed) {
        table.refuse("client_id", "must start with mantyx_oa_");
    }
    let name = table.text("name").unwrap_or_default();
    let client_secret = table.required_secret("client_secret_env");
    let is_short = |secret: &Secret| secret.expose().len() < MIN_SECRET_CHARS;
    if client_secret.as_ref().is_some_and(is_short) {
        table.warn(
            "client_secret_env",
            "the secret is short enough to be guessed; `openssl rand -hex 32` makes a good one",
        );
    }
    let visibility = table.keyword("visibility");
    let visibility = visibility.unwrap_or(AppVisibility::Private);
    let allow_client_credentials = table.boolean("allow_client_credentials").unwrap_or(false);
    if visibility == AppVisibility::Public && allow_client_credentials {
        table.refuse(
            "allow_client_credentials",
            "only private apps may use the client credentials grant",
        );
    }
    let redirect_uris = redirect_uris(table);
    if redirect_uris.is_empty() && !allow_client_credentials {
        table.refuse(
            "redirect_uris",
            "must name at least one URI, unless allow_client_credentials is true",
        );
    }
    let scopes = scopes(table);
    table.finish();
    Some(OauthAppConfig {
        client_id: client_id?,
        name,
        client_secret: client_secret?,
        visibility,
        redirect_uris,
        scopes,
        allow_client_credentials,
    })
}

fn redirect_uris(table: &Table<'_>) -> Vec<String> {
    let uris = table.texts("redirect_uris");
    for uri in &uris {
        if let Some(problem) = redirect_problem(uri) {
            table.refuse("redirect_uris", format_args!("`{uri}` {problem}"));
        }
    }
    uris
}

fn scopes(table: &Table<'_>) -> Vec<String> {
    let scopes = table.texts("scopes");
    if let Err(word) = ScopeSet::of_words(scopes.iter().map(String::as_str)) {
        let known = ScopeSet::from_iter(Scope::ALL.iter().copied()).to_string();
        let known = known.replace(' ', ", ");
        table.refuse(
            "scopes",
            format_args!("`{word}` is not a scope; scopes are: {known}"),
        );
    }
    if scopes.is_empty() {
        table.refuse("scopes", "must name at least one scope");
    }
    scopes
}
