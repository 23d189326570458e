//! Credentials: API keys and OAuth access tokens, and how a request is authenticated.
//!
//! A key is stored as an HMAC under a server key derived from the master key, found by its first characters and
//! compared in constant time. Rows are cached for a few seconds, so that the hot path reads no store. A revocation
//! takes effect at once in the process that performs it, and within a few seconds in the others.

mod cache;
mod keyring;

use std::fmt;
use std::sync::Arc;

use runloom_protocol::id::{GrantId, KeyId};
use runloom_protocol::scope::ScopeSet;
use subtle::ConstantTimeEq;

use crate::entry_point::EntryPoint;
use crate::error::{Error, Result};
use cache::{KnownKey, KnownKeys};
use runloom_ports::clock::Clock;
use runloom_ports::project::Owner;
use runloom_ports::store::{OAuth, Tenancy, WorkspaceRow};
use runloom_ports::trace::TraceParent;

pub use cache::KeyCache;
pub(super) use keyring::random_letters;
pub use keyring::{KEY_PREFIX, KeyRing};

/// Longest credential that is looked at.
const CREDENTIAL_MAX_CHARS: usize = 512;

/// Prefix of every access token.
pub const TOKEN_PREFIX: &str = "mantyx_at_";

/// The unit of rate limits and billing: an API key, or the grant behind an access token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CredentialId(Arc<str>);

impl From<KeyId> for CredentialId {
    fn from(id: KeyId) -> Self {
        Self(id.as_str().into())
    }
}

impl From<GrantId> for CredentialId {
    fn from(id: GrantId) -> Self {
        Self(id.as_str().into())
    }
}

impl CredentialId {
    /// The id as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Another subject of rate limits.
    pub(crate) fn of_other(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An authenticated caller. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The credential's workspace.
    pub workspace: Arc<WorkspaceRow>,
    /// The credential.
    pub key_id: CredentialId,
    /// Agents it may run; empty = every agent.
    pub agent_ids: Arc<[String]>,
    /// Its own limit of run starts.
    pub runs_per_minute: Option<u32>,
    /// The span of its own trace in which it calls.
    pub trace: Option<TraceParent>,
    /// Scopes of an access token; `None` for an API key, which is not limited by scopes.
    pub scopes: Option<ScopeSet>,
    /// The owner for whom its runs act.
    pub owner: Owner,
    /// Whether it may name another owner.
    pub act_for_owners: bool,
}

impl Caller {
    /// The caller acting for the owner that a request names.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a credential that may not name an owner; [`Error::Invalid`] for a malformed name.
    pub fn acting_for(mut self, name: &str) -> Result<Self> {
        if !self.act_for_owners {
            return Err(Error::Forbidden {
                message: "This credential may not act for other owners (X-Runloom-Owner)."
                    .to_owned(),
            });
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte);
        if !(1..=128).contains(&name.len()) || !name.bytes().all(plain) {
            let message = "must be 1 to 128 of A-Z, a-z, 0-9, ., _, @, + and -";
            return Err(Error::invalid("X-Runloom-Owner", message));
        }
        let name = name.to_ascii_lowercase();
        self.owner = Owner {
            id: format!("ext:{name}"),
            email: name.contains('@').then_some(name),
        };
        Ok(self)
    }

    /// The owner whose private runs and sessions this caller sees; `None` when it sees all.
    #[must_use]
    pub fn sees_only(&self) -> Option<&str> {
        self.owner.is_personal().then_some(self.owner.id.as_str())
    }

    /// Checks that the caller has all these scopes.
    ///
    /// # Errors
    /// [`Error::InsufficientScope`] for an access token that lacks one.
    pub fn require(&self, needed: ScopeSet) -> Result<()> {
        match self.scopes {
            Some(scopes) if !scopes.covers(needed) => Err(Error::InsufficientScope {
                required: needed.iter().collect(),
            }),
            _ => Ok(()),
        }
    }
}

/// Recognises callers.
#[derive(Clone)]
pub struct Authenticator {
    store: Arc<dyn Tenancy>,
    tokens: Option<Arc<dyn OAuth>>,
    keys: Arc<KeyRing>,
    cache: Arc<KeyCache>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

impl Authenticator {
    /// An authenticator with an empty cache. Share the cache with the service that changes keys.
    #[must_use]
    pub fn new(store: Arc<dyn Tenancy>, keys: Arc<KeyRing>, cache: Arc<KeyCache>) -> Self {
        Self {
            store,
            tokens: None,
            keys,
            cache,
        }
    }

    /// Accepts access tokens as well.
    #[must_use]
    pub fn knowing_tokens(mut self, store: Arc<dyn OAuth>) -> Self {
        self.tokens = Some(store);
        self
    }

    /// Authenticates a credential for an entry point, the workspace in the path (if any) and the scopes of the route.
    ///
    /// # Errors
    /// In this order: no credential; unknown, expired or revoked; for another entry point; the plan lacks API keys or
    /// OAuth apps; the path of another workspace; a token without the scopes.
    pub async fn authenticate(
        &self,
        credential: Option<&str>,
        slug: Option<&str>,
        (entry_point, needed): (EntryPoint, ScopeSet),
    ) -> Result<Caller> {
        let caller = self.holder(credential, entry_point).await?;
        if slug.is_some_and(|slug| caller.workspace.slug != slug) {
            return Err(Error::SlugMismatch {
                slug: caller.workspace.slug.clone(),
                entry_point,
            });
        }
        caller.require(needed)?;
        Ok(caller)
    }

    /// Authenticates a credential where no path names a workspace. A token is accepted at every entry point; its
    /// scopes limit it.
    ///
    /// # Errors
    /// As [`Self::authenticate`], except for path and scopes.
    pub async fn holder(
        &self,
        credential: Option<&str>,
        entry_point: EntryPoint,
    ) -> Result<Caller> {
        let credential = credential
            .filter(|text| !text.is_empty())
            .ok_or(Error::MissingCredential)?;
        let key = self
            .find(credential)
            .await?
            .ok_or(Error::InvalidCredential)?;
        if key.usage.is_some_and(|usage| !entry_point.accepts(usage)) {
            return Err(Error::WrongKeyUsage { entry_point });
        }
        let without = &key.caller.workspace.without;
        if without.iter().any(|word| word == key.feature.as_str()) {
            return Err(Error::PlanLacks {
                feature: key.feature,
            });
        }
        Ok(key.caller.clone())
    }

    async fn find(&self, credential: &str) -> Result<Option<Arc<KnownKey>>> {
        if !credential.starts_with(KEY_PREFIX)
            || credential.len() > CREDENTIAL_MAX_CHARS
            || !credential.is_ascii()
        {
            return Ok(None);
        }
        let hash = self.keys.hash(credential);
        let keys = match (&self.tokens, credential.starts_with(TOKEN_PREFIX)) {
            (Some(store), true) => self.tokens_like(store, credential).await?,
            _ => self.keys_like(credential).await?,
        };
        let found = keys
            .iter()
            .find(|key| bool::from(key.hash.ct_eq(&hash)))
            .cloned();
        Ok(found.filter(|key| key.expires_at.is_none_or(|end| end > Clock.now())))
    }

    async fn keys_like(&self, credential: &str) -> Result<KnownKeys> {
        let prefix = KeyRing::lookup_prefix(credential);
        match self.cache.get(prefix) {
            Ok(keys) => Ok(keys),
            Err(generation) => {
                let rows = self.store.keys_by_prefix(prefix).await?;
                Ok(self.cache.put(prefix, rows, generation))
            }
        }
    }

    async fn tokens_like(&self, store: &Arc<dyn OAuth>, credential: &str) -> Result<KnownKeys> {
        let prefix = KeyRing::lookup_prefix_of(TOKEN_PREFIX, credential);
        match self.cache.get(prefix) {
            Ok(tokens) => Ok(tokens),
            Err(generation) => {
                let rows = store.tokens_by_prefix(prefix).await?;
                Ok(self.cache.put_tokens(prefix, rows, generation))
            }
        }
    }
}

/// A caller for tests of the neighbours.
#[cfg(test)]
pub(crate) fn test_caller(key: &str, runs_per_minute: Option<u32>) -> Caller {
    Caller {
        workspace: Arc::new(WorkspaceRow {
            no: runloom_ports::store::WorkspaceNo(1),
            slug: "acme".to_owned(),
            name: "Acme".to_owned(),
            without: Vec::new(),
        }),
        key_id: KeyId::from_suffix(key).into(),
        agent_ids: Arc::new([]),
        runs_per_minute,
        trace: None,
        scopes: None,
        owner: Owner::workspace(),
        act_for_owners: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::PlanFeature;
    use crate::tenancy::TenancyService;
    use crate::tenancy::fake::FakeTenancy;
    use crate::tenancy::{CreateKey, PutWorkspace};
    use runloom_ports::store::KeyUsage;
    use runloom_ports::store::Millis;

    struct House {
        store: Arc<FakeTenancy>,
        auth: Authenticator,
        tenancy: TenancyService,
    }

    async fn house(without: &[&str]) -> House {
        let store = Arc::new(FakeTenancy::default());
        let keys = Arc::new(KeyRing::new(b"master"));
        let cache = Arc::new(KeyCache::default());
        let auth = Authenticator::new(store.clone(), keys.clone(), cache.clone());
        let tenancy = TenancyService::new(store.clone(), keys, cache);
        let put = PutWorkspace {
            name: None,
            without: Some(without.iter().map(|&word| word.to_owned()).collect()),
        };
        tenancy.put_workspace("acme", put, Millis(1)).await.unwrap();
        House {
            store,
            auth,
            tenancy,
        }
    }

    async fn key(house: &House, usage: KeyUsage) -> String {
        let create = CreateKey {
            usage,
            ..CreateKey::default()
        };
        let made = house.tenancy.create_key("acme", create, Millis(2)).await;
        made.unwrap().key
    }

    async fn enter(house: &House, key: Option<&str>, slug: &str) -> Result<Caller> {
        let entry = (EntryPoint::DeveloperApi, ScopeSet::default());
        house.auth.authenticate(key, Some(slug), entry).await
    }

    #[tokio::test]
    async fn a_key_opens_the_door_of_its_usage_and_a_developers_key_opens_all() {
        let house = house(&[]).await;
        let doors = [
            EntryPoint::DeveloperApi,
            EntryPoint::A2a,
            EntryPoint::Mcp,
            EntryPoint::Approvals,
        ];
        for usage in doors.map(EntryPoint::usage) {
            let key = key(&house, usage).await;
            for entry_point in doors {
                let entry = (entry_point, ScopeSet::default());
                let entered = house.auth.authenticate(Some(&key), None, entry).await;
                let may = usage == KeyUsage::DeveloperApi || usage == entry_point.usage();
                assert_eq!(
                    entered.is_ok(),
                    may,
                    "{usage:?} at {entry_point:?}: {entered:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_good_key_opens_its_workspace_only() {
        let house = house(&[]).await;
        let key = key(&house, KeyUsage::DeveloperApi).await;
        let caller = enter(&house, Some(&key), "acme").await.unwrap();
        assert_eq!(caller.workspace.slug, "acme");
        let error = enter(&house, Some(&key), "other").await.unwrap_err();
        assert!(matches!(error, Error::SlugMismatch { slug, .. } if slug == "acme"));
    }

    #[tokio::test]
    async fn missing_and_unknown_credentials_differ() {
        let house = house(&[]).await;
        let real = key(&house, KeyUsage::DeveloperApi).await;
        for missing in [None, Some("")] {
            let error = enter(&house, missing, "acme").await.unwrap_err();
            assert!(matches!(error, Error::MissingCredential), "{error:?}");
        }
        let other = if real.ends_with('x') { 'y' } else { 'x' };
        let same_prefix = format!("{}{other}", &real[..real.len() - 1]);
        let long = format!("mantyx_{}", "x".repeat(10_000));
        for unknown in [
            "mantyx_nobody",
            "sk-1",
            "mantyx_at_token",
            "mantyx_é",
            &same_prefix,
            &long,
        ] {
            let error = enter(&house, Some(unknown), "acme").await.unwrap_err();
            assert!(
                matches!(error, Error::InvalidCredential),
                "{unknown}: {error:?}"
            );
        }
    }

    #[tokio::test]
    async fn usage_is_checked_before_plan_and_plan_before_slug() {
        let house = house(&["apiKeys"]).await;
        for usage in [KeyUsage::A2a, KeyUsage::Mcp] {
            let key = key(&house, usage).await;
            let error = enter(&house, Some(&key), "other").await.unwrap_err();
            assert!(matches!(error, Error::WrongKeyUsage { .. }), "{error:?}");
        }
        let key = key(&house, KeyUsage::DeveloperApi).await;
        let error = enter(&house, Some(&key), "other").await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::PlanLacks {
                    feature: PlanFeature::ApiKeys
                }
            ),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn the_hot_path_reads_no_store() {
        let house = house(&[]).await;
        let key = key(&house, KeyUsage::DeveloperApi).await;
        for _ in 0..10 {
            enter(&house, Some(&key), "acme").await.unwrap();
        }
        assert_eq!(house.store.lookups(), 1);
    }

    #[tokio::test]
    async fn a_revoked_key_is_refused_at_once_although_it_was_cached() {
        let house = house(&[]).await;
        let key = key(&house, KeyUsage::DeveloperApi).await;
        enter(&house, Some(&key), "acme").await.unwrap();
        house
            .tenancy
            .revoke_key("acme", &key, Millis(3))
            .await
            .unwrap();
        let error = enter(&house, Some(&key), "acme").await.unwrap_err();
        assert!(matches!(error, Error::InvalidCredential), "{error:?}");
    }
}
