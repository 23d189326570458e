//! OAuth apps, what they were allowed, and the codes and tokens that stand for it.
//!
//! A grant is what somebody allowed an app: it has the refresh token, and access tokens hang on it. An app that acts
//! for itself has one grant of nobody. Codes and tokens are kept as keyed hashes only, and found by their first
//! characters.

use async_trait::async_trait;
use runloom_protocol::id::{GrantId, PersonId};
use runloom_protocol::scope::ScopeSet;

use super::{Millis, StoreResult, WorkspaceNo, WorkspaceRow};

/// Grants of one person for one app at most: the oldest gives way to the newest.
pub const GRANTS_MAX: usize = 50;

/// Codes of one person for one app that wait to be redeemed, at most: the oldest gives way to the newest.
pub const CODES_MAX: usize = 20;

/// Live access tokens of one grant at most: the oldest gives way to the newest.
pub const TOKENS_MAX: usize = 100;

/// Apps and what hangs on them.
#[async_trait]
pub trait OAuth: Send + Sync {
    /// Creates an app, or changes the one with this id. False, and nothing changed: the id is another workspace's, or
    /// the app is new and has no secret.
    async fn put_app(&self, app: PutApp, now: Millis) -> StoreResult<bool>;

    /// One app, by client id.
    async fn app(&self, client_id: &str) -> StoreResult<Option<AppRow>>;

    /// Apps of a workspace, oldest first.
    async fn apps(&self, workspace: WorkspaceNo) -> StoreResult<Vec<AppRow>>;

    /// Deletes an app with everything it was allowed; false when the workspace has no such app.
    async fn delete_app(&self, workspace: WorkspaceNo, client_id: &str) -> StoreResult<bool>;

    /// Keeps a code. False, and nothing changed: the person does not belong to the workspace.
    async fn put_code(&self, code: NewCode) -> StoreResult<bool>;

    /// Codes that share a prefix, used ones included; few.
    async fn codes_by_prefix(&self, prefix: &str) -> StoreResult<Vec<CodeRow>>;

    /// Makes the grant and the first token of a code, once. False, and nothing changed: the code is gone or was used,
    /// or its person does not belong to the workspace any more.
    async fn redeem_code(
        &self,
        code: [u8; 32],
        grant: NewGrant,
        token: NewToken,
    ) -> StoreResult<bool>;

    /// The grant of an app that acts for itself: the one that is there with new scopes, or this one.
    async fn put_own_grant(&self, grant: NewGrant) -> StoreResult<GrantId>;

    /// Keeps a token. False, and nothing changed: its grant is gone.
    async fn put_token(&self, token: NewToken) -> StoreResult<bool>;

    /// Tokens that share a prefix, expired ones included; few.
    async fn tokens_by_prefix(&self, prefix: &str) -> StoreResult<Vec<TokenRow>>;

    /// Deletes one token; false when it was gone.
    async fn delete_token(&self, hash: [u8; 32]) -> StoreResult<bool>;

    /// Grants whose refresh tokens share a prefix; few.
    async fn grants_by_prefix(&self, prefix: &str) -> StoreResult<Vec<GrantRow>>;

    /// Grants, newest first.
    async fn grants(&self, filter: GrantFilter, limit: usize) -> StoreResult<Vec<GrantRow>>;

    /// Deletes a grant with its tokens; false when it was gone.
    async fn delete_grant(&self, id: &GrantId) -> StoreResult<bool>;

    /// Deletes at most `limit` tokens that had expired at `tokens`, and codes that had at `codes`; how many went.
    async fn purge_expired(
        &self,
        tokens: Millis,
        codes: Millis,
        limit: usize,
    ) -> StoreResult<usize>;
}

/// An app as it should be.
#[derive(Debug, Clone)]
pub struct PutApp {
    /// `mantyx_oa_…`.
    pub client_id: String,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// For people.
    pub name: String,
    /// Keyed hash of the secret; `None` keeps what is there.
    pub secret: Option<[u8; 32]>,
    /// Whether anybody may use it in a workspace of theirs, or its owner's people only.
    pub public: bool,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// What it may ask for.
    pub scopes: ScopeSet,
    /// Whether it may act for itself.
    pub client_credentials: bool,
}

/// An app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppRow {
    /// `mantyx_oa_…`.
    pub client_id: String,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// For people.
    pub name: String,
    /// Keyed hash of the secret.
    pub secret: [u8; 32],
    /// Whether anybody may use it in a workspace of theirs.
    pub public: bool,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// What it may ask for.
    pub scopes: ScopeSet,
    /// Whether it may act for itself.
    pub client_credentials: bool,
    /// Created.
    pub created_at: Millis,
}

/// A code to be kept.
#[derive(Debug, Clone)]
pub struct NewCode {
    /// Its first characters.
    pub prefix: String,
    /// Keyed hash of the whole code.
    pub hash: [u8; 32],
    /// What it stands for.
    pub consent: Consent,
    /// The end of its time.
    pub expires_at: Millis,
}

/// What a person said yes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The app.
    pub client_id: String,
    /// Who.
    pub person: PersonId,
    /// Where.
    pub workspace: WorkspaceNo,
    /// Where the code was sent.
    pub redirect_uri: String,
    /// The hash that the verifier must have (PKCE).
    pub challenge: String,
    /// What is allowed.
    pub scopes: ScopeSet,
    /// With which agents; empty = every agent.
    pub agent_ids: Vec<String>,
}

/// A code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRow {
    /// Keyed hash of the whole code.
    pub hash: [u8; 32],
    /// What it stands for.
    pub consent: Consent,
    /// The end of its time.
    pub expires_at: Millis,
    /// What was made of it, once it was used.
    pub grant: Option<GrantId>,
}

/// A grant to be kept.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// Row id.
    pub id: GrantId,
    /// The app.
    pub client_id: String,
    /// Who allowed it; nobody when the app acts for itself.
    pub person: Option<PersonId>,
    /// Where.
    pub workspace: WorkspaceNo,
    /// What is allowed.
    pub scopes: ScopeSet,
    /// With which agents; empty = every agent.
    pub agent_ids: Vec<String>,
    /// Prefix and keyed hash of its refresh token.
    pub refresh: Option<(String, [u8; 32])>,
    /// Created.
    pub created_at: Millis,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRow {
    /// Row id.
    pub id: GrantId,
    /// The app.
    pub app: AppRow,
    /// Id and address of who allowed it.
    pub person: Option<(PersonId, String)>,
    /// Where.
    pub workspace: WorkspaceRow,
    /// What is allowed.
    pub scopes: ScopeSet,
    /// With which agents; empty = every agent.
    pub agent_ids: Vec<String>,
    /// Keyed hash of its refresh token.
    pub refresh: Option<[u8; 32]>,
    /// Created.
    pub created_at: Millis,
    /// When it last gave a token.
    pub last_used_at: Millis,
}

impl GrantRow {
    /// Whether its app may still have it: one that became private only in its own workspace, and one that may not act
    /// for itself any more only for people.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        let here = self.app.public || self.app.workspace == self.workspace.no;
        here && (self.person.is_some() || self.app.client_credentials)
    }
}

/// A token to be kept.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its first characters.
    pub prefix: String,
    /// Keyed hash of the whole token.
    pub hash: [u8; 32],
    /// What it hangs on.
    pub grant: GrantId,
    /// What it may.
    pub scopes: ScopeSet,
    /// Created.
    pub created_at: Millis,
    /// The end of its time.
    pub expires_at: Millis,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Keyed hash of the whole token.
    pub hash: [u8; 32],
    /// What it hangs on.
    pub grant: GrantRow,
    /// What it may.
    pub scopes: ScopeSet,
    /// Created.
    pub created_at: Millis,
    /// The end of its time.
    pub expires_at: Millis,
}

/// Which grants; every field that is there must match.
#[derive(Debug, Clone, Default)]
pub struct GrantFilter {
    /// This one.
    pub id: Option<GrantId>,
    /// Of this app.
    pub client_id: Option<String>,
    /// Of this person.
    pub person: Option<PersonId>,
    /// In this workspace.
    pub workspace: Option<WorkspaceNo>,
}
