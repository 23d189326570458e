//! One call of every adapter: the request is sent, its refusal told as an error, its answer handed on to be read.

use std::fmt;
use std::time::Duration;

use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use runloom_ports::model::{ModelError, ModelStream};
use runloom_protocol::outcome::ErrorClass;
use tokio::time::{Instant, timeout_at};

use crate::clients;
use crate::deadlines::Deadlines;
use crate::decode::{Decoding, Framing, StreamDecoder};
use crate::error;
use crate::exchange::Recorder;
use crate::payload::Payload;
use crate::reading::Reading;
use crate::response::Response;
use crate::settings::{OpenError, ProviderSettings, Secret, Timeouts};

/// How much of an error's body is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long an error's body may take: the status alone is worth more than a long wait.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);

/// One POST.
pub(crate) struct HttpCall {
    /// Absolute.
    pub(crate) url: String,
    /// The adapter's headers (credential, version); `Content-Type: application/json` is the default.
    pub(crate) headers: HeaderMap,
    /// JSON.
    pub(crate) body: Payload,
}

/// What an adapter calls its provider with.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    timeouts: Timeouts,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    recorder: Option<Recorder>,
}

impl fmt::Debug for Http {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Http")
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

impl Http {
    /// Prepares calls to one provider.
    pub(crate) fn open(provider: &ProviderSettings) -> Result<Self, OpenError> {
        let mut headers = HeaderMap::new();
        let mut secrets: Vec<Secret> = provider.api_key.iter().cloned().collect();
        for (name, value) in &provider.headers {
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .ok()
                .zip(HeaderValue::from_str(value).ok());
            let Some((parsed, mut value_parsed)) = parsed else {
                return Err(provider.invalid(format!("the header `{name}` is not valid")));
            };
            value_parsed.set_sensitive(true);
            headers.insert(parsed, value_parsed);
            // A header may be a credential; its scheme word is not.
            secrets.push(value.rsplit(' ').next().unwrap_or(value).into());
        }
        Ok(Self {
            client: clients::shared(provider)?,
            timeouts: provider.timeouts,
            headers,
            secrets,
            recorder: provider.recorder.clone(),
        })
    }

    /// One more value that must never appear in a message.
    pub(crate) fn with_secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Posts, and returns the answer's events once the provider has accepted the request.
    pub(crate) async fn stream(
        &self,
        call: HttpCall,
        framing: Box<dyn Framing>,
        decoder: Box<dyn StreamDecoder>,
    ) -> Result<ModelStream, ModelError> {
        let deadlines = Deadlines::start(&self.timeouts);
        let response = self
            .accepted(call, &deadlines)
            .await
            .map_err(|failure| self.redacted(failure))?;
        Ok(Box::pin(Reading::new(
            response.body,
            Decoding::new(framing, decoder),
            deadlines,
            self.secrets.clone(),
            self.recorder.clone(),
        )))
    }

    async fn accepted(
        &self,
        mut call: HttpCall,
        deadlines: &Deadlines,
    ) -> Result<Response, ModelError> {
        call.headers
            .entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            call.headers.insert(name, value.clone());
        }
        if let Some(recorder) = &self.recorder {
            recorder.sent(&call, &self.secrets);
        }
        let response = clients::post(&self.client, &call);
        let response = match timeout_at(deadlines.first_byte(), response).await {
            Ok(response) => response?,
            Err(_) => return Err(deadlines.nothing_came()),
        };
        let status = response.status;
        if let Some(recorder) = &self.recorder {
            recorder.answered(status.as_u16(), &response.headers);
        }
        if !status.is_success() {
            let headers = response.headers.clone();
            let body = self.error_body(response, deadlines).await;
            return Err(error::from_response(status.as_u16(), &headers, &body));
        }
        if response.is_of_type("text/html") {
            // A portal, a login page or a gateway: whatever was asked, nobody there speaks this API.
            let body = self.error_body(response, deadlines).await;
            let said = error::excerpt(&body);
            let mut failure = ModelError::new(
                ErrorClass::Server,
                format!(
                    "a web page came back instead of a stream (HTTP {status}, text/html); is base_url the address of the API? It begins: {said}"
                ),
            );
            failure.retryable = false;
            return Err(failure);
        }
        if response.is_of_type("application/json") {
            // Some servers answer 200 with an error, or ignore `stream`; neither is a stream.
            let body = self.error_body(response, deadlines).await;
            let parsed = error::ErrorBody::parse(&body);
            let mut failure = error::from_stream(parsed);
            failure.message = format!(
                "the provider answered with JSON instead of a stream: {}",
                failure.message
            );
            return Err(failure);
        }
        Ok(response)
    }

    async fn error_body(&self, response: Response, deadlines: &Deadlines) -> Vec<u8> {
        let body = error_body(response, deadlines).await;
        if let Some(recorder) = &self.recorder {
            recorder.read(&body);
        }
        body
    }

    fn redacted(&self, mut failure: ModelError) -> ModelError {
        error::redact(&mut failure, &self.secrets);
        failure
    }
}

/// A header value that holds a credential.
pub(crate) fn secret_header(
    provider: &ProviderSettings,
    prefix: &str,
    secret: &Secret,
) -> Result<HeaderValue, OpenError> {
    let mut value =
        HeaderValue::from_str(&format!("{prefix}{}", secret.expose())).map_err(|_| {
            provider.invalid("the API key has characters that no HTTP header can carry".to_owned())
        })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The beginning of a body that is no stream; what came before a fault or a deadline counts.
async fn error_body(mut response: Response, deadlines: &Deadlines) -> Vec<u8> {
    let until = (Instant::now() + ERROR_BODY_WAIT).min(deadlines.total);
    let mut body = Vec::new();
    loop {
        let chunk = std::future::poll_fn(|cx| response.body.poll_chunk(cx));
        let Ok(Some(Ok(chunk))) = timeout_at(until, chunk).await else {
            return body;
        };
        let room = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_ERROR_BYTES {
            return body;
        }
    }
}
