//! From codes to tokens, from tokens to more of them, and their end.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use runloom_protocol::id::GrantId;
use runloom_protocol::scope::ScopeSet;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::authorize::{only, scopes};
use super::{CODE_PREFIX, OAuthService, REFRESH_PREFIX, after, has_apps, lookup, new_grant_id};
use crate::auth::{CredentialId, KeyRing, TOKEN_PREFIX};
use crate::error::{OAuthFault, Result};
use crate::rate::{Bucket, RateLimiter};
use runloom_ports::store::{
    AppRow, CodeRow, GrantFilter, GrantRow, Millis, NewGrant, NewToken, TokenRow, WorkspaceRow,
};

/// How long an access token is good.
pub const ACCESS_LIVES: Duration = Duration::from_secs(3600);

/// Wrong secrets shorter than this are counted, because they could be guessed.
const SHORT_SECRET_CHARS: usize = 32;

/// Wrong short secrets per app and minute.
const WRONG_SECRETS_PER_MINUTE: u32 = 60;

/// Characters of a verifier (RFC 7636).
const VERIFIER_CHARS: std::ops::RangeInclusive<usize> = 43..=128;

/// The credential of a client.
#[derive(Clone)]
pub struct ClientCredential {
    /// `mantyx_oa_…`.
    pub id: String,
    /// `mantyx_oas_…`.
    pub secret: String,
    /// A second interpretation of an ambiguous header.
    pub or_secret: Option<String>,
}

/// A request to the token endpoint.
#[derive(Clone)]
pub struct TokenRequest {
    /// The parameters, including repeated ones.
    pub pairs: Vec<(String, String)>,
}

/// Tokens as they are given out: the only time that they are seen.
pub struct Issued {
    /// `mantyx_at_…`.
    pub access_token: String,
    /// `mantyx_rt_…`; missing for an app that acts for itself.
    pub refresh_token: Option<String>,
    /// Scopes of the access token.
    pub scopes: ScopeSet,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issued({})", self.scopes)
    }
}

/// Facts about a live token.
#[derive(Debug, Clone)]
pub struct TokenFacts {
    /// Its grant.
    pub grant: GrantRow,
    /// Its scopes.
    pub scopes: ScopeSet,
    /// Since when.
    pub created_at: Millis,
    /// Until when; refresh tokens have no end.
    pub expires_at: Option<Millis>,
}

impl OAuthService {
    /// Authenticates a client and counts the request. Wrong secrets are counted separately, so that nobody can use up
    /// the limit of an app. While too many short secrets were wrong, short ones are refused unchecked; long ones are
    /// always checked.
    ///
    /// # Errors
    /// [`OAuthFault::InvalidClient`]; [`crate::error::Error::RateLimited`] for too many requests or wrong secrets.
    pub async fn client(
        &self,
        credential: Option<&ClientCredential>,
        rates: &RateLimiter,
        now: Millis,
    ) -> Result<AppRow> {
        let fault = OAuthFault::InvalidClient;
        let Some(credential) = credential else {
            let message = "Client authentication is required: `client_id` and `client_secret`, in the body or as HTTP Basic";
            return Err(fault.because(message));
        };
        let wrong = || fault.because("The client is unknown, or its secret is wrong");
        let app = self.store.app(&credential.id).await?.ok_or_else(wrong)?;
        let readings = [Some(&credential.secret), credential.or_secret.as_ref()];
        let mut readings = readings.into_iter().flatten();
        let short = |secret: &String| secret.len() < SHORT_SECRET_CHARS;
        let is_short = readings.clone().any(short);
        let right = readings.any(|secret| self.is(secret, &app.secret));
        if is_short {
            let window = CredentialId::of_other(&format!("wrong-secret:{}", app.client_id));
            let (limit, bucket) = (WRONG_SECRETS_PER_MINUTE, Bucket::SignIns);
            if right {
                rates.look_in(&window, limit, now)?;
            } else {
                rates.let_in_as(&window, limit, bucket, now).await?;
            }
        }
        if !right {
            return Err(wrong());
        }
        let who = CredentialId::of_other(&app.client_id);
        let limit = rates.limit(None, Bucket::Reads);
        rates.let_in_as(&who, limit, Bucket::Reads, now).await?;
        Ok(app)
    }

    /// Serves the token endpoint.
    ///
    /// # Errors
    /// OAuth errors; [`crate::error::Error::RateLimited`] for too many requests.
    pub async fn token(
        &self,
        app: &AppRow,
        request: &TokenRequest,
        rates: &RateLimiter,
        now: Millis,
    ) -> Result<Issued> {
        let pairs = &request.pairs;
        let need = |name: &str| -> Result<&str> {
            let missing = || OAuthFault::InvalidRequest.because(format!("`{name}` is missing"));
            only(pairs, name)?.ok_or_else(missing)
        };
        match need("grant_type")? {
            "authorization_code" => {
                let verifier = only(pairs, "code_verifier")?.unwrap_or_default();
                let (code, uri) = (need("code")?, need("redirect_uri")?);
                self.exchange(app, (code, uri, verifier), now).await
            }
            "refresh_token" => {
                let (token, scope) = (need("refresh_token")?, only(pairs, "scope")?);
                self.refresh(app, (token, scope), rates, now).await
            }
            "client_credentials" => {
                let scope = only(pairs, "scope")?;
                self.act_for_itself(app, scope, rates, now).await
            }
            _ => {
                let message = "`grant_type` must be `authorization_code`, `refresh_token` or `client_credentials`";
                Err(OAuthFault::UnsupportedGrantType.because(message))
            }
        }
    }

    async fn exchange(
        &self,
        app: &AppRow,
        (code, redirect_uri, verifier): (&str, &str, &str),
        now: Millis,
    ) -> Result<Issued> {
        let bad = |message: &str| OAuthFault::InvalidGrant.because(message);
        let found = self.find_code(code).await?;
        let found = found
            .filter(|row| row.consent.client_id == app.client_id)
            .ok_or_else(|| bad("The code is unknown, or of another app"))?;
        const USED: &str = "The code was used before; what it gave is revoked";
        const LEFT: &str = "The person does not belong to the workspace any more";
        if let Some(grant) = &found.grant {
            self.end_grant(grant).await?;
            return Err(bad(USED));
        }
        let consent = &found.consent;
        if found.expires_at <= now {
            return Err(bad("The code has expired"));
        }
        if consent.redirect_uri != redirect_uri {
            return Err(bad(
                "`redirect_uri` is not the one that the code was asked for with",
            ));
        }
        if !proves(verifier, &consent.challenge) {
            return Err(bad(
                "`code_verifier` does not fit the code's `code_challenge` (PKCE)",
            ));
        }
        let person = self.store.user(&consent.person).await?;
        let places = person.map(|person| person.workspaces).unwrap_or_default();
        let place = places.iter().find(|row| row.no == consent.workspace);
        need_apps(place.ok_or_else(|| bad(LEFT))?)?;
        let refresh_token = self.keys.generate_as(REFRESH_PREFIX)?;
        let prefix = KeyRing::lookup_prefix_of(REFRESH_PREFIX, &refresh_token).to_owned();
        let grant = NewGrant {
            id: new_grant_id()?,
            client_id: app.client_id.clone(),
            person: Some(consent.person.clone()),
            workspace: consent.workspace,
            scopes: consent.scopes,
            agent_ids: consent.agent_ids.clone(),
            refresh: Some((prefix, self.keys.hash(&refresh_token))),
            created_at: now,
        };
        let (access_token, token) = self.new_token(&grant.id, consent.scopes, now)?;
        if !self.store.redeem_code(found.hash, grant, token).await? {
            // Another request was faster, or the user has left the workspace meanwhile.
            let grant = self.find_code(code).await?.and_then(|row| row.grant);
            let Some(grant) = grant else {
                return Err(bad(LEFT));
            };
            self.end_grant(&grant).await?;
            return Err(bad(USED));
        }
        Ok(Issued {
            access_token,
            refresh_token: Some(refresh_token),
            scopes: found.consent.scopes,
        })
    }

    async fn refresh(
        &self,
        app: &AppRow,
        (token, scope): (&str, Option<&str>),
        rates: &RateLimiter,
        now: Millis,
    ) -> Result<Issued> {
        let revoked =
            || OAuthFault::InvalidGrant.because("The refresh token is unknown or revoked");
        let grant = self.find_refresh(token).await?;
        let grant = grant
            .filter(|grant| grant.app.client_id == app.client_id && grant.is_allowed())
            .ok_or_else(revoked)?;
        need_apps(&grant.workspace)?;
        let scopes = scopes(scope, grant.scopes.both(app.scopes))?;
        let limit = rates.limit(None, Bucket::Writes);
        let who = CredentialId::from(grant.id.clone());
        rates.let_in_as(&who, limit, Bucket::Writes, now).await?;
        let (access_token, new) = self.new_token(&grant.id, scopes, now)?;
        if !self.store.put_token(new).await? {
            return Err(revoked());
        }
        Ok(Issued {
            access_token,
            refresh_token: Some(token.to_owned()),
            scopes,
        })
    }

    async fn act_for_itself(
        &self,
        app: &AppRow,
        scope: Option<&str>,
        rates: &RateLimiter,
        now: Millis,
    ) -> Result<Issued> {
        if app.public || !app.client_credentials {
            let message = "This app may not use `client_credentials`";
            return Err(OAuthFault::UnauthorizedClient.because(message));
        }
        let scopes = scopes(scope, app.scopes)?;
        let who = CredentialId::of_other(&app.client_id);
        let limit = rates.limit(None, Bucket::Writes);
        rates.let_in_as(&who, limit, Bucket::Writes, now).await?;
        let grant = NewGrant {
            id: new_grant_id()?,
            client_id: app.client_id.clone(),
            person: None,
            workspace: app.workspace,
            scopes: app.scopes,
            agent_ids: Vec::new(),
            refresh: None,
            created_at: now,
        };
        let gone = || OAuthFault::InvalidGrant.because("The grant was revoked meanwhile");
        let grant = self.store.put_own_grant(grant).await?;
        let filter = GrantFilter {
            id: Some(grant.clone()),
            ..GrantFilter::default()
        };
        let found = self.store.grants(filter, 1).await?;
        need_apps(&found.first().ok_or_else(gone)?.workspace)?;
        let (access_token, new) = self.new_token(&grant, scopes, now)?;
        if !self.store.put_token(new).await? {
            return Err(gone());
        }
        Ok(Issued {
            access_token,
            refresh_token: None,
            scopes,
        })
    }

    /// Revokes a token of this app: an access token alone, a refresh token with its whole grant. An unknown token
    /// counts as revoked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn revoke(&self, app: &AppRow, token: &str) -> Result<()> {
        if let Some(found) = self.find_access(token).await? {
            if found.grant.app.client_id == app.client_id
                && self.store.delete_token(found.hash).await?
            {
                self.tenancy.changed();
            }
        } else if let Some(found) = self.find_refresh(token).await?
            && found.app.client_id == app.client_id
        {
            self.end_grant(&found.id).await?;
        }
        Ok(())
    }

    /// Facts about a live token of this app; `None` for other tokens.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn introspect(
        &self,
        app: &AppRow,
        token: &str,
        now: Millis,
    ) -> Result<Option<TokenFacts>> {
        let facts = match self.find_access(token).await? {
            Some(row) => Some(TokenFacts {
                scopes: row.scopes.both(row.grant.app.scopes),
                created_at: row.created_at,
                expires_at: Some(row.expires_at),
                grant: row.grant,
            }),
            None => self.find_refresh(token).await?.map(|grant| TokenFacts {
                scopes: grant.scopes.both(grant.app.scopes),
                created_at: grant.created_at,
                expires_at: None,
                grant,
            }),
        };
        Ok(facts.filter(|facts| {
            facts.grant.app.client_id == app.client_id
                && facts.grant.is_allowed()
                && has_apps(&facts.grant.workspace)
                && facts.expires_at.is_none_or(|end| end > now)
        }))
    }

    /// Ends a grant with all its tokens, here and everywhere.
    pub(super) async fn end_grant(&self, id: &GrantId) -> Result<bool> {
        let ended = self.store.delete_grant(id).await?;
        if ended {
            self.tenancy.changed();
        }
        Ok(ended)
    }

    fn new_token(
        &self,
        grant: &GrantId,
        scopes: ScopeSet,
        now: Millis,
    ) -> Result<(String, NewToken)> {
        let token = self.keys.generate_as(TOKEN_PREFIX)?;
        let new = NewToken {
            prefix: KeyRing::lookup_prefix_of(TOKEN_PREFIX, &token).to_owned(),
            hash: self.keys.hash(&token),
            grant: grant.clone(),
            scopes,
            created_at: now,
            expires_at: after(now, ACCESS_LIVES),
        };
        Ok((token, new))
    }

    async fn find_code(&self, code: &str) -> Result<Option<CodeRow>> {
        let Some(prefix) = lookup(CODE_PREFIX, code) else {
            return Ok(None);
        };
        let rows = self.store.codes_by_prefix(prefix).await?;
        Ok(rows.into_iter().find(|row| self.is(code, &row.hash)))
    }

    pub(super) async fn find_access(&self, token: &str) -> Result<Option<TokenRow>> {
        let Some(prefix) = lookup(TOKEN_PREFIX, token) else {
            return Ok(None);
        };
        let rows = self.store.tokens_by_prefix(prefix).await?;
        Ok(rows.into_iter().find(|row| self.is(token, &row.hash)))
    }

    async fn find_refresh(&self, token: &str) -> Result<Option<GrantRow>> {
        let Some(prefix) = lookup(REFRESH_PREFIX, token) else {
            return Ok(None);
        };
        let rows = self.store.grants_by_prefix(prefix).await?;
        let fits = |row: &GrantRow| row.refresh.is_some_and(|hash| self.is(token, &hash));
        Ok(rows.into_iter().find(fits))
    }
}

/// Refuses tokens for a workspace whose plan has no apps.
fn need_apps(workspace: &WorkspaceRow) -> Result<()> {
    if has_apps(workspace) {
        return Ok(());
    }
    let message = "OAuth apps are switched off in this workspace";
    Err(OAuthFault::UnauthorizedClient.because(message))
}

/// Whether the verifier matches the challenge (S256).
fn proves(verifier: &str, challenge: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if !VERIFIER_CHARS.contains(&verifier.len()) || !verifier.bytes().all(unreserved) {
        return false;
    }
    let made = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    made.as_bytes().ct_eq(challenge.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_proves_its_challenge_and_no_other() {
        // The example of RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert!(proves(verifier, challenge));
        assert!(!proves(&verifier.replace('d', "e"), challenge));
        assert!(!proves("", challenge));
        assert!(!proves("short", challenge));
        assert!(!proves(challenge, challenge));
    }
}
