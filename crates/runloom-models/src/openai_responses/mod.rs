//! OpenAI's Responses API, as OpenAI and Azure serve it.
//!
//! Nothing is stored at the vendor (`store: false`): the output items of a turn, encrypted reasoning included, travel as
//! opaque provider state and are replayed verbatim to the same model.

mod parts;
pub(crate) mod request;
pub(crate) mod stream;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use runloom_ports::file::FileSupport;
use runloom_ports::model::{
    Capabilities, Model, ModelError, ModelRequest, ModelStream, StructuredSupport,
};
use runloom_protocol::outcome::{EnforcementMechanism, StructuredOutput};
use runloom_protocol::spec::Enforcement;

use crate::error;
use crate::http::{Http, HttpCall, secret_header};
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use crate::sse::Sse;
use request::Target;

/// Who may read the provider state; the number changes with its format.
const OWNER: &str = "openai-responses/1";

#[derive(Debug)]
struct OpenAiResponses {
    http: Http,
    url: String,
    headers: HeaderMap,
    target: Target,
    files: FileSupport,
}

/// The vendor itself, when it is named.
const VENDOR: &str = "https://api.openai.com/";

/// Opens a model of OpenAI itself, or of a server that speaks its Responses API.
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
            let value = HeaderValue::from_str(text)
                .map_err(|_| provider.invalid(format!("`{key}` is not a header's value")))?;
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
            // A server of one's own must not be sent anywhere by clients.
            urls: match provider.base_url.as_deref() {
                Some(url) if !url.starts_with(VENDOR) => &[],
                _ => parts::OPENAI.urls,
            },
            ..parts::OPENAI
        },
    }))
}

/// Opens a model of an Azure resource.
///
/// `base_url` is the resource (`https://NAME.openai.azure.com`), its v1 path (`…/openai/v1`) or a deployment
/// (`…/openai/deployments/NAME`); `api_version` is needed for all but the v1 path; `deployment` is the name of the model
/// there, when it is not the model's id.
pub(crate) fn open_azure(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&["deployment", "api_version"])?;
    if provider.base_url.is_none() {
        return Err(provider.invalid(
            "`base_url` is missing: it is the resource's address, like https://NAME.openai.azure.com"
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

/// Whether a call still carries the output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    AsAsked,
    Dropped,
}

impl OpenAiResponses {
    async fn post(
        &self,
        request: &ModelRequest,
        schema: Schema,
    ) -> Result<ModelStream, ModelError> {
        let body = request::encode(&self.target, request, schema)?;
        let decoder = stream::Decoder::new(
            &self.target.state_model,
            request.reasoning_level.unwrap_or(0) > 0,
            structured(request, schema),
        );
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

fn structured(request: &ModelRequest, schema: Schema) -> StructuredOutput {
    match (request.output_schema.is_some(), schema) {
        (false, _) => StructuredOutput::default(),
        (true, Schema::AsAsked) => StructuredOutput {
            schema_requested: true,
            schema_enforced: true,
            enforcement_mechanism: EnforcementMechanism::NativeSchema,
            unconstrained_fallback_occurred: false,
        },
        (true, Schema::Dropped) => StructuredOutput {
            schema_requested: true,
            unconstrained_fallback_occurred: true,
            ..StructuredOutput::default()
        },
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
        let refused = match self.post(&request, Schema::AsAsked).await {
            Ok(stream) => return Ok(stream),
            Err(refused) => refused,
        };
        match &request.output_schema {
            Some(schema) if error::refuses_schema(&refused) => match schema.enforcement {
                Enforcement::Strict => Err(error::schema_rejected(refused)),
                Enforcement::BestEffort => self.post(&request, Schema::Dropped).await,
            },
            _ => Err(refused),
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
    fn every_form_of_an_azure_address_is_understood() {
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
    fn a_missing_key_or_address_is_said_when_opening() {
        let model = ModelSettings::default();
        let error = open(&ProviderSettings::default(), &model).unwrap_err();
        assert!(error.to_string().contains("api_key_env"));
        let error = open_azure(&ProviderSettings::default(), &model).unwrap_err();
        assert!(error.to_string().contains("base_url"));
    }

    #[test]
    fn the_decoder_is_steady_on_damaged_answers() {
        crate::decode::properties::hold_for("openai_responses", || {
            let decoder = stream::Decoder::new("m", true, StructuredOutput::default());
            crate::decode::Decoding::new(Box::<Sse>::default(), Box::new(decoder))
        });
    }
}
