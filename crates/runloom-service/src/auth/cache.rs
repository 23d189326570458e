//! Rows of keys and tokens for a few seconds, so that the hot path reads no store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Caller;
use crate::error::PlanFeature;
use runloom_ports::project::Owner;
use runloom_ports::store::{KeyRow, KeyUsage, Millis, TokenRow};

/// How long a cached row is believed.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// How long the absence of a row is believed: short, because the key may be created any moment.
const UNKNOWN_FOR: Duration = Duration::from_millis(500);

/// Prefixes in the cache.
const CACHE_MAX: usize = 10_000;

/// A live key or access token, reduced to what the hot path needs.
#[derive(Debug)]
pub(super) struct KnownKey {
    pub(super) hash: [u8; 32],
    /// The usage of a key; `None` for a token, which has scopes.
    pub(super) usage: Option<KeyUsage>,
    /// The plan feature that the workspace needs.
    pub(super) feature: PlanFeature,
    /// When a token ends; keys do not.
    pub(super) expires_at: Option<Millis>,
    pub(super) caller: Caller,
}

impl KnownKey {
    fn of(row: KeyRow) -> Self {
        Self {
            hash: row.hash,
            usage: Some(row.usage),
            feature: PlanFeature::ApiKeys,
            expires_at: None,
            caller: Caller {
                workspace: Arc::new(row.workspace),
                owner: match row.usage {
                    KeyUsage::DeveloperApi => Owner::workspace(),
                    _ => Owner {
                        id: format!("key:{}", row.id),
                        email: None,
                    },
                },
                act_for_owners: row.act_for_owners && row.usage == KeyUsage::DeveloperApi,
                key_id: row.id.into(),
                agent_ids: row.agent_ids.into(),
                runs_per_minute: row.runs_per_minute,
                trace: None,
                scopes: None,
            },
        }
    }

    /// A token has its own scopes, limited to those that its app may still request.
    fn of_token(row: TokenRow) -> Self {
        let scopes = row.scopes.both(row.grant.app.scopes);
        Self {
            hash: row.hash,
            usage: None,
            feature: PlanFeature::OauthApps,
            expires_at: Some(row.expires_at),
            caller: Caller {
                owner: match row.grant.person {
                    Some((id, email)) => Owner {
                        id: format!("user:{id}"),
                        email: Some(email),
                    },
                    None => Owner {
                        id: format!("app:{}", row.grant.app.client_id),
                        email: None,
                    },
                },
                act_for_owners: false,
                workspace: Arc::new(row.grant.workspace),
                key_id: row.grant.id.into(),
                agent_ids: row.grant.agent_ids.into(),
                runs_per_minute: None,
                trace: None,
                scopes: Some(scopes),
            },
        }
    }
}

/// Rows of keys and tokens by prefix, for a few seconds. Bounded: attempts with random keys only evict each other.
#[derive(Debug, Default)]
pub struct KeyCache {
    state: Mutex<CacheState>,
}

pub(super) type KnownKeys = Arc<[Arc<KnownKey>]>;

#[derive(Debug, Default)]
struct CacheState {
    by_prefix: HashMap<Box<str>, (KnownKeys, Instant)>,
    /// Rises at every change of a key, so that rows read before the change are not cached after it.
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
    pub(super) fn get(&self, prefix: &str) -> std::result::Result<KnownKeys, u64> {
        let state = self.lock();
        match state.by_prefix.get(prefix) {
            Some((keys, until)) if *until > Instant::now() => Ok(Arc::clone(keys)),
            _ => Err(state.generation),
        }
    }

    pub(super) fn put(&self, prefix: &str, rows: Vec<KeyRow>, generation: u64) -> KnownKeys {
        let live = rows.into_iter().filter(|row| row.revoked_at.is_none());
        let keys: KnownKeys = live.map(|row| Arc::new(KnownKey::of(row))).collect();
        self.keep(prefix, keys, generation)
    }

    pub(super) fn put_tokens(
        &self,
        prefix: &str,
        rows: Vec<TokenRow>,
        generation: u64,
    ) -> KnownKeys {
        let live = rows.into_iter().filter(|row| row.grant.is_allowed());
        let tokens: KnownKeys = live.map(|row| Arc::new(KnownKey::of_token(row))).collect();
        self.keep(prefix, tokens, generation)
    }

    fn keep(&self, prefix: &str, keys: KnownKeys, generation: u64) -> KnownKeys {
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
                // Absent keys are evicted first, because attempts with random keys create them.
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

#[cfg(test)]
mod tests {
    use super::*;

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
