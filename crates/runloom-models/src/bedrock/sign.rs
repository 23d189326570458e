//! Credential of a request to Bedrock: a bearer key, or a signature (SigV4) of each request.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use runloom_ports::model::ModelError;
use runloom_ports::secret::Secret;
use runloom_protocol::outcome::ErrorClass;
use sha2::{Digest, Sha256};

use crate::http::secret_header;
use crate::payload::Payload;
use crate::settings::{OpenError, ProviderSettings};

/// Service name in the signature.
const SERVICE: &str = "bedrock";

/// How requests are authenticated.
#[derive(Clone)]
pub(crate) enum Credential {
    /// A Bedrock API key.
    Bearer(HeaderValue),
    /// An IAM access key.
    AccessKey {
        /// Region of the endpoint.
        region: String,
        /// Key, secret and token.
        keys: Box<Credentials>,
    },
}

impl Credential {
    /// Reads the credential of a provider: `api_key`, or `access_key_id` and `secret_access_key` (and `session_token`).
    pub(crate) fn read(
        provider: &ProviderSettings,
        region: Option<&str>,
    ) -> Result<Self, OpenError> {
        let id = provider.extra_text("access_key_id")?;
        let secret = provider.extra_text("secret_access_key")?;
        let token = provider.extra_text("session_token")?;
        match (&provider.api_key, id, secret) {
            (None, Some(id), Some(secret)) => {
                let Some(region) = region else {
                    return Err(provider.invalid("`region` is needed to sign requests".to_owned()));
                };
                let keys = Credentials::new(id, secret, token.map(str::to_owned), None, "runloom");
                Ok(Self::AccessKey {
                    region: region.to_owned(),
                    keys: Box::new(keys),
                })
            }
            (Some(_), None, None) => {
                let header = secret_header(provider, "Bearer ", provider.require_key()?)?;
                Ok(Self::Bearer(header))
            }
            (Some(_), ..) => Err(provider.invalid(
                "both an API key and an access key are set: leave one of them out".to_owned(),
            )),
            (None, ..) => Err(provider.invalid(
                "no credential: set `api_key_env`, or `access_key_id` and `secret_access_key`"
                    .to_owned(),
            )),
        }
    }

    /// The values that must never appear in a message.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        match self {
            Self::Bearer(_) => Vec::new(),
            Self::AccessKey { keys, .. } => {
                let token = keys.session_token().into_iter();
                [keys.secret_access_key(), keys.access_key_id()]
                    .into_iter()
                    .chain(token)
                    .map(Secret::new)
                    .collect()
            }
        }
    }

    /// Adds the credential to the headers of a POST. A signature covers the headers that are already there.
    pub(crate) fn apply(
        &self,
        url: &str,
        headers: &mut HeaderMap,
        body: &Payload,
        now: SystemTime,
    ) -> Result<(), ModelError> {
        let (region, keys) = match self {
            Self::Bearer(value) => {
                headers.insert(AUTHORIZATION, value.clone());
                return Ok(());
            }
            Self::AccessKey { region, keys } => (region, keys),
        };
        let identity = keys.as_ref().clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(SERVICE)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|failure| unsigned(&failure))?
            .into();
        let signed = headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let hash = SignableBody::Precomputed(hash(body));
        let request = SignableRequest::new("POST", url, signed, hash)
            .map_err(|failure| unsigned(&failure))?;
        let (instructions, _) = sign(request, &parameters)
            .map_err(|failure| unsigned(&failure))?
            .into_parts();
        for (name, value) in instructions.headers() {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|failure| unsigned(&failure))?;
            let mut value = HeaderValue::from_str(value).map_err(|failure| unsigned(&failure))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Bearer(_) => "Bearer",
            Self::AccessKey { .. } => "AccessKey",
        })
    }
}

/// Hash of a body, without copying it.
fn hash(body: &Payload) -> String {
    let mut hash = Sha256::new();
    for piece in body.pieces() {
        hash.update(piece);
    }
    let hash = hash.finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unsigned(failure: &dyn std::error::Error) -> ModelError {
    ModelError::new(
        ErrorClass::Auth,
        format!("the request cannot be signed: {failure}"),
    )
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
