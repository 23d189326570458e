//! The models that a provider lists over its API.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use runloom_ports::secret::Secret;
use runloom_protocol::definition::ProviderKind;
use serde::Deserialize;

use crate::clients;
use crate::error;
use crate::http::{Http, secret_header};
use crate::response::innermost_cause;
use crate::settings::{OpenError, ProviderSettings};

/// How long a list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum bytes of a list.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of models that are taken from a list.
const MAX_MODELS: usize = 1_000;

/// A model of a provider's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// The vendor's name of the model.
    pub id: String,
    /// The display name.
    pub label: Option<String>,
    /// The size of the context window in tokens.
    pub context_window: Option<u64>,
    /// The output tokens of one turn.
    pub max_output_tokens: Option<u64>,
    /// When the model was created, in seconds since 1970; 0 if the list does not say.
    pub created: u64,
}

/// Why a provider's models cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The kind has no list.
    #[error("a provider of the kind `{0}` does not list its models: name them in `models`")]
    Unsupported(&'static str),
    /// The settings are not usable.
    #[error(transparent)]
    Settings(#[from] OpenError),
    /// No response.
    #[error("{host} cannot be reached{cause}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// The innermost cause, as the end of the sentence.
        cause: String,
    },
    /// A response that is not a list.
    #[error("{host} answered {status}: {message}")]
    Refused {
        /// Host and port.
        host: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the response.
        message: String,
    },
}

/// Whether providers of this kind list their models.
#[must_use]
pub fn can_list(kind: ProviderKind) -> bool {
    match kind {
        ProviderKind::Openai
        | ProviderKind::OpenaiCompatible
        | ProviderKind::Xai
        | ProviderKind::Anthropic
        | ProviderKind::Google => true,
        ProviderKind::AzureOpenai | ProviderKind::Bedrock | ProviderKind::Demo => false,
    }
}

/// The models of a provider, as its API lists them. Models that cannot take part in a conversation are left out.
///
/// # Errors
/// When the kind has no list, the settings are not usable, or the provider cannot be reached or refuses.
pub async fn list(
    kind: ProviderKind,
    provider: &ProviderSettings,
) -> Result<Vec<ListedModel>, ListError> {
    let request = request(kind, provider)?;
    let host = host_of(&request.url);
    let unreachable = |cause: String| ListError::Unreachable {
        host: host.clone(),
        cause,
    };
    let client = clients::shared(provider)?;
    let mut headers = request.headers;
    headers.extend(Http::open(provider)?.configured_headers());
    let call = async {
        let response = client.get(&request.url).headers(headers).send().await?;
        let status = response.status();
        let body = read(response.bytes_stream()).await?;
        Ok::<_, reqwest::Error>((status, body))
    };
    let (status, body) = match tokio::time::timeout(LIST_TIMEOUT, call).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(failure)) => return Err(unreachable(innermost_cause(&failure))),
        Err(_) => return Err(unreachable(format!(" within {LIST_TIMEOUT:?}"))),
    };
    let models = status.is_success().then(|| parse(kind, &body)).flatten();
    models.ok_or_else(|| ListError::Refused {
        host,
        status: status.as_u16(),
        message: shown(&body, provider.api_key.as_ref()),
    })
}

struct ListRequest {
    url: String,
    headers: HeaderMap,
}

fn request(kind: ProviderKind, provider: &ProviderSettings) -> Result<ListRequest, ListError> {
    let mut headers = HeaderMap::new();
    let mut authorize = |name: HeaderName, prefix: &str| {
        if let Some(key) = &provider.api_key {
            headers.insert(name, secret_header(provider, prefix, key)?);
        }
        Ok::<_, OpenError>(())
    };
    let url = match kind {
        ProviderKind::Openai | ProviderKind::Xai | ProviderKind::OpenaiCompatible => {
            let vendor = match kind {
                ProviderKind::Openai => "https://api.openai.com/v1",
                ProviderKind::Xai => "https://api.x.ai/v1",
                _ => "",
            };
            authorize(AUTHORIZATION, "Bearer ")?;
            format!("{}/models", provider.base_url_or(vendor)?)
        }
        ProviderKind::Anthropic => {
            authorize(HeaderName::from_static("x-api-key"), "")?;
            let version = HeaderValue::from_static(crate::anthropic::VERSION);
            headers.insert(HeaderName::from_static("anthropic-version"), version);
            let base = provider.base_url_or(crate::anthropic::VENDOR_URL)?;
            let base = base.strip_suffix("/v1").unwrap_or(&base);
            format!("{base}/v1/models?limit={MAX_MODELS}")
        }
        ProviderKind::Google => {
            authorize(HeaderName::from_static("x-goog-api-key"), "")?;
            let base = provider.base_url_or(crate::gemini::VENDOR_URL)?;
            let after_scheme = base
                .split_once("://")
                .map_or(base.as_str(), |(_, rest)| rest);
            let version = if after_scheme.contains('/') {
                ""
            } else {
                "/v1beta"
            };
            format!("{base}{version}/models?pageSize={MAX_MODELS}")
        }
        ProviderKind::AzureOpenai | ProviderKind::Bedrock | ProviderKind::Demo => {
            return Err(ListError::Unsupported(kind.as_str()));
        }
    };
    Ok(ListRequest { url, headers })
}

async fn read(
    chunks: impl futures_util::Stream<Item = reqwest::Result<Bytes>>,
) -> reqwest::Result<Vec<u8>> {
    let mut chunks = std::pin::pin!(chunks);
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        let left = MAX_LIST_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if body.len() == MAX_LIST_BYTES {
            break;
        }
    }
    Ok(body)
}

/// Lists of OpenAI, Anthropic, xAI and compatible servers.
#[derive(Deserialize)]
struct DataList {
    data: Vec<DataModel>,
}

#[derive(Deserialize)]
struct DataModel {
    id: String,
    display_name: Option<String>,
    /// vLLM: the context window.
    max_model_len: Option<u64>,
    created: Option<serde_json::Number>,
}

/// Google's list.
#[derive(Deserialize)]
struct GoogleList {
    models: Vec<GoogleModel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoogleModel {
    name: String,
    display_name: Option<String>,
    input_token_limit: Option<u64>,
    output_token_limit: Option<u64>,
    #[serde(default)]
    supported_generation_methods: Vec<String>,
}

fn parse(kind: ProviderKind, body: &[u8]) -> Option<Vec<ListedModel>> {
    let models: Vec<ListedModel> = if kind == ProviderKind::Google {
        let list: GoogleList = serde_json::from_slice(body).ok()?;
        let talks = |model: &GoogleModel| {
            let mut methods = model.supported_generation_methods.iter();
            methods.any(|method| method == "generateContent")
        };
        let listed = |model: GoogleModel| ListedModel {
            id: model.name.trim_start_matches("models/").to_owned(),
            label: model.display_name,
            context_window: model.input_token_limit,
            max_output_tokens: model.output_token_limit,
            created: 0,
        };
        let models = list.models.into_iter().filter(talks);
        models.take(MAX_MODELS).map(listed).collect()
    } else {
        let list: DataList = serde_json::from_slice(body).ok()?;
        let listed = |model: DataModel| ListedModel {
            id: model.id,
            label: model.display_name,
            context_window: model.max_model_len,
            max_output_tokens: None,
            created: model.created.and_then(|time| time.as_u64()).unwrap_or(0),
        };
        let models = list.data.into_iter().filter(|model| talks(&model.id));
        models.take(MAX_MODELS).map(listed).collect()
    };
    let usable = |model: &ListedModel| !model.id.trim().is_empty() && model.id.len() <= 256;
    Some(models.into_iter().filter(usable).collect())
}

/// Whether a model takes part in conversations, as far as its name says.
fn talks(id: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "embed",
        "whisper",
        "tts",
        "dall-e",
        "moderation",
        "transcribe",
        "realtime",
        "audio",
        "image",
        "sora",
        "davinci",
        "babbage",
    ];
    let id = id.to_lowercase();
    !OTHERS.iter().any(|word| id.contains(word))
}

/// Host and port of a URL, without user and password.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    host.to_owned()
}

fn shown(body: &[u8], key: Option<&Secret>) -> String {
    let text = error::excerpt(body);
    match key {
        Some(key) if !key.expose().is_empty() => text.replace(key.expose(), "***"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(kind: ProviderKind, body: &str) -> Option<Vec<String>> {
        let models = parse(kind, body.as_bytes())?;
        Some(models.into_iter().map(|model| model.id).collect())
    }

    #[test]
    fn reads_lists_of_compatible_servers() {
        let body = r#"{"object":"list","data":[{"id":"llama4:8b","object":"model","created":1.5},
            {"id":"nomic-embed-text","object":"model"}]}"#;
        let models = ids(ProviderKind::OpenaiCompatible, body);
        assert_eq!(models.unwrap(), ["llama4:8b"]);
        assert_eq!(ids(ProviderKind::Openai, "<html>"), None);
    }

    #[test]
    fn reads_googles_list() {
        let body = r#"{"models":[
            {"name":"models/gemini-3-pro","inputTokenLimit":1000000,"supportedGenerationMethods":["generateContent"]},
            {"name":"models/embedding-001","supportedGenerationMethods":["embedContent"]}]}"#;
        assert_eq!(ids(ProviderKind::Google, body).unwrap(), ["gemini-3-pro"]);
    }

    #[test]
    fn names_the_host_without_credentials() {
        assert_eq!(host_of("http://u:p@h:1/v1/models"), "h:1");
    }
}
