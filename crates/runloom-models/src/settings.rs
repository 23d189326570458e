//! Settings of a provider and of a model, as the configuration has them.

use std::collections::BTreeMap;
use std::fmt;

use runloom_ports::secret::Secret;
use runloom_protocol::spelling;
use serde_json::{Map, Value};

use crate::call_recorder::CallRecorder;

/// Timeouts of one model call, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP connect and TLS handshake.
    pub connect_ms: u64,
    /// From the start of the call to the first byte of the response body.
    pub first_byte_ms: u64,
    /// Longest gap between two chunks of the response body.
    pub idle_ms: u64,
    /// The whole call.
    pub total_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_ms: 10_000,
            first_byte_ms: 60_000,
            idle_ms: 60_000,
            total_ms: 600_000,
        }
    }
}

/// One configured provider.
#[derive(Clone, Default)]
pub struct ProviderSettings {
    /// The id in the configuration; appears in errors.
    pub id: String,
    /// Address of the API; `None` = the vendor's own.
    pub base_url: Option<String>,
    /// The API key.
    pub api_key: Option<Secret>,
    /// Sent with every call; they replace the adapter's own headers of the same name.
    pub headers: BTreeMap<String, String>,
    /// An HTTP or SOCKS proxy; `None` = connect directly. Proxy variables of the environment are not read.
    pub proxy: Option<String>,
    /// Timeouts of each call.
    pub timeouts: Timeouts,
    /// Keys of this provider kind (`deployment`, `region`, …).
    pub extra: Map<String, Value>,
    /// Records each request and response; `None` = nothing is recorded.
    pub recorder: Option<CallRecorder>,
}

impl fmt::Debug for ProviderSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of headers and kind-specific keys may be credentials: only their names are shown.
        formatter
            .debug_struct("ProviderSettings")
            .field("id", &self.id)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key)
            .field("headers", &self.headers.keys())
            .field("timeouts", &self.timeouts)
            .field("extra", &self.extra.keys())
            .finish_non_exhaustive()
    }
}

impl ProviderSettings {
    /// Checks that every kind-specific key is in `known`.
    pub(crate) fn check_extra(&self, known: &[&'static str]) -> Result<(), OpenError> {
        match self.extra.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(OpenError::UnknownKey {
                provider: self.id.clone(),
                key: key.clone(),
                hint: hint(key, known),
            }),
        }
    }

    /// A kind-specific key. If present, it must be a non-empty string.
    pub(crate) fn extra_text(&self, key: &'static str) -> Result<Option<&str>, OpenError> {
        match self.extra.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.invalid(format!("`{key}` must be a non-empty string"))),
        }
    }

    /// The API key, which must be present.
    pub(crate) fn require_key(&self) -> Result<&Secret, OpenError> {
        match &self.api_key {
            Some(key) if !key.expose().is_empty() => Ok(key),
            _ => Err(self.invalid("no API key: set `api_key_env`".to_owned())),
        }
    }

    /// The base URL without a trailing slash; `vendor` if none is configured.
    pub(crate) fn base_url_or(&self, vendor: &str) -> Result<String, OpenError> {
        let base = self.base_url.as_deref().unwrap_or(vendor);
        if base.starts_with("https://") || base.starts_with("http://") {
            Ok(base.trim_end_matches('/').to_owned())
        } else {
            Err(self.invalid(format!(
                "`base_url` must start with https:// or http://, not `{base}`"
            )))
        }
    }

    /// An error about this provider's settings.
    pub(crate) fn invalid(&self, problem: String) -> OpenError {
        OpenError::Invalid {
            provider: self.id.clone(),
            problem,
        }
    }
}

/// One model of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// The vendor's name of the model.
    pub vendor_model_id: String,
    /// Whether it reasons; `None` = the adapter decides by the name.
    pub reasoning: Option<bool>,
    /// Limit of one response if the request names none, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Size of the context window, in tokens.
    pub context_window: Option<u64>,
}

/// Why a model cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A key that is unknown for this kind.
    #[error("provider `{provider}`: unknown key `{key}`{hint}")]
    UnknownKey {
        /// Id of the provider.
        provider: String,
        /// The key.
        key: String,
        /// The nearest known key, as the end of the sentence.
        hint: String,
    },
    /// A value that cannot be used.
    #[error("provider `{provider}`: {problem}")]
    Invalid {
        /// Id of the provider.
        provider: String,
        /// What is wrong, and a valid value.
        problem: String,
    },
}

fn hint(key: &str, known: &[&'static str]) -> String {
    match spelling::suggestion(key, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => "; this kind has no keys of its own".to_owned(),
        None => format!("; known keys: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let settings = ProviderSettings {
            id: "az".into(),
            extra: Map::from_iter([("deployement".to_owned(), Value::from("x"))]),
            ..Default::default()
        };
        let error = settings
            .check_extra(&["api_version", "deployment"])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "provider `az`: unknown key `deployement`; did you mean `deployment`?"
        );
    }

    #[test]
    fn debug_output_shows_no_credential() {
        let settings = ProviderSettings {
            api_key: Some(Secret::new("sk-very-secret")),
            headers: BTreeMap::from([("x-token".to_owned(), "hush".to_owned())]),
            extra: Map::from_iter([("secret_access_key".to_owned(), Value::from("hush"))]),
            ..Default::default()
        };
        let shown = format!("{settings:?}");
        assert!(shown.contains("***") && shown.contains("x-token"));
        assert!(!shown.contains("very-secret") && !shown.contains("hush"));
    }

    #[test]
    fn rejects_a_base_url_without_a_scheme() {
        let settings = ProviderSettings {
            base_url: Some("api.example.com".into()),
            ..Default::default()
        };
        assert!(settings.base_url_or("https://vendor").is_err());
    }
}
