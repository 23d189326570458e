//! Providers that `runloom dev` finds in the environment, and the one of `--base-url`.

use runloom_ports::secret::Secret;
use runloom_protocol::definition::ProviderKind;
use serde_json::{Map, Value};

use crate::app::model_lists::ModelList;
use crate::config::{Environment, ModelConfig, ProviderConfig};

/// The port of Ollama when `OLLAMA_HOST` names none.
const OLLAMA_PORT: &str = "11434";

/// A vendor whose key is in a variable.
struct Vendor {
    variable: &'static str,
    id: &'static str,
    kind: ProviderKind,
}

const VENDORS: [Vendor; 4] = [
    Vendor {
        variable: "OPENAI_API_KEY",
        id: "openai",
        kind: ProviderKind::Openai,
    },
    Vendor {
        variable: "ANTHROPIC_API_KEY",
        id: "anthropic",
        kind: ProviderKind::Anthropic,
    },
    Vendor {
        variable: "GEMINI_API_KEY",
        id: "google",
        kind: ProviderKind::Google,
    },
    Vendor {
        variable: "XAI_API_KEY",
        id: "xai",
        kind: ProviderKind::Xai,
    },
];

/// Models of Bedrock, which has no list that `dev` can read; the region's prefix stands before each.
const BEDROCK_MODELS: [&str; 2] = [
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "anthropic.claude-haiku-4-5-20251001-v1:0",
];

/// Names with which the default model of a vendor begins, in order of preference.
const PREFERRED: [&str; 6] = [
    "gpt-5.5",
    "gpt-5",
    "claude-sonnet",
    "gemini-3-pro",
    "gemini-2.5-pro",
    "grok-4",
];

/// The providers, and where each was found.
#[derive(Debug, Default)]
pub(super) struct FoundProviders {
    pub(super) providers: Vec<ProviderConfig>,
    /// `(provider id, place)`.
    places: Vec<(String, String)>,
    /// Variables that are set but not enough.
    incomplete: Vec<String>,
}

impl FoundProviders {
    /// The server of `--base-url`, with the key in `key_variable`.
    pub(super) fn add_local(
        &mut self,
        url: &str,
        key_variable: Option<&str>,
        environment: &Environment,
    ) -> Result<(), String> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(format!(
                "--base-url: `{url}` must start with http:// or https://, like http://127.0.0.1:11434/v1"
            ));
        }
        let key = match key_variable {
            Some(variable) => Some(environment.secret(variable)?.ok_or_else(|| {
                format!("--api-key-env: the environment variable {variable} is not set")
            })?),
            None => None,
        };
        let provider = listing("local", ProviderKind::OpenaiCompatible);
        self.add(
            "--base-url".to_owned(),
            ProviderConfig {
                base_url: Some(url.trim_end_matches('/').to_owned()),
                api_key_env: key_variable.map(str::to_owned),
                api_key: key,
                ..provider
            },
        );
        Ok(())
    }

    /// The providers of the environment.
    pub(super) fn add_from(&mut self, environment: &Environment) {
        for vendor in &VENDORS {
            if let Some(key) = environment.get(vendor.variable) {
                let provider = ProviderConfig {
                    api_key_env: Some(vendor.variable.to_owned()),
                    api_key: Some(Secret::new(key)),
                    ..listing(vendor.id, vendor.kind)
                };
                self.add(vendor.variable.to_owned(), provider);
            }
        }
        if let Some(host) = environment.get("OLLAMA_HOST") {
            let provider = ProviderConfig {
                base_url: Some(ollama_url(host)),
                ..listing("ollama", ProviderKind::OpenaiCompatible)
            };
            self.add("OLLAMA_HOST".to_owned(), provider);
        }
        self.add_bedrock(environment);
    }

    fn add_bedrock(&mut self, environment: &Environment) {
        let variable = "AWS_ACCESS_KEY_ID";
        let (Some(id), Some(secret)) = (
            environment.get(variable),
            environment.get("AWS_SECRET_ACCESS_KEY"),
        ) else {
            return;
        };
        let region = environment.get("AWS_REGION");
        let Some(region) = region.or_else(|| environment.get("AWS_DEFAULT_REGION")) else {
            let missing = format!("bedrock: {variable} is set, but AWS_REGION is not");
            self.incomplete.push(missing);
            return;
        };
        let geography = match region.split('-').next() {
            Some("eu") => "eu",
            Some("ap") => "apac",
            _ => "us",
        };
        let mut extra = Map::from_iter([
            ("region".to_owned(), Value::from(region)),
            ("access_key_id".to_owned(), Value::from(id)),
            ("secret_access_key".to_owned(), Value::from(secret)),
        ]);
        if let Some(token) = environment.get("AWS_SESSION_TOKEN") {
            extra.insert("session_token".to_owned(), Value::from(token));
        }
        let model = |name: &&str| ModelConfig::named(&format!("{geography}.{name}"));
        let provider = ProviderConfig {
            kind: ProviderKind::Bedrock,
            models: BEDROCK_MODELS.iter().map(model).collect(),
            extra,
            ..ProviderConfig::demo("bedrock")
        };
        self.add(format!("{variable}, {region}"), provider);
    }

    fn add(&mut self, place: String, provider: ProviderConfig) {
        self.places.push((provider.id.clone(), place));
        self.providers.push(provider);
    }

    /// One short line for each provider, with the outcome of its list.
    pub(super) fn describe(&self, lists: &[ModelList]) -> Vec<String> {
        let described = self.providers.iter().map(|provider| {
            let id = &provider.id;
            let place = self.places.iter().find(|(known, _)| known == id);
            let place = place.map_or("", |(_, place)| place);
            let list = lists.iter().find(|list| list.provider == *id);
            match list.map(|list| &list.outcome) {
                Some(Err(error)) => format!("{id} ({place}): no models: {error}"),
                Some(Ok(count)) => format!("{id} ({place}): {count} models"),
                None => format!("{id} ({place}): {} models", provider.models.len()),
            }
        });
        described.chain(self.incomplete.iter().cloned()).collect()
    }
}

/// A provider that lists its models.
fn listing(id: &str, kind: ProviderKind) -> ProviderConfig {
    ProviderConfig {
        kind,
        lists_models: true,
        allow_unlisted_models: true,
        ..ProviderConfig::demo(id)
    }
}

/// The models of a provider, the one that suits as default first.
pub(super) fn preferred_first(provider: &ProviderConfig) -> impl Iterator<Item = &ModelConfig> {
    let rank = |model: &ModelConfig| {
        let is_named = |name: &&str| model.id.starts_with(*name);
        PREFERRED.iter().position(is_named).unwrap_or(usize::MAX)
    };
    let mut models: Vec<&ModelConfig> = provider.models.iter().collect();
    models.sort_by_key(|model| rank(model));
    models.into_iter()
}

/// The address of Ollama's compatible API from `OLLAMA_HOST`: a host, `host:port` or a URL.
fn ollama_url(host: &str) -> String {
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let authority = rest.trim_end_matches('/');
    // A server that listens everywhere is reached at loopback.
    let authority = match authority.strip_prefix("0.0.0.0") {
        Some(port) => format!("127.0.0.1{port}"),
        None => authority.to_owned(),
    };
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    match has_port {
        true => format!("{scheme}://{authority}/v1"),
        false => format!("{scheme}://{authority}:{OLLAMA_PORT}/v1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form_of_ollamas_host() {
        for (host, url) in [
            ("127.0.0.1", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:11500", "http://127.0.0.1:11500/v1"),
            (
                "https://ollama.example:443/",
                "https://ollama.example:443/v1",
            ),
            ("box.local", "http://box.local:11434/v1"),
        ] {
            assert_eq!(ollama_url(host), url);
        }
    }

    #[test]
    fn finds_every_documented_provider() {
        let environment = [
            ("OPENAI_API_KEY", "a"),
            ("ANTHROPIC_API_KEY", "b"),
            ("GEMINI_API_KEY", "c"),
            ("XAI_API_KEY", "d"),
            ("OLLAMA_HOST", "127.0.0.1"),
            ("AWS_ACCESS_KEY_ID", "e"),
            ("AWS_SECRET_ACCESS_KEY", "f"),
            ("AWS_REGION", "eu-central-1"),
        ]
        .into_iter()
        .collect();
        let mut found = FoundProviders::default();
        found.add_from(&environment);
        let ids: Vec<&str> = found
            .providers
            .iter()
            .map(|known| known.id.as_str())
            .collect();
        assert_eq!(
            ids,
            ["openai", "anthropic", "google", "xai", "ollama", "bedrock"]
        );
        let bedrock = &found.providers[5];
        assert!(bedrock.models[0].id.starts_with("eu.anthropic."));
        assert!(found.describe(&[]).iter().all(|line| line.len() < 80));
    }

    #[test]
    fn names_a_missing_region() {
        let environment = [("AWS_ACCESS_KEY_ID", "e"), ("AWS_SECRET_ACCESS_KEY", "f")]
            .into_iter()
            .collect();
        let mut found = FoundProviders::default();
        found.add_from(&environment);
        assert!(found.providers.is_empty());
        assert!(found.describe(&[])[0].contains("AWS_REGION is not"));
    }
}
