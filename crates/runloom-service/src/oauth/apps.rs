//! Apps: registered by a workspace, private to its people or open to everybody's.

use runloom_protocol::admin::{CreateOauthApp, OauthAppCreated, Visibility};
use runloom_protocol::scope::ScopeSet;
use url::{Host, Url};

use super::{CLIENT_PREFIX, ID_CHARS, OAuthService, SECRET_PREFIX};
use crate::auth::random_letters;
use crate::error::{Error, Result};
use crate::tenancy::{NAME_MAX_CHARS, checked, issue};
use runloom_ports::store::{AppRow, Millis, PutApp, WorkspaceRow};

/// Maximum apps of one workspace.
const APPS_MAX: usize = 100;
/// Maximum redirect URIs of one app.
const REDIRECT_URIS_MAX: usize = 20;
/// Maximum characters of a redirect URI.
const REDIRECT_URI_MAX_CHARS: usize = 2000;
/// Characters of a secret that an operator chose.
const CHOSEN_SECRET_CHARS: std::ops::RangeInclusive<usize> = 8..=256;
/// Characters behind the prefix of a client id that an operator chose.
const CHOSEN_ID_CHARS: std::ops::RangeInclusive<usize> = 1..=64;

/// Schemes that are no apps of people's own.
const FORBIDDEN_SCHEMES: [&str; 14] = [
    "about",
    "blob",
    "chrome",
    "data",
    "file",
    "filesystem",
    "ftp",
    "javascript",
    "mailto",
    "sms",
    "tel",
    "vbscript",
    "ws",
    "wss",
];

const MISSING: Error = Error::NotFound { what: "OAuth app" };

impl OAuthService {
    /// Creates an app. Its secret is in the response and never shown again.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace, [`Error::Invalid`] for bad fields.
    pub async fn create_app(
        &self,
        slug: &str,
        create: CreateOauthApp,
        now: Millis,
    ) -> Result<OauthAppCreated> {
        let workspace = self.tenancy.workspace(slug).await?;
        if self.store.apps(workspace.no).await?.len() >= APPS_MAX {
            let message = format!("The workspace has {APPS_MAX} OAuth apps already");
            return Err(Error::Conflict { message });
        }
        let client_id = format!("{CLIENT_PREFIX}{}", random_letters(ID_CHARS)?);
        let client_secret = self.keys.generate_as(SECRET_PREFIX)?;
        self.put_app(&workspace, (&client_id, Some(&client_secret)), create, now)
            .await?;
        Ok(OauthAppCreated {
            client_id,
            client_secret,
        })
    }

    /// Creates or updates an app of the operator's configuration.
    ///
    /// # Errors
    /// As [`Self::create_app`]; [`Error::Conflict`] when the id belongs to another workspace.
    pub async fn ensure_app(
        &self,
        slug: &str,
        (client_id, client_secret): (&str, &str),
        create: CreateOauthApp,
        now: Millis,
    ) -> Result<()> {
        let workspace = self.tenancy.workspace(slug).await?;
        let chosen = client_id.strip_prefix(CLIENT_PREFIX).unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !CHOSEN_ID_CHARS.contains(&chosen.len()) || !chosen.bytes().all(plain) {
            let message = "must be `mantyx_oa_` and 1–64 letters, digits, _ or -";
            return Err(Error::invalid("clientId", message));
        }
        // The message never repeats the secret: it ends up in logs.
        if !CHOSEN_SECRET_CHARS.contains(&client_secret.len())
            || !client_secret.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let message = "must have 8–256 printable ASCII characters without spaces";
            return Err(Error::invalid("clientSecret", message));
        }
        self.put_app(&workspace, (client_id, Some(client_secret)), create, now)
            .await
    }

    /// Apps of a workspace, oldest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace.
    pub async fn list_apps(&self, slug: &str) -> Result<Vec<AppRow>> {
        let workspace = self.tenancy.workspace(slug).await?;
        Ok(self.store.apps(workspace.no).await?)
    }

    /// Replaces the secret of an app; the old one stops working at once. Tokens stay valid.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the workspace has no such app.
    pub async fn renew_secret(
        &self,
        slug: &str,
        client_id: &str,
        now: Millis,
    ) -> Result<OauthAppCreated> {
        let workspace = self.tenancy.workspace(slug).await?;
        let found = self.store.app(client_id).await?;
        let app = found.filter(|app| app.workspace == workspace.no);
        let app = app.ok_or(MISSING)?;
        let client_secret = self.keys.generate_as(SECRET_PREFIX)?;
        let put = PutApp {
            client_id: app.client_id.clone(),
            workspace: app.workspace,
            name: app.name,
            secret: Some(self.keys.hash(&client_secret)),
            public: app.public,
            redirect_uris: app.redirect_uris,
            scopes: app.scopes,
            client_credentials: app.client_credentials,
        };
        self.store.put_app(put, now).await?;
        Ok(OauthAppCreated {
            client_id: app.client_id,
            client_secret,
        })
    }

    /// Deletes an app with everything it was allowed.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the workspace has no such app.
    pub async fn delete_app(&self, slug: &str, client_id: &str) -> Result<()> {
        let workspace = self.tenancy.workspace(slug).await?;
        let known = self.store.delete_app(workspace.no, client_id).await?;
        self.tenancy.changed();
        if known { Ok(()) } else { Err(MISSING) }
    }

    async fn put_app(
        &self,
        workspace: &WorkspaceRow,
        (client_id, secret): (&str, Option<&str>),
        create: CreateOauthApp,
        now: Millis,
    ) -> Result<()> {
        let scopes = check(&create)?;
        let name = match create.name.trim() {
            "" => client_id.to_owned(),
            name => name.to_owned(),
        };
        let put = PutApp {
            client_id: client_id.to_owned(),
            workspace: workspace.no,
            name,
            secret: secret.map(|secret| self.keys.hash(secret)),
            public: create.visibility == Visibility::Public,
            redirect_uris: create.redirect_uris,
            scopes,
            client_credentials: create.client_credentials,
        };
        let put = self.store.put_app(put, now).await?;
        // Its scopes may have become narrower than those of cached tokens.
        self.tenancy.changed();
        if put {
            return Ok(());
        }
        let message = format!("The client id {client_id} belongs to another workspace");
        Err(Error::Conflict { message })
    }
}

fn check(create: &CreateOauthApp) -> Result<ScopeSet> {
    let mut issues = Vec::new();
    if create.name.chars().count() > NAME_MAX_CHARS || create.name.chars().any(char::is_control) {
        let message = "must have at most 256 characters, all of them printable";
        issues.push(issue("name", message));
    }
    let scopes = ScopeSet::of_words(create.scopes.iter().map(String::as_str));
    let scopes = scopes.unwrap_or_else(|word| {
        let word: String = word.chars().take(64).collect();
        issues.push(issue("scopes", &format!("`{word}` is not a scope")));
        ScopeSet::default()
    });
    if create.scopes.is_empty() {
        issues.push(issue("scopes", "must name one scope at least"));
    }
    if create.redirect_uris.len() > REDIRECT_URIS_MAX {
        issues.push(issue("redirectUris", "must have at most 20 entries"));
    }
    for (index, uri) in create.redirect_uris.iter().enumerate() {
        if let Some(problem) = redirect_problem(uri) {
            issues.push(issue(&format!("redirectUris[{index}]"), problem));
        }
    }
    if create.redirect_uris.is_empty() && !create.client_credentials {
        let message = "must name one URI at least, unless the app acts for itself only";
        issues.push(issue("redirectUris", message));
    }
    if create.visibility == Visibility::Public && create.client_credentials {
        let message = "only private apps may act for themselves";
        issues.push(issue("clientCredentials", message));
    }
    checked(issues)?;
    Ok(scopes)
}

/// Why a person cannot be sent back to this URI, if so.
#[must_use]
pub fn redirect_problem(uri: &str) -> Option<&'static str> {
    // Written as it is compared, and safe in a header.
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
    if uri.len() > REDIRECT_URI_MAX_CHARS || !uri.bytes().all(plain) {
        return Some("must have at most 2000 characters, all of them allowed in URIs");
    }
    let Ok(parsed) = Url::parse(uri) else {
        return Some("must be a whole URI, like https://example.com/callback");
    };
    if parsed.fragment().is_some() {
        return Some("must have no fragment (#…)");
    }
    if uri.contains('*') {
        return Some("must have no wildcard (*)");
    }
    if matches!(parsed.scheme(), "http" | "https") && !is_host_written_plainly(uri, &parsed) {
        return Some(
            "must begin with http:// or https:// and a host in its usual form, in lower case",
        );
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Some("must have no name or password");
    }
    match parsed.scheme() {
        "https" => None,
        "http" if is_loopback(&parsed) => None,
        "http" => Some(
            "must begin with https:// unless it is on this machine (127.0.0.1, [::1], localhost)",
        ),
        other if FORBIDDEN_SCHEMES.contains(&other) || other.starts_with("view-") => {
            Some("must be https, http on this machine, or a scheme of the app's own")
        }
        _ => None,
    }
}

/// Whether the host of a web address is written as it is compared. `https:e.example` and `http://2130706433` are
/// other spellings, which clients read differently.
fn is_host_written_plainly(uri: &str, parsed: &Url) -> bool {
    let host = parsed.host_str().unwrap_or_default();
    let begin = format!("{}://{host}", parsed.scheme());
    let rest = uri.strip_prefix(begin.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/', '?']))
}

/// Whether a request may name this redirect URI for an app that registered the other. They are the same letter by
/// letter, except that loopback addresses may have any port (RFC 8252, section 7.3).
pub(super) fn is_registered(registered: &str, given: &str) -> bool {
    if registered == given {
        return true;
    }
    let without_port = |uri: &str| {
        let mut url = Url::parse(uri).ok().filter(is_loopback_address)?;
        url.set_port(None).ok()?;
        Some(url)
    };
    redirect_problem(given).is_none()
        && without_port(given).is_some_and(|given| without_port(registered) == Some(given))
}

/// `localhost` is a name, which RFC 8252 does not give another port.
fn is_loopback_address(url: &Url) -> bool {
    url.scheme() == "http" && is_loopback(url) && !matches!(url.host(), Some(Host::Domain(_)))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_sent_to_good_places_only() {
        for good in [
            "https://example.com/cb",
            "https://example.com/cb?a=b",
            "http://127.0.0.1:9999/cb",
            "http://[::1]/cb",
            "http://localhost:3000",
            "com.example.app:/cb",
            "myapp://callback",
        ] {
            assert_eq!(redirect_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "/cb",
            "http://example.com/cb",
            "http://127.0.0.1.example.com/cb",
            "http://localhost.example.com/",
            "https://example.com/cb#x",
            "https://user:pass@example.com/",
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "view-source:https://example.com",
            "https://example.com/\r\nSet-Cookie:a=b",
            "https://example.com/é",
            "https://example.com/a b",
            "https://*.example.com/cb",
            "https://example.com/*",
            "https:e.example",
            "https:/e.example",
            "https:///e.example/cb",
            "http://2130706433/cb",
            "http://0x7f000001/cb",
            "http://127.1/cb",
            "https://%65.example/cb",
            "https://E.example/cb",
        ] {
            assert!(redirect_problem(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn loopback_addresses_may_have_any_port() {
        for (registered, given, expected) in [
            ("http://127.0.0.1/cb", "http://127.0.0.1:51234/cb", true),
            (
                "http://127.0.0.1:9999/cb",
                "http://127.0.0.1:51234/cb",
                true,
            ),
            ("http://[::1]:1/cb", "http://[::1]:2/cb", true),
            ("https://e.example/cb", "https://e.example/cb", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:51234/other", false),
            ("http://127.0.0.1/cb", "http://127.0.0.2:51234/cb", false),
            ("http://localhost:1/cb", "http://localhost:2/cb", false),
            ("https://e.example/cb", "https://e.example:8443/cb", false),
            ("http://127.0.0.1/cb", "http://2130706433:51234/cb", false),
        ] {
            assert_eq!(is_registered(registered, given), expected, "{given}");
        }
    }
}
