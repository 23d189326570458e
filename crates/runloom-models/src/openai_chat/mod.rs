//! The chat-completions API of xAI and of servers that are compatible with OpenAI's (OpenRouter, Ollama, vLLM, …).
//!
//! The servers differ, so requests use only what all of them accept: no reasoning effort, no output schema. The decoder
//! accepts every known deviation.

mod calls;
mod parts;
mod request;
mod stream;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use runloom_ports::model::{Capabilities, Model, ModelError, ModelRequest, ModelStream};
use runloom_protocol::outcome::StructuredOutput;

use crate::codec::Codec;
use crate::decode::Decoding;
use crate::http::{Http, secret_header};
use crate::http_call::HttpCall;
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use crate::sse::Sse;
use request::{Dialect, Target};
use stream::{Decoder, RequestInfo};

/// The encoder and the decoder, without HTTP.
pub(crate) const CODEC: Codec = Codec {
    api: "openai_chat",
    decoding: |options| {
        let decoder = Decoder::new(RequestInfo {
            show_thinking: options.show_thinking,
            turn: 1,
            structured: StructuredOutput::default(),
        });
        Decoding::new(Box::<Sse>::default(), Box::new(decoder))
    },
    encode: |settings, request| {
        let target = Target {
            model: settings.vendor_model_id.clone(),
            max_output_tokens: settings.max_output_tokens,
            dialect: Dialect::Compatible,
        };
        request::encode(&target, request)
    },
};

#[derive(Debug)]
struct OpenAiChat {
    http: Http,
    url: String,
    headers: HeaderMap,
    target: Target,
}

/// Opens a model of xAI.
pub(crate) fn open_xai(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.require_key()?;
    let base = provider.base_url_or("https://api.x.ai/v1")?;
    open_at(provider, model, base, Dialect::Xai)
}

/// Opens a model of any compatible server. The key is optional, the address is required.
pub(crate) fn open(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    if provider.base_url.is_none() {
        return Err(provider.invalid(
            "`base_url` is missing: set the address below which /chat/completions is, like http://127.0.0.1:11434/v1"
                .to_owned(),
        ));
    }
    let base = provider.base_url_or("")?;
    open_at(provider, model, base, Dialect::Compatible)
}

fn open_at(
    provider: &ProviderSettings,
    model: &ModelSettings,
    base: String,
    dialect: Dialect,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&[])?;
    let mut headers = HeaderMap::new();
    if let Some(key) = &provider.api_key {
        headers.insert(AUTHORIZATION, secret_header(provider, "Bearer ", key)?);
    }
    Ok(Arc::new(OpenAiChat {
        http: Http::open(provider)?,
        url: format!("{base}/chat/completions"),
        headers,
        target: Target {
            model: model.vendor_model_id.clone(),
            max_output_tokens: model.max_output_tokens,
            dialect,
        },
    }))
}

#[async_trait]
impl Model for OpenAiChat {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            files: self.target.dialect.files(),
            ..Capabilities::default()
        }
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let body = request::encode(&self.target, &request)?;
        let mut headers = self.headers.clone();
        if self.target.dialect == Dialect::Xai
            && !request.cache_key.is_empty()
            && let Ok(key) = HeaderValue::from_str(&request.cache_key)
        {
            // xAI routes a conversation to one machine by this header, which keeps its prompt cache warm.
            headers.insert(HeaderName::from_static("x-grok-conv-id"), key);
        }
        let decoder = Decoder::new(RequestInfo {
            show_thinking: request.reasoning_level.unwrap_or(0) > 0,
            turn: request.messages.len(),
            structured: StructuredOutput {
                schema_requested: request.output_schema.is_some(),
                ..StructuredOutput::default()
            },
        });
        let call = HttpCall {
            url: self.url.clone(),
            headers,
            body,
        };
        self.http
            .stream(call, Box::<Sse>::default(), Box::new(decoder))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_missing_key_or_address() {
        let model = ModelSettings::default();
        let error = open_xai(&ProviderSettings::default(), &model).unwrap_err();
        assert!(error.to_string().contains("api_key_env"));
        let error = open(&ProviderSettings::default(), &model).unwrap_err();
        assert!(error.to_string().contains("base_url"));
    }
}
