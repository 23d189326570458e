//! Claude on Amazon Bedrock: the Messages API with the model in the path, the version in the body, a signature or a
//! bearer key as credential, and events in AWS's binary event stream.

mod frames;
mod sign;

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use runloom_ports::model::{Capabilities, Model, ModelError, ModelRequest, ModelStream};

pub(crate) use self::frames::Frames;
use self::sign::Credential;
use crate::anthropic::request::{self, Encoded, Endpoint, RequestInfo};
use crate::anthropic::stream::Decoder;
use crate::codec::Codec;
use crate::decode::Decoding;
use crate::http::Http;
use crate::http_call::HttpCall;
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use crate::structured;

/// The default of `anthropic_version`, which every Claude model on Bedrock accepts.
const VERSION: &str = "bedrock-2023-05-31";

/// The encoder and the decoder, without HTTP.
pub(crate) const CODEC: Codec = Codec {
    api: "bedrock",
    decoding: |options| {
        let decoder = Decoder::new(RequestInfo::for_test(options));
        Decoding::new(Box::<Frames>::default(), Box::new(decoder))
    },
    encode: |settings, request| {
        let endpoint = Endpoint::Bedrock {
            model: &settings.vendor_model_id,
            version: VERSION,
        };
        Ok(request::encode(endpoint, request)?.body)
    },
};

#[derive(Debug)]
struct Bedrock {
    http: Http,
    url: String,
    credential: Credential,
    version: String,
    model: ModelSettings,
}

/// Opens a Claude model on Bedrock.
pub(crate) fn open(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&[
        "region",
        "access_key_id",
        "secret_access_key",
        "session_token",
        "anthropic_version",
    ])?;
    let region = provider.extra_text("region")?;
    let base = match (region, &provider.base_url) {
        (None, None) => {
            return Err(provider.invalid("no `region`: set one, like \"eu-central-1\"".to_owned()));
        }
        (Some(region), None) => format!("https://bedrock-runtime.{region}.amazonaws.com"),
        (_, Some(_)) => provider.base_url_or("")?,
    };
    let credential = Credential::read(provider, region)?;
    let http = credential
        .secrets()
        .into_iter()
        .fold(Http::open(provider)?, Http::with_secret);
    Ok(Arc::new(Bedrock {
        http,
        url: format!(
            "{base}/model/{}/invoke-with-response-stream",
            escaped(&model.vendor_model_id)
        ),
        credential,
        version: provider
            .extra_text("anthropic_version")?
            .unwrap_or(VERSION)
            .to_owned(),
        model: model.clone(),
    }))
}

/// The name of a model as one segment of a path. Inference profiles are ARNs, with colons and slashes.
fn escaped(model: &str) -> String {
    use std::fmt::Write as _;
    let mut path = String::with_capacity(model.len());
    for byte in model.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

#[async_trait]
impl Model for Bedrock {
    fn capabilities(&self) -> Capabilities {
        crate::anthropic::capabilities(&self.model, crate::anthropic::files::BEDROCK)
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

impl Bedrock {
    fn endpoint(&self) -> Endpoint<'_> {
        Endpoint::Bedrock {
            model: &self.model.vendor_model_id,
            version: &self.version,
        }
    }

    async fn send(&self, encoded: Encoded) -> Result<ModelStream, ModelError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/vnd.amazon.eventstream"),
        );
        self.credential
            .apply(&self.url, &mut headers, &encoded.body, SystemTime::now())?;
        let call = HttpCall {
            url: self.url.clone(),
            headers,
            body: encoded.body,
        };
        let decoder = Decoder::new(encoded.info);
        self.http
            .stream(call, Box::new(Frames::default()), Box::new(decoder))
            .await
    }
}

#[cfg(test)]
mod tests {
    use runloom_ports::secret::Secret;

    use super::*;

    #[test]
    fn escapes_the_name_of_the_model() {
        assert_eq!(
            escaped(
                "arn:aws:bedrock:eu-central-1:1:inference-profile/eu.anthropic.claude-opus-5-v1:0"
            ),
            "arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Feu.anthropic.claude-opus-5-v1%3A0"
        );
    }

    #[test]
    fn rejects_a_provider_without_region_or_credential() {
        let mut provider = ProviderSettings {
            id: "aws".into(),
            ..Default::default()
        };
        let model = ModelSettings::default();
        let message =
            |provider: &ProviderSettings| open(provider, &model).map(drop).unwrap_err().to_string();
        assert_eq!(
            message(&provider),
            "provider `aws`: no `region`: set one, like \"eu-central-1\""
        );
        provider
            .extra
            .insert("region".into(), "eu-central-1".into());
        assert!(message(&provider).contains("`access_key_id` and `secret_access_key`"));
        provider
            .extra
            .insert("access_key_id".into(), "AKIDEXAMPLE".into());
        provider
            .extra
            .insert("secret_access_key".into(), "secret".into());
        assert!(open(&provider, &model).is_ok());
        provider.api_key = Some(Secret::new("key"));
        assert!(message(&provider).contains("leave one of them out"));
    }
}
