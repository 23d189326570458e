//! What an administrator does: workspaces and their API keys.

use std::fmt;
use std::sync::Arc;

use runloom_protocol::error::Issue;
use runloom_protocol::id::KeyId;

pub use runloom_protocol::admin::{CreateKey, KeyCreated, PutWorkspace};

use super::auth::{KEY_PREFIX, KeyCache, KeyRing, random_letters};
use crate::error::{Error, PlanFeature, Result};
use runloom_ports::bus::{Bus, NoBus, Signal};
use runloom_ports::store::{KeyRow, Millis, NewKey, Tenancy, WorkspaceRow};

/// Characters of a name for people.
pub(super) const NAME_MAX_CHARS: usize = 256;

/// Characters of a slug.
const SLUG_MAX_CHARS: usize = 63;

/// Agents that a credential may be restricted to.
pub(super) const AGENT_IDS_MAX: usize = 1000;

/// Characters behind the prefix of a key that an operator chose.
const CHOSEN_KEY_CHARS: std::ops::RangeInclusive<usize> = 8..=256;

/// Random characters of a key's id.
const KEY_ID_CHARS: usize = 22;

/// Prefixes of other credentials, which a key must not look like.
const FOREIGN_PREFIXES: [&str; 4] = ["mantyx_at_", "mantyx_rt_", "mantyx_oa_", "mantyx_oas_"];

/// Workspaces and keys. Every change takes effect in this process at once.
#[derive(Clone)]
pub struct TenancyService {
    store: Arc<dyn Tenancy>,
    pub(super) keys: Arc<KeyRing>,
    cache: Arc<KeyCache>,
    bus: Arc<dyn Bus>,
}

impl fmt::Debug for TenancyService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenancyService").finish_non_exhaustive()
    }
}

impl TenancyService {
    /// The cache is the one of the [`super::auth::Authenticator`].
    #[must_use]
    pub fn new(store: Arc<dyn Tenancy>, keys: Arc<KeyRing>, cache: Arc<KeyCache>) -> Self {
        Self {
            store,
            keys,
            cache,
            bus: Arc::new(NoBus),
        }
    }

    /// Tells other processes of changes.
    #[must_use]
    pub fn announcing(mut self, bus: Arc<dyn Bus>) -> Self {
        self.bus = bus;
        self
    }

    /// Another process has changed something.
    pub fn forget(&self) {
        self.cache.invalidate();
    }

    /// Somebody here has changed something that other processes know too.
    pub(super) fn changed(&self) {
        self.cache.invalidate();
        self.bus.announce(Signal::Registry);
    }

    /// Creates or updates a workspace.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a bad slug, name or feature.
    pub async fn put_workspace(
        &self,
        slug: &str,
        put: PutWorkspace,
        now: Millis,
    ) -> Result<WorkspaceRow> {
        check_workspace(slug, &put)?;
        let known = self.store.workspace(slug).await?;
        let (no, old_name, old_without) = match known {
            Some(row) => (row.no, row.name, row.without),
            None => (
                runloom_ports::store::WorkspaceNo(0),
                slug.to_owned(),
                Vec::new(),
            ),
        };
        let row = WorkspaceRow {
            no,
            slug: slug.to_owned(),
            name: put.name.unwrap_or(old_name),
            without: put.without.unwrap_or(old_without),
        };
        let stored = self.store.put_workspace(row, now).await?;
        self.changed();
        Ok(stored)
    }

    /// All workspaces, by slug.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        Ok(self.store.workspaces().await?)
    }

    /// Makes a key. It is shown in the answer and never again.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace, [`Error::Invalid`] for bad fields.
    pub async fn create_key(
        &self,
        slug: &str,
        create: CreateKey,
        now: Millis,
    ) -> Result<KeyCreated> {
        let key = self.keys.generate()?;
        let id = self.put_key(slug, &key, create, now).await?;
        Ok(KeyCreated { id, key })
    }

    /// Makes sure that a key which the operator chose exists as described; for what a configuration declares.
    ///
    /// # Errors
    /// As [`Self::create_key`]; [`Error::Invalid`] when it does not look like a key.
    pub async fn ensure_key(
        &self,
        slug: &str,
        key: &str,
        create: CreateKey,
        now: Millis,
    ) -> Result<KeyId> {
        check_chosen_key(key)?;
        self.put_key(slug, key, create, now).await
    }

    /// Keys of a workspace, oldest first, revoked ones included.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace.
    pub async fn list_keys(&self, slug: &str) -> Result<Vec<KeyRow>> {
        let workspace = self.workspace(slug).await?;
        Ok(self.store.keys(workspace.no).await?)
    }

    /// Revokes a key, named by its id or by the key itself.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the workspace has no such key.
    pub async fn revoke_key(&self, slug: &str, id_or_key: &str, now: Millis) -> Result<()> {
        const MISSING: Error = Error::NotFound { what: "API key" };
        let workspace = self.workspace(slug).await?;
        let id = if id_or_key.starts_with(KEY_PREFIX) && id_or_key.is_ascii() {
            let hash = self.keys.hash(id_or_key);
            let prefix = KeyRing::lookup_prefix(id_or_key);
            let rows = self.store.keys_by_prefix(prefix).await?;
            rows.into_iter()
                .find(|row| row.hash == hash && row.workspace.no == workspace.no)
                .ok_or(MISSING)?
                .id
        } else {
            KeyId::parse(id_or_key).ok_or(MISSING)?
        };
        let known = self.store.revoke_key(workspace.no, &id, now).await?;
        self.changed();
        if known { Ok(()) } else { Err(MISSING) }
    }

    async fn put_key(
        &self,
        slug: &str,
        key: &str,
        create: CreateKey,
        now: Millis,
    ) -> Result<KeyId> {
        check_key_fields(&create)?;
        let workspace = self.workspace(slug).await?;
        let new = NewKey {
            id: KeyId::from_suffix(random_letters(KEY_ID_CHARS)?),
            workspace: workspace.no,
            name: create.name,
            prefix: KeyRing::lookup_prefix(key).to_owned(),
            hash: self.keys.hash(key),
            usage: create.usage,
            agent_ids: create.agent_ids,
            runs_per_minute: create.runs_per_minute,
            act_for_owners: create.act_for_owners,
        };
        let id = self.store.put_key(new, now).await?;
        self.changed();
        Ok(id)
    }

    /// One workspace.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn workspace(&self, slug: &str) -> Result<WorkspaceRow> {
        let found = self.store.workspace(slug).await?;
        found.ok_or(Error::NotFound { what: "workspace" })
    }
}

/// Whether a text is a slug: `^[a-z0-9][a-z0-9-]{0,62}$`.
#[must_use]
pub fn is_slug(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= SLUG_MAX_CHARS
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

fn check_workspace(slug: &str, put: &PutWorkspace) -> Result<()> {
    let mut issues = Vec::new();
    if !is_slug(slug) {
        issues.push(issue(
            "slug",
            "must be 1–63 of a–z, 0–9 and -, and not start with -",
        ));
    }
    if let Some(name) = &put.name
        && (name.trim().is_empty() || name.chars().count() > NAME_MAX_CHARS)
    {
        issues.push(issue("name", "must have 1–256 characters"));
    }
    for (index, word) in put.without.iter().flatten().enumerate() {
        if !PlanFeature::ALL
            .iter()
            .any(|feature| feature.as_str() == word)
        {
            let known = PlanFeature::ALL.map(PlanFeature::as_str).join(", ");
            let message =
                format!("`{word}` is no feature that can be switched off; known: {known}");
            issues.push(issue(&format!("without[{index}]"), &message));
        }
    }
    checked(issues)
}

fn check_key_fields(create: &CreateKey) -> Result<()> {
    let mut issues = Vec::new();
    if create.name.chars().count() > NAME_MAX_CHARS {
        issues.push(issue("name", "must have at most 256 characters"));
    }
    if create.agent_ids.len() > AGENT_IDS_MAX {
        issues.push(issue("agentIds", "must have at most 1000 entries"));
    }
    for (index, id) in create.agent_ids.iter().enumerate() {
        if id.is_empty() || id.chars().count() > NAME_MAX_CHARS {
            issues.push(issue(
                &format!("agentIds[{index}]"),
                "must be the id of an agent, 1–256 characters",
            ));
        }
    }
    checked(issues)
}

fn check_chosen_key(key: &str) -> Result<()> {
    // The message never repeats the key: it ends up in logs.
    let secret = key.strip_prefix(KEY_PREFIX).unwrap_or_default();
    let fits = CHOSEN_KEY_CHARS.contains(&secret.len())
        && secret.bytes().all(|byte| byte.is_ascii_graphic())
        && !FOREIGN_PREFIXES
            .iter()
            .any(|prefix| key.starts_with(prefix));
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(
            "key",
            "must be `mantyx_` and 8–256 printable ASCII characters without spaces, and not start like an OAuth token",
        ))
    }
}

pub(super) fn issue(path: &str, message: &str) -> Issue {
    Issue {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

pub(super) fn checked(issues: Vec<Issue>) -> Result<()> {
    if issues.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(issues))
    }
}

#[cfg(test)]
pub(crate) mod fake;

#[cfg(test)]
mod tests;
