//! The HTTP of every adapter: shared connections, deadlines, error bodies, and the answer as a stream of events.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use runloom_core::ports::model::{ModelError, ModelEvent, ModelStream};
use runloom_protocol::outcome::ErrorClass;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::clients;
use crate::decode::{Decoding, Framing, StreamDecoder};
use crate::error;
use crate::exchange::Recorder;
use crate::payload::Payload;
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
        // Boxed: the state is handed from event to event, and only a pointer shall move.
        let reading = Box::new(Reading {
            body: Some(Box::pin(response.bytes_stream())),
            decoding: Decoding::new(framing, decoder),
            queue: VecDeque::new(),
            scratch: Vec::new(),
            failure: None,
            timer: Box::pin(sleep_until(deadlines.first_byte())),
            began: false,
            deadlines,
            secrets: self.secrets.clone(),
            recorder: self.recorder.clone(),
        });
        Ok(Box::pin(stream::unfold(
            reading,
            |mut reading| async move {
                let item = reading.next().await?;
                Some((item, reading))
            },
        )))
    }

    async fn accepted(
        &self,
        call: HttpCall,
        deadlines: &Deadlines,
    ) -> Result<Response, ModelError> {
        let mut headers = call.headers;
        headers
            .entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        if let Some(recorder) = &self.recorder {
            recorder.sent(&call.url, &headers, &call.body.to_vec(), &self.secrets);
        }
        let sending = self
            .client
            .post(call.url)
            .headers(headers)
            .body(call.body.into_body())
            .send();
        let response = match timeout_at(deadlines.first_byte(), sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(failure)) => return Err(unreachable_error(&failure)),
            Err(_) => return Err(deadlines.nothing_came()),
        };
        let status = response.status();
        if let Some(recorder) = &self.recorder {
            recorder.answered(status.as_u16(), response.headers());
        }
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = self.error_body(response, deadlines).await;
            return Err(error::from_response(status.as_u16(), &headers, &body));
        }
        if is_of_type(&response, "text/html") {
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
        if is_of_type(&response, "application/json") {
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

fn is_of_type(response: &Response, media_type: &str) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with(media_type))
}

/// The beginning of a body that is no stream; what came before a fault or a deadline counts.
async fn error_body(response: Response, deadlines: &Deadlines) -> Vec<u8> {
    let until = (Instant::now() + ERROR_BODY_WAIT).min(deadlines.total);
    let mut chunks = response.bytes_stream();
    let mut body = Vec::new();
    while let Ok(Some(Ok(chunk))) = timeout_at(until, chunks.next()).await {
        let room = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    body
}

/// No answer at all. The URL stays out of the message: it may carry a credential.
fn unreachable_error(failure: &reqwest::Error) -> ModelError {
    if failure.is_timeout() {
        return ModelError::new(
            ErrorClass::Timeout,
            "the provider could not be reached in time",
        );
    }
    let what = if failure.is_connect() {
        "the provider cannot be reached"
    } else if failure.is_builder() {
        return ModelError::new(
            ErrorClass::InvalidRequest,
            "the provider's URL is not valid",
        );
    } else {
        "the connection to the provider broke before it answered"
    };
    ModelError::new(ErrorClass::Server, format!("{what}{}", cause_of(failure)))
}

/// The innermost cause, which never holds the URL.
fn cause_of(failure: &reqwest::Error) -> String {
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(failure);
    let mut innermost = String::new();
    while let Some(error) = cause {
        innermost = format!(": {error}");
        cause = error.source();
    }
    innermost
}

/// The clocks of one call.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    started: Instant,
    first_byte: Duration,
    idle: Duration,
    total: Instant,
}

impl Deadlines {
    fn start(timeouts: &Timeouts) -> Self {
        // More than a day is as good as for ever, and cannot overflow a clock.
        let span = |ms: u64| Duration::from_millis(ms.min(86_400_000));
        let started = Instant::now();
        Self {
            started,
            first_byte: span(timeouts.first_byte_ms),
            idle: span(timeouts.idle_ms),
            total: started + span(timeouts.total_ms),
        }
    }

    fn first_byte(&self) -> Instant {
        (self.started + self.first_byte).min(self.total)
    }

    fn nothing_came(&self) -> ModelError {
        ModelError::new(
            ErrorClass::Timeout,
            format!(
                "the provider sent nothing within {} ms",
                (self.first_byte() - self.started).as_millis()
            ),
        )
    }

    fn went_silent(&self) -> ModelError {
        let message = if Instant::now() >= self.total {
            let limit = (self.total - self.started).as_millis();
            format!("the provider's answer took longer than {limit} ms")
        } else {
            let limit = self.idle.as_millis();
            format!("the provider fell silent for {limit} ms in the middle of its answer")
        };
        ModelError::new(ErrorClass::UpstreamDeadline, message)
    }
}

type Body = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// An answer that is being read. Dropping it drops the body, which closes the connection.
struct Reading {
    /// `None` after the end.
    body: Option<Body>,
    decoding: Decoding,
    queue: VecDeque<ModelEvent>,
    scratch: Vec<ModelEvent>,
    failure: Option<ModelError>,
    deadlines: Deadlines,
    began: bool,
    /// Never later than what is due; moved on only when it fires, which is cheaper than at every chunk.
    timer: Pin<Box<Sleep>>,
    secrets: Vec<Secret>,
    recorder: Option<Recorder>,
}

impl Reading {
    /// Lets the body go. When its end has already arrived it is read first, so that the connection can be used again.
    fn close(&mut self) {
        let Some(mut body) = self.body.take() else {
            return;
        };
        if self.failure.is_none() {
            for _ in 0..8 {
                if !matches!(body.next().now_or_never(), Some(Some(Ok(_)))) {
                    break;
                }
            }
        }
    }

    /// The next bytes; `None` when they took too long.
    async fn chunk(&mut self) -> Option<Option<reqwest::Result<Bytes>>> {
        let (body, timer) = (self.body.as_mut()?, &mut self.timer);
        let due = if self.began {
            (Instant::now() + self.deadlines.idle).min(self.deadlines.total)
        } else {
            self.deadlines.first_byte()
        };
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        std::future::poll_fn(|cx| {
            if let Poll::Ready(chunk) = body.as_mut().poll_next(cx) {
                return Poll::Ready(Some(chunk));
            }
            while timer.as_mut().poll(cx).is_ready() {
                if Instant::now() >= due {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(due);
            }
            Poll::Pending
        })
        .await
    }

    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                if matches!(event, ModelEvent::Done(_)) {
                    self.queue.clear();
                }
                return Some(Ok(event));
            }
            if let Some(mut failure) = self.failure.take() {
                error::redact(&mut failure, &self.secrets);
                return Some(Err(failure));
            }
            self.body.as_ref()?;
            let outcome = match self.chunk().await {
                Some(Some(Ok(chunk))) => self.read(&chunk),
                Some(Some(Err(failure))) => Err(ModelError::new(
                    ErrorClass::Server,
                    format!(
                        "the connection broke in the middle of the provider's answer{}",
                        cause_of(&failure)
                    ),
                )),
                Some(None) => {
                    self.body = None;
                    self.decoding.end(&mut self.scratch)
                }
                None if self.began => Err(self.deadlines.went_silent()),
                None => Err(self.deadlines.nothing_came()),
            };
            self.queue.extend(self.scratch.drain(..));
            self.failure = outcome.err();
            if self.failure.is_some() || self.decoding.is_done() {
                self.close();
            }
        }
    }

    fn read(&mut self, chunk: &[u8]) -> Result<(), ModelError> {
        self.began |= !chunk.is_empty();
        if let Some(recorder) = &self.recorder {
            recorder.read(chunk);
        }
        // A trickle that never pauses must end as well.
        if Instant::now() >= self.deadlines.total {
            return Err(self.deadlines.went_silent());
        }
        self.decoding.chunk(chunk, &mut self.scratch)
    }
}
