//! OpenAI's Responses API, at OpenAI and Azure.
//!
//! Nothing is stored at the vendor (`store: false`). The output items of a turn, with encrypted reasoning, are kept as
//! opaque provider state and replayed verbatim to the same model.

mod parts;
mod request;
mod stream;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use runloom_ports::file::FileSupport;
use runloom_ports::model::{
    Capabilities, Model, ModelError, ModelRequest, ModelStream, StructuredSupport,
};
use runloom_protocol::outcome::StructuredOutput;

use crate::codec::Codec;
use crate::decode::Decoding;
use crate::http::{Http, secret_header};
use crate::http_call::HttpCall;
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use crate::sse::Sse;
use crate::structured;
use request::Target;
use stream::{Decoder, RequestInfo};

/// Owner of provider state: API and format version.
const OWNER: &str = "openai-responses/1";

/// The encoder and the decoder, without HTTP.
pub(crate) const CODEC: Codec = Codec {
    api: "openai_responses",
    decoding: |options| {
        let decoder = Decoder::new(RequestInfo {
            model: "test".to_owned(),
            show_thinking: options.show_thinking,
            structured: StructuredOutput::default(),
        });
        Decoding::new(Box::<Sse>::default(), Box::new(decoder))
    },
    encode: |settings, request| {
        let target = Target::new(settings, &settings.vendor_model_id);
        request::encode(&target, request)
    },
};

#[derive(Debug)]
struct OpenAiResponses {
    http: Http,
    url: String,
    headers: HeaderMap,
    target: Target,
    files: FileSupport,
}

/// Addresses of the vendor begin with this.
const VENDOR_URL: &str = "https://api.openai.com/";

/// Opens a model of OpenAI, or of a server with a compatible Responses API.
pub(crate) fn open(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&["organization", "project"])?;
    let mut headers = HeaderMap::new();
    if provider.base_url.is_none() || provider.api_key.is_some() {
        let key = secret_header(provider, "Bearer ", provider.require_key()?)?;
        headers.insert(AUTHORIZATION, key);
    }
    for (key, header) in [
        ("organization", "openai-organization"),
        ("project", "openai-project"),
    ] {
        if let Some(text) = provider.extra_text(key)? {
            let value = HeaderValue::from_str(text).map_err(|_| {
                provider.invalid(format!(
                    "`{key}` has characters that are not allowed in an HTTP header"
                ))
            })?;
            headers.insert(HeaderName::from_static(header), value);
        }
    }
    Ok(Arc::new(OpenAiResponses {
        http: Http::open(provider)?,
        url: format!(
            "{}/responses",
            provider.base_url_or("https://api.openai.com/v1")?
        ),
        headers,
        target: Target::new(model, &model.vendor_model_id),
        files: FileSupport {
            // Clients must not make a private server fetch URLs.
            urls: match provider.base_url.as_deref() {
                Some(url) if !url.starts_with(VENDOR_URL) => &[],
                _ => parts::OPENAI.urls,
            },
            ..parts::OPENAI
        },
    }))
}

/// Opens a model of an Azure resource.
///
/// `base_url` is the resource (`https://NAME.openai.azure.com`), its v1 path (`…/openai/v1`) or a deployment
/// (`…/openai/deployments/NAME`). `api_version` is required for all but the v1 path. `deployment` is the name of the
/// model there, if it differs from the model's id.
pub(crate) fn open_azure(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&["deployment", "api_version"])?;
    if provider.base_url.is_none() {
        return Err(provider.invalid(
            "`base_url` is missing: set the address of the resource, like https://NAME.openai.azure.com"
                .to_owned(),
        ));
    }
    let mut headers = HeaderMap::new();
    let has_token = provider
        .headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("authorization"));
    if provider.api_key.is_some() || !has_token {
        let key = secret_header(provider, "", provider.require_key()?)?;
        headers.insert(HeaderName::from_static("api-key"), key);
    }
    let deployment = provider.extra_text("deployment")?;
    Ok(Arc::new(OpenAiResponses {
        http: Http::open(provider)?,
        url: azure_url(provider)?,
        headers,
        target: Target::new(model, deployment.unwrap_or(&model.vendor_model_id)),
        files: parts::AZURE,
    }))
}

fn azure_url(provider: &ProviderSettings) -> Result<String, OpenError> {
    let base = provider.base_url_or("")?;
    let version = provider.extra_text("api_version")?;
    if let Some(version) = version
        && !version
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
    {
        return Err(provider.invalid(format!(
            "`api_version` must look like 2025-04-01-preview, not `{version}`"
        )));
    }
    let path = match (base.contains("/openai"), version) {
        (true, _) => "/responses",
        (false, Some(_)) => "/openai/responses",
        (false, None) => "/openai/v1/responses",
    };
    let query = version.map_or_else(String::new, |version| format!("?api-version={version}"));
    Ok(format!("{base}{path}{query}"))
}

impl OpenAiResponses {
    async fn send(
        &self,
        request: &ModelRequest,
        structured: StructuredOutput,
    ) -> Result<ModelStream, ModelError> {
        let body = request::encode(&self.target, request)?;
        let decoder = Decoder::new(RequestInfo {
            model: self.target.state_model.clone(),
            show_thinking: request.reasoning_level.unwrap_or(0) > 0,
            structured,
        });
        let call = HttpCall {
            url: self.url.clone(),
            headers: self.headers.clone(),
            body,
        };
        self.http
            .stream(call, Box::<Sse>::default(), Box::new(decoder))
            .await
    }
}

#[async_trait]
impl Model for OpenAiResponses {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reasoning: self.target.reasons,
            structured: StructuredSupport::Native,
            files: self.files,
        }
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let structured = match &request.output_schema {
            Some(_) => structured::NATIVE,
            None => StructuredOutput::default(),
        };
        match self.send(&request, structured).await {
            Err(failure) => {
                let request = structured::without_rejected_schema(failure, &request)?;
                self.send(&request, structured::SCHEMA_REJECTED).await
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn azure(base: &str, version: Option<&str>) -> String {
        let provider = ProviderSettings {
            base_url: Some(base.to_owned()),
            extra: version
                .map(|version| ("api_version".to_owned(), json!(version)))
                .into_iter()
                .collect::<Map<_, _>>(),
            ..Default::default()
        };
        azure_url(&provider).unwrap()
    }

    #[test]
    fn accepts_every_form_of_an_azure_address() {
        let root = "https://n.openai.azure.com";
        assert_eq!(azure(root, None), format!("{root}/openai/v1/responses"));
        assert_eq!(
            azure(root, Some("2025-04-01-preview")),
            format!("{root}/openai/responses?api-version=2025-04-01-preview")
        );
        assert_eq!(
            azure(&format!("{root}/openai/v1/"), None),
            format!("{root}/openai/v1/responses")
        );
        assert_eq!(
            azure(&format!("{root}/openai/deployments/d"), Some("2025-04-01")),
            format!("{root}/openai/deployments/d/responses?api-version=2025-04-01")
        );
    }

    #[test]
    fn rejects_a_missing_key_or_address() {
        let model = ModelSettings::default();
        let error = open(&ProviderSettings::default(), &model).unwrap_err();
        assert!(error.to_string().contains("api_key_env"));
        let error = open_azure(&ProviderSettings::default(), &model).unwrap_err();
        assert!(error.to_string().contains("base_url"));
    }
}
