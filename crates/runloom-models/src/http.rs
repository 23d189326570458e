//! One HTTP call: sends the request, turns an error response into a [`ModelError`], returns the events of a stream.

use std::fmt;
use std::time::Duration;

use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use runloom_ports::model::{ModelError, ModelStream};
use runloom_ports::secret::Secret;
use runloom_protocol::outcome::ErrorClass;
use tokio::time::{Instant, timeout_at};

use crate::call_recorder::CallRecorder;
use crate::clients;
use crate::deadlines::Deadlines;
use crate::decode::{Decoding, Framing, StreamDecoder};
use crate::error;
use crate::event_stream::EventStream;
use crate::http_call::HttpCall;
use crate::response::Response;
use crate::settings::{OpenError, ProviderSettings, Timeouts};

/// Largest part of an error body that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long an error body may take. The status alone is better than a long wait.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);

/// The calls of one provider: its client, timeouts, headers and secrets.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    timeouts: Timeouts,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    recorder: Option<CallRecorder>,
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
    /// Prepares the calls of a provider. Makes no connection.
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
            // A header may hold a credential, after a scheme such as `Bearer`.
            secrets.push(Secret::new(value.rsplit(' ').next().unwrap_or(value)));
        }
        Ok(Self {
            client: clients::shared(provider)?,
            timeouts: provider.timeouts,
            headers,
            secrets,
            recorder: provider.recorder.clone(),
        })
    }

    /// The headers of the configuration.
    pub(crate) fn configured_headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// Adds a value that must never appear in a message.
    pub(crate) fn with_secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Sends the request and returns the events of the response once the provider has accepted it.
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
        Ok(Box::pin(EventStream::new(
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
            recorder.record_request(&call, &self.secrets);
        }
        let response = clients::post(&self.client, &call);
        let response = match timeout_at(deadlines.first_byte(), response).await {
            Ok(response) => response?,
            Err(_) => return Err(deadlines.first_byte_missed()),
        };
        let status = response.status;
        if let Some(recorder) = &self.recorder {
            recorder.record_head(status.as_u16(), &response.headers);
        }
        if !status.is_success() {
            let headers = response.headers.clone();
            let body = self.error_body(response, deadlines).await;
            return Err(error::from_response(status.as_u16(), &headers, &body));
        }
        if response.is_of_type("text/html") {
            // A login page or a gateway, not the API.
            let body = self.error_body(response, deadlines).await;
            let excerpt = error::excerpt(&body);
            let mut failure = ModelError::new(
                ErrorClass::Server,
                format!(
                    "the provider answered with a web page instead of a stream (HTTP {status}, text/html); check that `base_url` is the address of the API. The page begins: {excerpt}"
                ),
            );
            failure.retryable = false;
            return Err(failure);
        }
        if response.is_of_type("application/json") {
            // Some servers answer 200 with an error, or ignore `stream`.
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
            recorder.record_chunk(&body);
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
            provider.invalid(
                "the API key has characters that are not allowed in an HTTP header".to_owned(),
            )
        })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The beginning of a body that is not a stream: everything up to an error, the deadline or the size limit.
async fn error_body(mut response: Response, deadlines: &Deadlines) -> Vec<u8> {
    let until = (Instant::now() + ERROR_BODY_WAIT).min(deadlines.total);
    let mut body = Vec::new();
    loop {
        let chunk = std::future::poll_fn(|cx| response.body.poll_chunk(cx));
        let Ok(Some(Ok(chunk))) = timeout_at(until, chunk).await else {
            return body;
        };
        let left = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if body.len() == MAX_ERROR_BYTES {
            return body;
        }
    }
}
