//! OAuth 2.0 server: users grant apps access to their workspaces, and apps get tokens.
//!
//! `users` and `password` manage the accounts, `apps` the clients. `authorize` turns consent into a code, with
//! `login_session` for the browser; `token` exchanges codes for tokens, refreshes and revokes them; `grants` lists
//! and revokes. Access tokens are authenticated in `auth`, beside API keys. Every app has a secret *and* must use
//! PKCE. A code is valid once and for ten minutes, an access token for an hour, a refresh token until it is revoked.

mod apps;
mod authorize;
mod grants;
mod login_session;
mod password;
mod token;
mod users;

use std::fmt;
use std::sync::Arc;

use runloom_protocol::id::{GrantId, UserId};
use subtle::ConstantTimeEq;

use super::auth::{KeyRing, random_letters};
use super::tenancy::TenancyService;
use crate::error::{PlanFeature, Result};
use password::Passwords;
use runloom_ports::store::{Millis, Store, WorkspaceRow};

pub use apps::redirect_problem;
pub use authorize::{AgentChoice, Asked, Authorization, CODE_LIVES};
pub use grants::{GrantsOf, UserInfo};
pub use login_session::{LOGIN_SESSION_LIFETIME, LoginSession};
pub use runloom_protocol::admin::{CreateOauthApp, OauthAppCreated, PutUser, Visibility};
pub use token::{ACCESS_LIVES, ClientCredential, Issued, TokenFacts, TokenRequest};
pub use users::check_email;

/// Prefix of every client id.
pub const CLIENT_PREFIX: &str = "mantyx_oa_";
/// Prefix of every client secret.
pub const SECRET_PREFIX: &str = "mantyx_oas_";
/// Prefix of every refresh token.
pub const REFRESH_PREFIX: &str = "mantyx_rt_";
/// Prefix of every code.
pub const CODE_PREFIX: &str = "mantyx_ac_";

/// Random characters of an id.
const ID_CHARS: usize = 22;

/// Longest code, token or secret that is looked at.
const SECRET_MAX_CHARS: usize = 512;

/// Users, OAuth apps and grants.
pub struct OAuthService {
    store: Arc<dyn Store>,
    tenancy: TenancyService,
    keys: Arc<KeyRing>,
    passwords: Passwords,
}

impl fmt::Debug for OAuthService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthService").finish_non_exhaustive()
    }
}

impl OAuthService {
    /// Shares the keys of `tenancy`, whose caches it clears after a revocation.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, tenancy: &TenancyService) -> Self {
        Self {
            store,
            tenancy: tenancy.clone(),
            keys: Arc::clone(&tenancy.keys),
            passwords: Passwords::default(),
        }
    }

    /// Whether the hash belongs to this text. Hashes are keyed, and compared in constant time.
    fn is(&self, text: &str, hash: &[u8; 32]) -> bool {
        text.len() <= SECRET_MAX_CHARS && bool::from(self.keys.hash(text).ct_eq(hash))
    }
}

/// The lookup prefix of a text of this kind; `None` for other texts.
fn lookup<'text>(kind: &str, text: &'text str) -> Option<&'text str> {
    let fits = text.starts_with(kind) && text.len() <= SECRET_MAX_CHARS && text.is_ascii();
    fits.then(|| KeyRing::lookup_prefix_of(kind, text))
}

/// Whether a workspace has apps at all.
fn has_apps(workspace: &WorkspaceRow) -> bool {
    let feature = PlanFeature::OauthApps.as_str();
    !workspace.without.iter().any(|word| word == feature)
}

fn new_grant_id() -> Result<GrantId> {
    Ok(GrantId::from_suffix(random_letters(ID_CHARS)?))
}

fn new_user_id() -> Result<UserId> {
    Ok(UserId::from_suffix(random_letters(ID_CHARS)?))
}

/// A while after.
fn after(at: Millis, by: std::time::Duration) -> Millis {
    Millis(at.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
