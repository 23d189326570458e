//! From an app's question to a person's yes: the request, the choices, the code.

use std::time::Duration;

use runloom_protocol::scope::ScopeSet;
use serde_json::Value;
use url::form_urlencoded;

use super::apps::is_registered;
use super::{CODE_PREFIX, OAuthService, after, has_apps};
use crate::auth::{CredentialId, KeyRing};
use crate::error::{Error, OAuthFault, Result};
use crate::rate::{Bucket, RateLimiter};
use crate::tenancy::AGENT_IDS_MAX;
use runloom_ports::store::{AppRow, Consent, DocumentKind, Millis, NewCode, UserRow, WorkspaceRow};

/// How long a code is good.
pub const CODE_LIVES: Duration = Duration::from_secs(600);

/// Maximum characters of `state`, which is returned unchanged.
const STATE_MAX_CHARS: usize = 2048;

/// Characters of an S256 challenge: 32 bytes in base64url.
const CHALLENGE_CHARS: usize = 43;

/// A checked authorization request.
#[derive(Debug, Clone)]
pub struct Authorization {
    /// The requesting app.
    pub app: AppRow,
    /// Redirect URI of the response: one of the app's own.
    pub redirect_uri: String,
    /// The requested scopes.
    pub scopes: ScopeSet,
    state: Option<String>,
    challenge: String,
}

/// Answer to [`OAuthService::authorization`].
#[derive(Debug)]
pub enum Asked {
    /// The user can be asked for consent.
    Well(Box<Authorization>),
    /// The request is invalid; the error goes to this redirect URI of the app.
    Badly(String),
}

/// An agent that a grant can be restricted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentChoice {
    /// Its id.
    pub id: String,
    /// Its name in paths, which no other agent of the workspace has.
    pub slug: String,
    /// For people.
    pub name: String,
}

impl Authorization {
    /// The redirect after the user declined.
    #[must_use]
    pub fn denied(&self, issuer: &str) -> String {
        let pairs = [
            ("error", OAuthFault::AccessDenied.as_str()),
            ("error_description", "The request was denied."),
        ];
        answer(&self.redirect_uri, &pairs, self.state.as_deref(), issuer)
    }

    /// The redirect after the user consented.
    #[must_use]
    pub fn approved(&self, code: &str, issuer: &str) -> String {
        let state = self.state.as_deref();
        answer(&self.redirect_uri, &[("code", code)], state, issuer)
    }

    /// The workspaces in which a person can say yes.
    #[must_use]
    pub fn places<'rows>(&self, person: &'rows UserRow) -> Vec<&'rows WorkspaceRow> {
        let fits = |row: &&WorkspaceRow| {
            (self.app.public || row.no == self.app.workspace) && has_apps(row)
        };
        person.workspaces.iter().filter(fits).collect()
    }
}

impl OAuthService {
    /// Checks an authorization request.
    ///
    /// # Errors
    /// [`Error::OAuth`] when no redirect is safe: the app or its redirect URI is unknown.
    pub async fn authorization(&self, query: &[(String, String)], issuer: &str) -> Result<Asked> {
        let invalid = OAuthFault::InvalidRequest;
        let client_id =
            only(query, "client_id")?.ok_or_else(|| invalid.because("`client_id` is missing"))?;
        let redirect_uri = only(query, "redirect_uri")?
            .ok_or_else(|| invalid.because("`redirect_uri` is missing"))?;
        let app = self.store.app(client_id).await?;
        let app =
            app.ok_or_else(|| OAuthFault::InvalidClient.because("No app has this `client_id`"))?;
        let is_registered = |uri: &String| is_registered(uri, redirect_uri);
        if !app.redirect_uris.iter().any(is_registered) {
            let message = "`redirect_uri` is not one that the app was registered with; it must be the same letter by letter, but for the port of a loopback address";
            return Err(invalid.because(message));
        }
        let redirect_uri = redirect_uri.to_owned();
        let state = only(query, "state");
        match check(query, app, &redirect_uri) {
            Ok(well) => Ok(Asked::Well(Box::new(well))),
            Err(Error::OAuth { fault, message }) => {
                let pairs = [("error", fault.as_str()), ("error_description", &message)];
                let state = state.ok().flatten().filter(|state| is_state(state));
                Ok(Asked::Badly(answer(&redirect_uri, &pairs, state, issuer)))
            }
            Err(other) => Err(other),
        }
    }

    /// The agents of a workspace, by slug.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn agent_choices(&self, workspace: &WorkspaceRow) -> Result<Vec<AgentChoice>> {
        let kind = DocumentKind::Agent;
        let documents = self.store.documents(workspace.no, kind).await?;
        let choices = documents.into_iter().map(|document| {
            let body: Value = serde_json::from_str(&document.body).unwrap_or_default();
            let name = body.get("name").and_then(Value::as_str);
            AgentChoice {
                name: name.unwrap_or(&document.slug).to_owned(),
                id: document.id,
                slug: document.slug,
            }
        });
        Ok(choices.collect())
    }

    /// Turns a user's consent into a code. `agents`: the allowed agents; `None` allows all, including later ones.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the workspace or an agent cannot be selected; [`Error::RateLimited`] for too many
    /// consents.
    pub async fn approve(
        &self,
        asked: &Authorization,
        person: &UserRow,
        (workspace, agents): (&str, Option<Vec<String>>),
        (rates, now): (&RateLimiter, Millis),
    ) -> Result<String> {
        let (who, bucket) = (CredentialId::of_other(person.id.as_str()), Bucket::Writes);
        let limit = rates.limit(None, bucket);
        rates.let_in_as(&who, limit, bucket, now).await?;
        let places = asked.places(person);
        let place = places.into_iter().find(|row| row.slug == workspace);
        let nowhere = || Error::invalid("workspace", "is none that can be chosen");
        let place = place.ok_or_else(nowhere)?;
        if let Some(agents) = &agents {
            let known = self.agent_choices(place).await?;
            let unknown = |id: &String| !known.iter().any(|choice| choice.id == *id);
            if agents.is_empty() || agents.len() > AGENT_IDS_MAX || agents.iter().any(unknown) {
                let message = "must be agents of the workspace, one at least";
                return Err(Error::invalid("agents", message));
            }
        }
        let code = self.keys.generate_as(CODE_PREFIX)?;
        let new = NewCode {
            prefix: KeyRing::lookup_prefix_of(CODE_PREFIX, &code).to_owned(),
            hash: self.keys.hash(&code),
            consent: Consent {
                client_id: asked.app.client_id.clone(),
                person: person.id.clone(),
                workspace: place.no,
                redirect_uri: asked.redirect_uri.clone(),
                challenge: asked.challenge.clone(),
                scopes: asked.scopes,
                agent_ids: agents.unwrap_or_default(),
            },
            expires_at: after(now, CODE_LIVES),
        };
        // The user may have left the workspace since the lookup.
        let kept = self.store.put_code(new).await?;
        kept.then_some(code).ok_or_else(nowhere)
    }
}

/// The checks whose errors can be sent to the app.
fn check(query: &[(String, String)], app: AppRow, redirect_uri: &str) -> Result<Authorization> {
    let invalid = OAuthFault::InvalidRequest;
    let state = only(query, "state")?;
    if state.is_some_and(|state| !is_state(state)) {
        return Err(invalid.because("`state` must have at most 2048 characters"));
    }
    match only(query, "response_type")? {
        Some("code") => {}
        None => return Err(invalid.because("`response_type` is missing; it must be `code`")),
        Some(_) => {
            return Err(
                OAuthFault::UnsupportedResponseType.because("`response_type` must be `code`")
            );
        }
    }
    let challenge = only(query, "code_challenge")?;
    let challenge = challenge
        .ok_or_else(|| invalid.because("`code_challenge` is missing: PKCE is required"))?;
    if only(query, "code_challenge_method")? != Some("S256") {
        return Err(invalid.because("`code_challenge_method` must be `S256`"));
    }
    let base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if challenge.len() != CHALLENGE_CHARS || !challenge.bytes().all(base64url) {
        let message = "`code_challenge` must be a SHA-256 in base64url: 43 characters";
        return Err(invalid.because(message));
    }
    let scopes = scopes(only(query, "scope")?, app.scopes)?;
    Ok(Authorization {
        redirect_uri: redirect_uri.to_owned(),
        scopes,
        state: state.map(ToOwned::to_owned),
        challenge: challenge.to_owned(),
        app,
    })
}

fn is_state(state: &str) -> bool {
    state.chars().count() <= STATE_MAX_CHARS
}

/// The requested scopes, a part of `all`; all of them when none is requested.
pub(super) fn scopes(asked: Option<&str>, all: ScopeSet) -> Result<ScopeSet> {
    let fault = OAuthFault::InvalidScope;
    let Some(asked) = asked.filter(|asked| !asked.trim().is_empty()) else {
        return Ok(all);
    };
    let asked = ScopeSet::parse(asked).map_err(|word| {
        let word: String = word.chars().take(64).collect();
        fault.because(format!("`{word}` is not a scope"))
    })?;
    if all.covers(asked) {
        return Ok(asked);
    }
    let more: ScopeSet = asked.iter().filter(|scope| !all.has(*scope)).collect();
    Err(fault.because(format!("more than allowed: {more}")))
}

/// The value of a parameter that may occur once.
pub(super) fn only<'pairs>(
    pairs: &'pairs [(String, String)],
    name: &str,
) -> Result<Option<&'pairs str>> {
    let mut found = pairs.iter().filter(|(key, _)| key == name);
    let first = found.next().map(|(_, value)| value.as_str());
    if found.next().is_some() {
        let message = format!("`{name}` is there more than once");
        return Err(OAuthFault::InvalidRequest.because(message));
    }
    Ok(first.filter(|value| !value.is_empty()))
}

/// The redirect URI with the response parameters. `iss` names this server, so that an app with several servers does
/// not mix up their responses (RFC 9207).
fn answer(redirect_uri: &str, pairs: &[(&str, &str)], state: Option<&str>, issuer: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    query.extend_pairs(state.map(|state| ("state", state)));
    query.append_pair("iss", issuer);
    let join = match redirect_uri.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{redirect_uri}{join}{}", query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_added_to_what_the_uri_has() {
        let pairs = [("code", "a&b")];
        for (uri, expected) in [
            (
                "https://e.com/cb",
                "https://e.com/cb?code=a%26b&state=s+1&iss=http%3A%2F%2Fh",
            ),
            (
                "https://e.com/cb?x=1",
                "https://e.com/cb?x=1&code=a%26b&state=s+1&iss=http%3A%2F%2Fh",
            ),
            (
                "app:/cb?",
                "app:/cb?code=a%26b&state=s+1&iss=http%3A%2F%2Fh",
            ),
        ] {
            assert_eq!(answer(uri, &pairs, Some("s 1"), "http://h"), expected);
        }
    }

    #[test]
    fn scopes_are_some_of_what_there_is() {
        let all = ScopeSet::parse("runs:read models:read").unwrap();
        assert_eq!(scopes(None, all).unwrap(), all);
        assert_eq!(scopes(Some(" "), all).unwrap(), all);
        let one = ScopeSet::parse("runs:read").unwrap();
        assert_eq!(scopes(Some("runs:read"), all).unwrap(), one);
        for bad in ["runs:write", "runs:read nonsense"] {
            let error = scopes(Some(bad), all).unwrap_err();
            let fault = OAuthFault::InvalidScope;
            assert!(matches!(error, Error::OAuth { fault: got, .. } if got == fault));
        }
    }

    #[test]
    fn a_parameter_that_comes_twice_is_none() {
        let pairs = [("a", "1"), ("b", ""), ("a", "1")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(only(&pairs, "a").is_err());
        assert_eq!(only(&pairs, "b").unwrap(), None);
        assert_eq!(only(&pairs, "c").unwrap(), None);
    }
}
