//! Google's Gemini API.
//!
//! Reading order: `dialect` (what a model accepts), `request` with `history` (the encoder), `stream` (the decoder),
//! `wire` (the JSON of both).

mod dialect;
mod history;
pub(crate) mod request;
pub(crate) mod stream;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName};
use runloom_ports::model::{
    Capabilities, Model, ModelError, ModelRequest, ModelStream, StructuredSupport,
};

use self::dialect::{Dialect, ThinkingMode};
use self::request::{Encoded, RequestInfo};
use self::stream::Decoder;
use crate::codec::Codec;
use crate::decode::Decoding;
use crate::http::{Http, secret_header};
use crate::http_call::HttpCall;
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use crate::sse::Sse;
use crate::structured;

/// Owner of provider state: API and format version.
const OWNER: &str = "gemini/1";

pub(crate) const VENDOR_URL: &str = "https://generativelanguage.googleapis.com";

/// The version of the API if the base URL names none.
const VERSION: &str = "v1beta";

/// The encoder and the decoder, without HTTP.
pub(crate) const CODEC: Codec = Codec {
    api: "gemini",
    decoding: |options| {
        let decoder = Decoder::new(RequestInfo::for_test(options));
        Decoding::new(Box::<Sse>::default(), Box::new(decoder))
    },
    encode: |settings, request| Ok(request::encode(settings, request)?.body),
};

#[derive(Debug)]
struct Gemini {
    http: Http,
    url: String,
    headers: HeaderMap,
    model: ModelSettings,
}

/// Opens a Gemini model.
pub(crate) fn open(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&[])?;
    let mut headers = HeaderMap::new();
    // A private gateway may need no key, or another header.
    if provider.base_url.is_none() || provider.api_key.is_some() {
        let key = secret_header(provider, "", provider.require_key()?)?;
        headers.insert(HeaderName::from_static("x-goog-api-key"), key);
    }
    Ok(Arc::new(Gemini {
        http: Http::open(provider)?,
        url: url(&provider.base_url_or(VENDOR_URL)?, &model.vendor_model_id),
        headers,
        model: model.clone(),
    }))
}

fn url(base: &str, model: &str) -> String {
    let after_scheme = base.split_once("://").map_or(base, |(_, rest)| rest);
    let version = if after_scheme.contains('/') {
        String::new()
    } else {
        format!("/{VERSION}")
    };
    let kind = if model.contains('/') { "" } else { "models/" };
    format!("{base}{version}/{kind}{model}:streamGenerateContent?alt=sse")
}

#[async_trait]
impl Model for Gemini {
    fn capabilities(&self) -> Capabilities {
        let dialect = Dialect::of(&self.model.vendor_model_id);
        Capabilities {
            reasoning: self
                .model
                .reasoning
                .unwrap_or(dialect.thinking != ThinkingMode::Unknown),
            structured: if dialect.schema_with_tools {
                StructuredSupport::Native
            } else {
                StructuredSupport::SyntheticTool
            },
            files: history::FILES,
        }
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        match self.send(request::encode(&self.model, &request)?).await {
            Err(failure) => {
                let request = structured::without_rejected_schema(failure, &request)?;
                self.send(request::encode(&self.model, &request)?.without_schema())
                    .await
            }
            outcome => outcome,
        }
    }
}

impl Gemini {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_the_version_unless_the_base_url_has_a_path() {
        assert_eq!(
            url(VENDOR_URL, "gemini-2.5-pro"),
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
        );
        assert_eq!(
            url("http://127.0.0.1:1/v1", "tunedModels/x"),
            "http://127.0.0.1:1/v1/tunedModels/x:streamGenerateContent?alt=sse"
        );
    }
}
