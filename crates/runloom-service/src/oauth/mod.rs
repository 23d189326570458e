//! OAuth 2.0: people let apps do things in their workspaces, and apps get tokens for it.
//!
//! `people` keeps who can sign in (`password` what they sign in with), `apps` who may ask; `authorize` is the way of
//! a person's yes to a code (`seat` remembers who sits at the browser), `token` the way from a code to tokens and
//! back, `grants` what was allowed. Access tokens are recognised where keys are, in `auth`. Every app has a secret
//! *and* must use PKCE; a code is good once and for ten minutes, an access token for an hour, a refresh token until
//! it is revoked.

mod apps;
mod authorize;
mod grants;
mod login_session;
mod password;
mod token;
mod users;

use std::fmt;
use std::sync::Arc;

use runloom_protocol::id::{GrantId, PersonId};
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

/// What every client id starts with.
pub const CLIENT_PREFIX: &str = "mantyx_oa_";
/// What every client secret starts with.
pub const SECRET_PREFIX: &str = "mantyx_oas_";
/// What every refresh token starts with.
pub const REFRESH_PREFIX: &str = "mantyx_rt_";
/// What every code starts with.
pub const CODE_PREFIX: &str = "mantyx_ac_";

/// Random characters of an id.
const ID_CHARS: usize = 22;

/// Longest code, token or secret that is looked at.
const SECRET_MAX_CHARS: usize = 512;

/// People, apps, and what the ones let the others do.
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
    /// With the keys of `tenancy`, whose caches it empties when something is revoked.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, tenancy: &TenancyService) -> Self {
        Self {
            store,
            tenancy: tenancy.clone(),
            keys: Arc::clone(&tenancy.keys),
            passwords: Passwords::default(),
        }
    }

    /// Whether a text is what this hash was made of. Hashes are keyed, and compared in constant time.
    fn is(&self, text: &str, hash: &[u8; 32]) -> bool {
        text.len() <= SECRET_MAX_CHARS && bool::from(self.keys.hash(text).ct_eq(hash))
    }
}

/// The prefix that a text of this kind is found by; `None` for what is no such text.
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

fn new_person_id() -> Result<PersonId> {
    Ok(PersonId::from_suffix(random_letters(ID_CHARS)?))
}

/// A while after.
fn after(at: Millis, by: std::time::Duration) -> Millis {
    Millis(at.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
