//! The controlled credential: minted for one call, checked at every use, never stored.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::Mutex;
use runloom_ports::error::Result as PortResult;
use runloom_ports::project::{
    CallIdentity, MintError, OpenedCall, ProjectAuthority, RunProject, Via,
};
use runloom_ports::secret::Secret;
use runloom_ports::store::{GrantFilter, StoreResult};
use runloom_project::credential_text::PROJECT_CREDENTIAL;
use runloom_protocol::id::GrantId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::ProjectService;

/// Requests that one credential may make.
const REQUESTS_MAX: u32 = 100;

/// Longest credential that is looked at: the allow-list is in it.
const CREDENTIAL_MAX_BYTES: usize = 256 * 1024;

/// Signs credentials.
pub(super) struct SigningKey([u8; 32]);

impl SigningKey {
    /// The label keeps it apart from every other key that comes from the same master key.
    pub(super) fn new(master_key: &[u8]) -> Self {
        Self(hmac(master_key, b"runloom project credentials 1"))
    }

    fn sign(&self, text: &str) -> [u8; 32] {
        hmac(&self.0, text.as_bytes())
    }
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    // A key of any length is one for HMAC.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return [0; 32];
    };
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// What a credential says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Claims {
    v: u32,
    jti: String,
    ws: String,
    own: String,
    run: String,
    call: String,
    src: String,
    via: Via,
    act: Vec<String>,
    iat: i64,
    pub(super) exp: i64,
}

/// A call in progress.
#[derive(Clone)]
pub(super) struct LiveCall {
    pub(super) identity: CallIdentity,
    requests: Arc<AtomicU32>,
}

/// A use of a credential that was accepted.
pub(super) struct Admitted {
    pub(super) identity: CallIdentity,
    /// When the credential ends, in seconds.
    pub(super) expires: i64,
}

/// Why a use of a credential was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Missing, forged, expired, revoked, or its call has ended.
    Invalid,
    /// It was used too often.
    TooMany,
}

#[async_trait]
impl ProjectAuthority for ProjectService {
    async fn is_source_live(&self, call: &CallIdentity) -> PortResult<bool> {
        Ok(self.source_is_live(&call.workspace, &call.project).await?)
    }

    async fn open_call(&self, call: CallIdentity) -> PortResult<Result<OpenedCall, MintError>> {
        let Some(api) = self.api.get().cloned() else {
            return Ok(Err(MintError::NoApi));
        };
        if !self.source_is_live(&call.workspace, &call.project).await? {
            return Ok(Err(MintError::Revoked));
        }
        let now = self.clock.now().0 / 1000;
        let ttl = i64::try_from(call.project.credential_ttl_seconds).unwrap_or(i64::MAX);
        let jti = self.clock.new_id().to_string();
        let claims = Claims {
            v: 1,
            jti: jti.clone(),
            ws: call.workspace.to_string(),
            own: call.project.owner.id.clone(),
            run: call.run.to_string(),
            call: call.call.clone(),
            src: call.project.source.clone(),
            via: call.project.via,
            act: call.project.allow.clone(),
            iat: now,
            exp: now.saturating_add(ttl),
        };
        let credential = self.minted(&claims);
        let live = LiveCall {
            identity: call,
            requests: Arc::default(),
        };
        self.calls.lock().insert(jti.clone(), live);
        Ok(Ok(OpenedCall {
            credential,
            api,
            ends_on_drop: Box::new(EndCall {
                calls: Arc::clone(&self.calls),
                jti,
            }),
        }))
    }
}

/// Ends a call.
struct EndCall {
    calls: Arc<Mutex<HashMap<String, LiveCall>>>,
    jti: String,
}

impl Drop for EndCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.jti);
    }
}

impl ProjectService {
    fn minted(&self, claims: &Claims) -> Secret {
        let claims = serde_json::to_vec(claims).unwrap_or_default();
        let body = format!("{PROJECT_CREDENTIAL}{}", URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(&body));
        Secret::new(format!("{body}.{signature}"))
    }

    /// Checks form, signature, lifetime, the call and the credential behind it.
    pub(super) async fn admit(&self, credential: Option<&str>) -> Result<Admitted, Refused> {
        let claims = credential
            .and_then(|text| self.read(text))
            .ok_or(Refused::Invalid)?;
        if claims.exp <= self.clock.now().0.div_euclid(1000) {
            return Err(Refused::Invalid);
        }
        let live = self.calls.lock().get(&claims.jti).cloned();
        let live = live.ok_or(Refused::Invalid)?;
        let identity = live.identity;
        let is_live = self.source_is_live(&identity.workspace, &identity.project);
        if !is_live.await.unwrap_or(false) {
            return Err(Refused::Invalid);
        }
        if live.requests.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
            return Err(Refused::TooMany);
        }
        Ok(Admitted {
            identity,
            expires: claims.exp,
        })
    }

    fn read(&self, credential: &str) -> Option<Claims> {
        if credential.len() > CREDENTIAL_MAX_BYTES {
            return None;
        }
        let (body, signature) = credential.rsplit_once('.')?;
        let given = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !bool::from(given.ct_eq(&self.key.sign(body))) {
            return None;
        }
        let claims = URL_SAFE_NO_PAD
            .decode(body.strip_prefix(PROJECT_CREDENTIAL)?)
            .ok()?;
        let claims: Claims = serde_json::from_slice(&claims).ok()?;
        (claims.v == 1).then_some(claims)
    }

    /// Whether the API key or grant that started the run is not revoked.
    async fn source_is_live(&self, workspace: &str, project: &RunProject) -> StoreResult<bool> {
        let Some(workspace) = self.store.workspace(workspace).await? else {
            return Ok(false);
        };
        if let Some(id) = GrantId::parse(&project.source) {
            let filter = GrantFilter {
                id: Some(id),
                workspace: Some(workspace.no),
                ..GrantFilter::default()
            };
            let grants = self.store.grants(filter, 1).await?;
            return Ok(grants.first().is_some_and(|grant| grant.is_allowed()));
        }
        let keys = self.store.keys(workspace.no).await?;
        let own = keys.iter().find(|key| key.id.as_str() == project.source);
        Ok(own.is_some_and(|key| key.revoked_at.is_none()))
    }
}

#[cfg(test)]
#[path = "credential_tests.rs"]
mod tests;
