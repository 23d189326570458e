//! Anthropic's Messages API.
//!
//! Reading order: `dialect` (what a model accepts), `request` and `history` (what is sent), `stream` (what comes back),
//! `wire` (both, as JSON). Bedrock speaks the same language on another road and uses all of it.

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
use self::request::{Encoded, Road};
use self::stream::Decoder;
use crate::http::{Http, HttpCall, secret_header};
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use crate::sse::Sse;
use crate::structured;

/// Whose the stored thinking is: kind and format.
const OWNER: &str = "anthropic/1";

/// The version that every model, gateway and proxy knows; the key `anthropic_version` chooses another.
const VERSION: &str = "2023-06-01";

const VENDOR_URL: &str = "https://api.anthropic.com";

#[derive(Debug)]
struct Anthropic {
    http: Http,
    url: String,
    headers: HeaderMap,
    model: ModelSettings,
}

/// Opens one model of Anthropic's own API.
pub(crate) fn open(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&["anthropic_version", "anthropic_beta"])?;
    let base = provider.base_url_or(VENDOR_URL)?;
    let mut headers = HeaderMap::new();
    // A gateway of one's own may need no key, or take another header.
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

/// What a Claude model can do, whatever the road to it.
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
            "`{key}` has characters that no HTTP header can carry"
        ))
    })
}

#[async_trait]
impl Model for Anthropic {
    fn capabilities(&self) -> Capabilities {
        capabilities(&self.model, files::DIRECT)
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let request = request::for_model(request, &self.model);
        match self.send(request::encode(self.road(), &request)?).await {
            Err(failure) => {
                let request = structured::without_refused_schema(failure, &request)?;
                self.send(request::encode(self.road(), &request)?.fallen_back())
                    .await
            }
            answer => answer,
        }
    }
}

impl Anthropic {
    fn road(&self) -> Road<'_> {
        Road::Direct {
            model: &self.model.vendor_model_id,
        }
    }

    async fn send(&self, encoded: Encoded) -> Result<ModelStream, ModelError> {
        let call = HttpCall {
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: encoded.body,
        };
        let decoder = Decoder::new(encoded.expect);
        self.http
            .stream(call, Box::new(Sse::default()), Box::new(decoder))
            .await
    }
}
