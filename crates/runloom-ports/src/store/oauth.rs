//! OAuth apps, grants, codes and tokens.
//!
//! A grant is a user's permission for an app. It has the refresh token, and access tokens belong to it. An app that
//! acts for itself has one grant without a user. Codes and tokens are stored as keyed hashes only, and found by their
//! first characters.

use async_trait::async_trait;
use runloom_protocol::id::{GrantId, UserId};
use runloom_protocol::scope::ScopeSet;

use super::{Millis, StoreResult, WorkspaceNo, WorkspaceRow};

/// Maximum grants of one user for one app. The newest replaces the oldest.
pub const GRANTS_MAX: usize = 50;

/// Maximum unredeemed codes of one user for one app. The newest replaces the oldest.
pub const CODES_MAX: usize = 20;

/// Maximum live access tokens of one grant. The newest replaces the oldest.
pub const TOKENS_MAX: usize = 100;

/// OAuth apps and their grants, codes and tokens.
#[async_trait]
pub trait OAuth: Send + Sync {
    /// Creates an app, or changes the one with this id. Returns false, and changes nothing, when the id belongs to
    /// another workspace or the app is new and has no secret.
    async fn put_app(&self, app: PutApp, now: Millis) -> StoreResult<bool>;

    /// One app, by client id.
    async fn app(&self, client_id: &str) -> StoreResult<Option<AppRow>>;

    /// Apps of a workspace, oldest first.
    async fn apps(&self, workspace: WorkspaceNo) -> StoreResult<Vec<AppRow>>;

    /// Deletes an app with everything it was allowed; false when the workspace has no such app.
    async fn delete_app(&self, workspace: WorkspaceNo, client_id: &str) -> StoreResult<bool>;

    /// Stores a code. Returns false, and changes nothing, when the user is not a member of the workspace.
    async fn put_code(&self, code: NewCode) -> StoreResult<bool>;

    /// Codes that share a prefix, used ones included; few.
    async fn codes_by_prefix(&self, prefix: &str) -> StoreResult<Vec<CodeRow>>;

    /// Exchanges a code, once, for its grant and first token. Returns false, and changes nothing, when the code is
    /// missing or used, or its user is no longer a member of the workspace.
    async fn redeem_code(
        &self,
        code: [u8; 32],
        grant: NewGrant,
        token: NewToken,
    ) -> StoreResult<bool>;

    /// Creates the grant of an app that acts for itself, or updates the scopes of the existing one.
    async fn put_own_grant(&self, grant: NewGrant) -> StoreResult<GrantId>;

    /// Stores a token. Returns false, and changes nothing, when its grant is deleted.
    async fn put_token(&self, token: NewToken) -> StoreResult<bool>;

    /// Tokens that share a prefix, expired ones included; few.
    async fn tokens_by_prefix(&self, prefix: &str) -> StoreResult<Vec<TokenRow>>;

    /// Deletes one token; false when it did not exist.
    async fn delete_token(&self, hash: [u8; 32]) -> StoreResult<bool>;

    /// Grants whose refresh tokens share a prefix; few.
    async fn grants_by_prefix(&self, prefix: &str) -> StoreResult<Vec<GrantRow>>;

    /// Grants, newest first.
    async fn grants(&self, filter: GrantFilter, limit: usize) -> StoreResult<Vec<GrantRow>>;

    /// Deletes a grant with its tokens; false when it did not exist.
    async fn delete_grant(&self, id: &GrantId) -> StoreResult<bool>;

    /// Deletes at most `limit` tokens that had expired at `tokens`, and codes that had at `codes`. Returns their
    /// number.
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
    /// Keyed hash of the secret; `None` keeps the present one.
    pub secret: Option<[u8; 32]>,
    /// Whether anybody may use it in a workspace of theirs, or its owner's people only.
    pub public: bool,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// Scopes that it may request.
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
    /// Scopes that it may request.
    pub scopes: ScopeSet,
    /// Whether it may act for itself.
    pub client_credentials: bool,
    /// Created.
    pub created_at: Millis,
}

/// A code to store.
#[derive(Debug, Clone)]
pub struct NewCode {
    /// Its first characters.
    pub prefix: String,
    /// Keyed hash of the whole code.
    pub hash: [u8; 32],
    /// The consent it represents.
    pub consent: Consent,
    /// The end of its time.
    pub expires_at: Millis,
}

/// The consent of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The app.
    pub client_id: String,
    /// The user.
    pub person: UserId,
    /// Where.
    pub workspace: WorkspaceNo,
    /// Where the code was sent.
    pub redirect_uri: String,
    /// The hash that the verifier must have (PKCE).
    pub challenge: String,
    /// The allowed scopes.
    pub scopes: ScopeSet,
    /// With which agents; empty = every agent.
    pub agent_ids: Vec<String>,
}

/// A code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRow {
    /// Keyed hash of the whole code.
    pub hash: [u8; 32],
    /// The consent it represents.
    pub consent: Consent,
    /// The end of its time.
    pub expires_at: Millis,
    /// The grant it was exchanged for, once used.
    pub grant: Option<GrantId>,
}

/// A grant to store.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// Row id.
    pub id: GrantId,
    /// The app.
    pub client_id: String,
    /// The user who allowed it; `None` when the app acts for itself.
    pub person: Option<UserId>,
    /// Where.
    pub workspace: WorkspaceNo,
    /// The allowed scopes.
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
    /// Id and address of the user who allowed it.
    pub person: Option<(UserId, String)>,
    /// Where.
    pub workspace: WorkspaceRow,
    /// The allowed scopes.
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
    /// Whether its app may still use it. A private app is limited to its own workspace; an app that may no longer act
    /// for itself is limited to grants of users.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        let here = self.app.public || self.app.workspace == self.workspace.no;
        here && (self.person.is_some() || self.app.client_credentials)
    }
}

/// A token to store.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its first characters.
    pub prefix: String,
    /// Keyed hash of the whole token.
    pub hash: [u8; 32],
    /// Its grant.
    pub grant: GrantId,
    /// Its scopes.
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
    /// Its grant.
    pub grant: GrantRow,
    /// Its scopes.
    pub scopes: ScopeSet,
    /// Created.
    pub created_at: Millis,
    /// The end of its time.
    pub expires_at: Millis,
}

/// Which grants; every field that is there must match.
#[derive(Debug, Clone, Default)]
pub struct GrantFilter {
    /// With this id.
    pub id: Option<GrantId>,
    /// Of this app.
    pub client_id: Option<String>,
    /// Of this person.
    pub person: Option<UserId>,
    /// In this workspace.
    pub workspace: Option<WorkspaceNo>,
}
