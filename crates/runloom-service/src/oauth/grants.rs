//! Grants: listing, revocation, and the user behind a token.

use runloom_protocol::id::GrantId;
use runloom_protocol::scope::{Scope, ScopeSet};

use super::{OAuthService, has_apps};
use crate::auth::{Authenticator, CredentialId, TOKEN_PREFIX};
use crate::entry_point::EntryPoint;
use crate::error::{Error, PlanFeature, Result};
use crate::rate::{Bucket, RateLimiter};
use runloom_ports::store::{GrantFilter, GrantRow, Millis, WorkspaceRow};

/// Maximum grants of one list.
const LIST_MAX: usize = 500;

/// The grants that a credential may list and revoke: those in its workspace for an API key, those of its app and user
/// for an access token.
#[derive(Debug, Clone)]
pub struct GrantsOf(GrantFilter);

/// The person behind a token.
#[derive(Debug, Clone)]
pub struct UserInfo {
    /// Id of the person.
    pub sub: String,
    /// Their address.
    pub email: String,
    /// Where the token is good.
    pub workspace: WorkspaceRow,
}

impl OAuthService {
    /// The grants that this credential may list and revoke.
    ///
    /// # Errors
    /// As for any request: no credential, or an invalid one.
    pub async fn grants_of(
        &self,
        (auth, rates): (&Authenticator, &RateLimiter),
        credential: Option<&str>,
        now: Millis,
    ) -> Result<GrantsOf> {
        let given = credential.unwrap_or_default();
        if given.starts_with(TOKEN_PREFIX) {
            let grant = self.grant_behind(given, rates, now).await?.0;
            let own = grant.person.is_none().then(|| grant.id.clone());
            return Ok(GrantsOf(GrantFilter {
                id: own,
                client_id: Some(grant.app.client_id),
                person: grant.person.map(|(id, _)| id),
                workspace: Some(grant.workspace.no),
            }));
        }
        let caller = auth.holder(credential, EntryPoint::DeveloperApi).await?;
        rates.let_in(&caller, Bucket::Reads, now).await?;
        Ok(GrantsOf(GrantFilter {
            workspace: Some(caller.workspace.no),
            ..GrantFilter::default()
        }))
    }

    /// The newest of them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_grants(&self, of: GrantsOf) -> Result<Vec<GrantRow>> {
        Ok(self.store.grants(of.0, LIST_MAX).await?)
    }

    /// Revokes one of these grants, with all its tokens.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the grant is not one of these.
    pub async fn delete_grant(&self, of: GrantsOf, id: &str) -> Result<()> {
        const MISSING: Error = Error::NotFound { what: "grant" };
        let wanted = GrantId::parse(id).ok_or(MISSING)?;
        if of.0.id.as_ref().is_some_and(|own| *own != wanted) {
            return Err(MISSING);
        }
        let filter = GrantFilter {
            id: Some(wanted.clone()),
            ..of.0
        };
        if self.store.grants(filter, 1).await?.is_empty() || !self.end_grant(&wanted).await? {
            return Err(MISSING);
        }
        Ok(())
    }

    /// The person behind an access token.
    ///
    /// # Errors
    /// As for any request with a token; [`Error::Forbidden`] when there is no person.
    pub async fn user_info(
        &self,
        credential: Option<&str>,
        rates: &RateLimiter,
        now: Millis,
    ) -> Result<UserInfo> {
        let given = credential
            .filter(|text| !text.is_empty())
            .ok_or(Error::MissingCredential)?;
        let (grant, scopes) = self.grant_behind(given, rates, now).await?;
        if !scopes.has(Scope::IdentityRead) {
            let required = vec![Scope::IdentityRead];
            return Err(Error::InsufficientScope { required });
        }
        let (id, email) = grant.person.ok_or_else(|| Error::Forbidden {
            message: "This token stands for an app, not for a person".to_owned(),
        })?;
        Ok(UserInfo {
            sub: id.to_string(),
            email,
            workspace: grant.workspace,
        })
    }

    async fn grant_behind(
        &self,
        token: &str,
        rates: &RateLimiter,
        now: Millis,
    ) -> Result<(GrantRow, ScopeSet)> {
        let found = self.find_access(token).await?;
        let found = found.filter(|row| row.expires_at > now && row.grant.is_allowed());
        let row = found.ok_or(Error::InvalidCredential)?;
        let who = CredentialId::from(row.grant.id.clone());
        let limit = rates.limit(None, Bucket::Reads);
        rates.let_in_as(&who, limit, Bucket::Reads, now).await?;
        if !has_apps(&row.grant.workspace) {
            let feature = PlanFeature::OauthApps;
            return Err(Error::PlanLacks { feature });
        }
        let scopes = row.scopes.both(row.grant.app.scopes);
        Ok((row.grant, scopes))
    }
}
