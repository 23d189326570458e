//! Credentials: how an API key is made, kept and recognised.
//!
//! A key is stored as an HMAC under a server key that comes from the master key, found by its first characters and
//! compared in constant time. Rows are cached for a few seconds, so that the hot path reads no store: a key that another
//! process revokes is refused here [`KNOWN_FOR`] later at most, one that this process revokes at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use runloom_protocol::id::KeyId;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::{Error, PlanFeature, Result};
use crate::ports::store::{KeyRow, KeyUsage, Tenancy, WorkspaceRow};

/// What every API key starts with.
pub const KEY_PREFIX: &str = "mantyx_";

/// Random characters of a new key: 43 of 62 letters carry 256 bits.
const KEY_RANDOM_CHARS: usize = 43;

/// Characters that a key is found by.
const LOOKUP_CHARS: usize = 15;

/// Longest credential that is looked at.
const CREDENTIAL_MAX_CHARS: usize = 512;

/// How long a cached row is believed.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// How long the absence of a row is believed: short, because the key may be created any moment.
const UNKNOWN_FOR: Duration = Duration::from_millis(500);

/// Prefixes in the cache.
const CACHE_MAX: usize = 10_000;

/// Hashes and makes API keys.
pub struct KeyRing {
    server_key: [u8; 32],
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyRing(…)")
    }
}

impl KeyRing {
    /// Derives the server key. The label keeps it apart from every other key that comes from the same master key.
    #[must_use]
    pub fn new(master_key: &[u8]) -> Self {
        Self {
            server_key: hmac(master_key, b"runloom api keys 1"),
        }
    }

    /// What is stored of a key.
    #[must_use]
    pub fn hash(&self, key: &str) -> [u8; 32] {
        hmac(&self.server_key, key.as_bytes())
    }

    /// Makes a new key.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn generate(&self) -> Result<String> {
        Ok(format!("{KEY_PREFIX}{}", random_letters(KEY_RANDOM_CHARS)?))
    }

    /// What a key is found by: its first characters, which may be shown. Of a short key (one from a configuration) at
    /// most a quarter of the secret part.
    #[must_use]
    pub fn lookup_prefix(key: &str) -> &str {
        let secret = key.len().saturating_sub(KEY_PREFIX.len());
        let shown = LOOKUP_CHARS.min(KEY_PREFIX.len() + secret / 4);
        key.get(..shown).unwrap_or(KEY_PREFIX)
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    // HMAC pads a short key with zeros to one block; a digest always fits, so a key of any length is good.
    let mut block = [0_u8; 64];
    block[..32].copy_from_slice(&Sha256::digest(key));
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Random letters and digits, each equally likely.
pub(super) fn random_letters(count: usize) -> Result<String> {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(count);
    let mut bytes = [0_u8; 64];
    while text.len() < count {
        getrandom::fill(&mut bytes).map_err(|error| Error::internal(error.to_string()))?;
        // Bytes from 248 on are thrown away: 248 is the last multiple of 62, so no letter is favoured.
        let letters = bytes
            .iter()
            .filter(|&&byte| byte < 248)
            .map(|&byte| char::from(LETTERS[usize::from(byte % 62)]));
        let missing = count - text.len();
        text.extend(letters.take(missing));
    }
    Ok(text)
}

/// Who calls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The credential's workspace.
    pub workspace: Arc<WorkspaceRow>,
    /// The credential.
    pub key_id: KeyId,
    /// Agents it may run; empty = every agent.
    pub agent_ids: Arc<[String]>,
    /// Its own limit of run starts.
    pub runs_per_minute: Option<u32>,
}

/// Recognises callers.
#[derive(Clone)]
pub struct Authenticator {
    store: Arc<dyn Tenancy>,
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
        Self { store, keys, cache }
    }

    /// Who holds this credential, and whether the workspace in the path is theirs.
    ///
    /// # Errors
    /// In this order: no credential; unknown or revoked; for another door; the plan lacks API keys; another workspace's
    /// path.
    pub async fn authenticate(&self, credential: Option<&str>, slug: &str) -> Result<Caller> {
        let credential = credential
            .filter(|text| !text.is_empty())
            .ok_or(Error::MissingCredential)?;
        let key = self
            .find(credential)
            .await?
            .ok_or(Error::InvalidCredential)?;
        match key.usage {
            KeyUsage::DeveloperApi => {}
            KeyUsage::A2a | KeyUsage::Mcp => return Err(Error::WrongKeyUsage),
        }
        let caller = &key.caller;
        let feature = PlanFeature::ApiKeys;
        if caller
            .workspace
            .without
            .iter()
            .any(|word| word == feature.as_str())
        {
            return Err(Error::PlanLacks { feature });
        }
        if caller.workspace.slug != slug {
            return Err(Error::SlugMismatch {
                slug: caller.workspace.slug.clone(),
            });
        }
        Ok(caller.clone())
    }

    async fn find(&self, credential: &str) -> Result<Option<Arc<KnownKey>>> {
        if !credential.starts_with(KEY_PREFIX)
            || credential.len() > CREDENTIAL_MAX_CHARS
            || !credential.is_ascii()
        {
            return Ok(None);
        }
        let hash = self.keys.hash(credential);
        let prefix = KeyRing::lookup_prefix(credential);
        let keys = match self.cache.get(prefix) {
            Ok(keys) => keys,
            Err(generation) => {
                let rows = self.store.keys_by_prefix(prefix).await?;
                self.cache.put(prefix, rows, generation)
            }
        };
        Ok(keys
            .iter()
            .find(|key| bool::from(key.hash.ct_eq(&hash)))
            .cloned())
    }
}

/// A live key as the hot path needs it.
#[derive(Debug)]
struct KnownKey {
    hash: [u8; 32],
    usage: KeyUsage,
    caller: Caller,
}

impl KnownKey {
    fn of(row: KeyRow) -> Self {
        Self {
            hash: row.hash,
            usage: row.usage,
            caller: Caller {
                workspace: Arc::new(row.workspace),
                key_id: row.id,
                agent_ids: row.agent_ids.into(),
                runs_per_minute: row.runs_per_minute,
            },
        }
    }
}

/// Key rows by prefix, for a few seconds. Bounded: strangers who try random keys only push each other out.
#[derive(Debug, Default)]
pub struct KeyCache {
    state: Mutex<CacheState>,
}

type KnownKeys = Arc<[Arc<KnownKey>]>;

#[derive(Debug, Default)]
struct CacheState {
    by_prefix: HashMap<Box<str>, (KnownKeys, Instant)>,
    /// Rises at every change of a key, so that rows read before the change are not kept after it.
    generation: u64,
}

impl KeyCache {
    /// Forgets everything; called after every change of a workspace or key.
    pub fn invalidate(&self) {
        let mut state = self.lock();
        state.by_prefix.clear();
        state.generation += 1;
    }

    /// The keys, or the generation that freshly read rows belong to.
    fn get(&self, prefix: &str) -> std::result::Result<KnownKeys, u64> {
        let state = self.lock();
        match state.by_prefix.get(prefix) {
            Some((keys, until)) if *until > Instant::now() => Ok(Arc::clone(keys)),
            _ => Err(state.generation),
        }
    }

    fn put(&self, prefix: &str, rows: Vec<KeyRow>, generation: u64) -> KnownKeys {
        let live = rows.into_iter().filter(|row| row.revoked_at.is_none());
        let keys: KnownKeys = live.map(|row| Arc::new(KnownKey::of(row))).collect();
        let now = Instant::now();
        let until = now
            + if keys.is_empty() {
                UNKNOWN_FOR
            } else {
                KNOWN_FOR
            };
        let mut state = self.lock();
        if state.generation == generation {
            if state.by_prefix.len() >= CACHE_MAX {
                // Absences go first: they are what a guesser fills the cache with.
                state
                    .by_prefix
                    .retain(|_, (keys, until)| !keys.is_empty() && *until > now);
            }
            if state.by_prefix.len() >= CACHE_MAX {
                state.by_prefix.clear();
            }
            state
                .by_prefix
                .insert(prefix.into(), (Arc::clone(&keys), until));
        }
        keys
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        // Every change is one step, so a poisoned cache is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller for tests of the neighbours.
#[cfg(test)]
pub(crate) fn test_caller(key: &str, runs_per_minute: Option<u32>) -> Caller {
    Caller {
        workspace: Arc::new(WorkspaceRow {
            no: crate::ports::store::WorkspaceNo(1),
            slug: "acme".to_owned(),
            name: "Acme".to_owned(),
            without: Vec::new(),
        }),
        key_id: KeyId::from_suffix(key),
        agent_ids: Arc::new([]),
        runs_per_minute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::store::Millis;
    use crate::service::tenancy::TenancyService;
    use crate::service::tenancy::fake::FakeTenancy;
    use crate::service::tenancy::{CreateKey, PutWorkspace};

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

    #[test]
    fn hashes_depend_on_the_master_key_and_the_whole_key() {
        let ring = KeyRing::new(b"one");
        let key = ring.generate().unwrap();
        assert_eq!(ring.hash(&key), ring.hash(&key));
        assert_ne!(ring.hash(&key), ring.hash(&key[..key.len() - 1]));
        assert_ne!(ring.hash(&key), KeyRing::new(b"two").hash(&key));
    }

    #[test]
    fn new_keys_are_long_and_all_different() {
        let ring = KeyRing::new(b"one");
        let (a, b) = (ring.generate().unwrap(), ring.generate().unwrap());
        assert_ne!(a, b);
        assert!(a.starts_with(KEY_PREFIX) && a.len() >= KEY_PREFIX.len() + 40);
        assert!(
            a[KEY_PREFIX.len()..]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric())
        );
        assert_eq!(KeyRing::lookup_prefix(&a), &a[..15]);
    }

    #[test]
    fn the_lookup_prefix_gives_little_of_a_short_key_away() {
        assert_eq!(KeyRing::lookup_prefix("mantyx_12345678"), "mantyx_12");
        assert_eq!(KeyRing::lookup_prefix("mantyx_"), "mantyx_");
    }

    #[tokio::test]
    async fn a_good_key_opens_its_workspace_only() {
        let house = house(&[]).await;
        let key = key(&house, KeyUsage::DeveloperApi).await;
        let caller = house.auth.authenticate(Some(&key), "acme").await.unwrap();
        assert_eq!(caller.workspace.slug, "acme");
        let error = house
            .auth
            .authenticate(Some(&key), "other")
            .await
            .unwrap_err();
        assert!(matches!(error, Error::SlugMismatch { slug } if slug == "acme"));
    }

    #[tokio::test]
    async fn missing_and_unknown_credentials_differ() {
        let house = house(&[]).await;
        let real = key(&house, KeyUsage::DeveloperApi).await;
        for missing in [None, Some("")] {
            let error = house.auth.authenticate(missing, "acme").await.unwrap_err();
            assert!(matches!(error, Error::MissingCredential), "{error:?}");
        }
        let same_prefix = format!("{}x", &real[..real.len() - 1]);
        let long = format!("mantyx_{}", "x".repeat(10_000));
        for unknown in [
            "mantyx_nobody",
            "sk-1",
            "mantyx_at_token",
            "mantyx_é",
            &same_prefix,
            &long,
        ] {
            let error = house
                .auth
                .authenticate(Some(unknown), "acme")
                .await
                .unwrap_err();
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
            let error = house
                .auth
                .authenticate(Some(&key), "other")
                .await
                .unwrap_err();
            assert!(matches!(error, Error::WrongKeyUsage), "{error:?}");
        }
        let key = key(&house, KeyUsage::DeveloperApi).await;
        let error = house
            .auth
            .authenticate(Some(&key), "other")
            .await
            .unwrap_err();
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
            house.auth.authenticate(Some(&key), "acme").await.unwrap();
        }
        assert_eq!(house.store.lookups(), 1);
    }

    #[tokio::test]
    async fn a_revoked_key_is_refused_at_once_although_it_was_cached() {
        let house = house(&[]).await;
        let key = key(&house, KeyUsage::DeveloperApi).await;
        house.auth.authenticate(Some(&key), "acme").await.unwrap();
        house
            .tenancy
            .revoke_key("acme", &key, Millis(3))
            .await
            .unwrap();
        let error = house
            .auth
            .authenticate(Some(&key), "acme")
            .await
            .unwrap_err();
        assert!(matches!(error, Error::InvalidCredential), "{error:?}");
    }

    #[test]
    fn rows_read_before_a_change_are_not_kept_after_it() {
        let cache = KeyCache::default();
        let before = cache.get("mantyx_12345678").unwrap_err();
        cache.invalidate();
        cache.put("mantyx_12345678", Vec::new(), before);
        assert!(cache.get("mantyx_12345678").is_err());
    }

    #[test]
    fn strangers_cannot_grow_the_cache() {
        let cache = KeyCache::default();
        for number in 0..=CACHE_MAX {
            cache.put(&format!("mantyx_{number}"), Vec::new(), 0);
        }
        assert!(cache.lock().by_prefix.len() <= CACHE_MAX);
    }
}
