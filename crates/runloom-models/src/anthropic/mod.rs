//! Anthropic's Messages API.
//!
//! Reading order: `dialect` (what a model accepts), `request` with `history` and `files` (the encoder), `stream` (the
//! decoder), `wire` (the JSON of both). Bedrock serves the same API at other endpoints and uses all of it.

mod dialect;
pub(crate) mod files;
mod history;
pub(crate) mod request;
pub(crate) mod stream;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use runloom_ports::file::FileSupport;
use runloom_ports::model::{
    Capabilities, Model, ModelError, ModelRequest, ModelStream, StructuredSupport,
};

use self::dialect::{Dialect, ThinkingMode};
use self::request::{Encoded, Endpoint, RequestInfo};
use self::stream::Decoder;
use crate::codec::Codec;
use crate::decode::Decoding;
use crate::http::{Http, secret_header};
use crate::http_call::HttpCall;
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use crate::sse::Sse;
use crate::structured;

/// Owner of provider state: API and format version.
const OWNER: &str = "anthropic/1";

/// The default of `anthropic_version`, which every model and gateway accepts.
pub(crate) const VERSION: &str = "2023-06-01";

pub(crate) const VENDOR_URL: &str = "https://api.anthropic.com";

/// The encoder and the decoder, without HTTP.
pub(crate) const CODEC: Codec = Codec {
    api: "anthropic",
    decoding: |options| {
        let decoder = Decoder::new(RequestInfo::for_test(options));
        Decoding::new(Box::<Sse>::default(), Box::new(decoder))
    },
    encode: |settings, request| {
        let model = &settings.vendor_model_id;
        Ok(request::encode(Endpoint::Anthropic { model }, request)?.body)
    },
};

#[derive(Debug)]
struct Anthropic {
    http: Http,
    url: String,
    headers: HeaderMap,
    model: ModelSettings,
}

/// Opens a model of Anthropic's own API.
pub(crate) fn open(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&["anthropic_version", "anthropic_beta"])?;
    let base = provider.base_url_or(VENDOR_URL)?;
    let mut headers = HeaderMap::new();
    // A private gateway may need no key, or another header.
    if provider.base_url.is_none() || provider.api_key.is_some() {
        let key = secret_header(provider, "", provider.require_key()?)?;
        headers.insert(HeaderName::from_static("x-api-key"), key);
    }
    let version = provider.extra_text("anthropic_version")?.unwrap_or(VERSION);
    headers.insert(
        HeaderName::from_static("anthropic-version"),
        text_header(provider, "anthropic_version", version)?,
    );
    if let Some(beta) = provider.extra_text("anthropic_beta")? {
        headers.insert(
            HeaderName::from_static("anthropic-beta"),
            text_header(provider, "anthropic_beta", beta)?,
        );
    }
    Ok(Arc::new(Anthropic {
        http: Http::open(provider)?,
        url: format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(&base)),
        headers,
        model: model.clone(),
    }))
}

/// Capabilities of a Claude model, at any endpoint.
pub(crate) fn capabilities(model: &ModelSettings, files: FileSupport) -> Capabilities {
    let dialect = Dialect::of(&model.vendor_model_id);
    Capabilities {
        reasoning: model
            .reasoning
            .unwrap_or(dialect.thinking != ThinkingMode::Unknown),
        structured: if dialect.forced_tools {
            StructuredSupport::SyntheticTool
        } else {
            StructuredSupport::Native
        },
        files,
    }
}

fn text_header(
    provider: &ProviderSettings,
    key: &str,
    value: &str,
) -> Result<HeaderValue, OpenError> {
    HeaderValue::from_str(value).map_err(|_| {
        provider.invalid(format!(
            "`{key}` has characters that are not allowed in an HTTP header"
        ))
    })
}

#[async_trait]
impl Model for Anthropic {
    fn capabilities(&self) -> Capabilities {
        capabilities(&self.model, files::ANTHROPIC)
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let request = request::for_model(request, &self.model);
        match self.send(request::encode(self.endpoint(), &request)?).await {
            Err(failure) => {
                let request = structured::without_rejected_schema(failure, &request)?;
                self.send(request::encode(self.endpoint(), &request)?.without_schema())
                    .await
            }
            outcome => outcome,
        }
    }
}

impl Anthropic {
    fn endpoint(&self) -> Endpoint<'_> {
        Endpoint::Anthropic {
            model: &self.model.vendor_model_id,
        }
    }

    async fn send(&self, encoded: Encoded) -> Result<ModelStream, ModelError> {
        let call = HttpCall {
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: encoded.body,
        };
        let decoder = Decoder::new(encoded.info);
        self.http
            .stream(call, Box::new(Sse::default()), Box::new(decoder))
            .await
    }
}
