//! One HTTP client with its limits: addresses, credentials, retries, capped bodies.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::options::Options;

/// What a repetition of a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Nothing that the first did not: repeated after any transient failure.
    Harmless,
    /// Something twice: repeated only when the server said that it did nothing (429).
    OnlyIfRefused,
}

/// A request that can be sent more than once.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<Bytes>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) repeat: Repeat,
    pub(crate) condition: Option<(&'static str, String)>,
}

impl Call {
    pub(crate) fn get(url: Url) -> Self {
        Self::empty(Method::GET, url)
    }

    /// A request without a body whose repetition is harmless.
    pub(crate) fn empty(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            body: None,
            idempotency_key: None,
            repeat: Repeat::Harmless,
            condition: None,
        }
    }

    pub(crate) fn post(url: Url, body: &impl Serialize, repeat: Repeat) -> Result<Self> {
        let body = serde_json::to_vec(body).map_err(|error| {
            Error::Setup(format!("the request cannot be written as JSON: {error}"))
        })?;
        Ok(Self {
            body: Some(body.into()),
            repeat,
            ..Self::empty(Method::POST, url)
        })
    }

    pub(crate) fn with_key(mut self, key: Option<&str>) -> Self {
        if let Some(key) = key {
            self.idempotency_key = Some(key.to_owned());
            self.repeat = Repeat::Harmless;
        }
        self
    }
}

/// The way to one server with one credential.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    http: reqwest::Client,
    base: Url,
    pub(crate) options: Options,
}

impl Transport {
    pub(crate) fn new(base_url: &str, credential: Option<&str>, options: Options) -> Result<Self> {
        let base = Url::parse(base_url).map_err(|error| {
            Error::Setup(format!(
                "`{base_url}` is not a URL like http://127.0.0.1:8787: {error}"
            ))
        })?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(Error::Setup(format!(
                "`{base_url}` must start with http:// or https://"
            )));
        }
        let mut headers = HeaderMap::new();
        if let Some(credential) = credential {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {credential}")).map_err(|_| {
                    Error::Setup(
                        "the credential has characters that a header cannot carry".to_owned(),
                    )
                })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        install_crypto_provider();
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("runloom-client/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            .redirect(reqwest::redirect::Policy::none());
        if !options.system_proxy {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Error::Setup(format!("the HTTP client cannot be made: {error}")))?;
        Ok(Self {
            http,
            base,
            options,
        })
    }

    /// The base URL, without its last slash.
    pub(crate) fn base_url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The base URL with these path segments appended, each encoded.
    pub(crate) fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Sends, repeats where that is allowed, and reads the JSON answer.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let bytes = self.bytes(call).await?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Protocol(error.to_string()))
    }

    /// Sends, repeats where that is allowed, and reads the answer.
    pub(crate) async fn bytes(&self, call: Call) -> Result<Bytes> {
        let mut retry = 0;
        loop {
            let error = match self.attempt(&call).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            let allowed = error.is_rate_limited()
                || (call.repeat == Repeat::Harmless && error.is_transient());
            if !allowed || retry >= self.options.retry.max_retries {
                return Err(error);
            }
            retry += 1;
            tokio::time::sleep(self.options.retry.delay(retry, error.retry_after())).await;
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Bytes> {
        let limit = self.options.request_timeout;
        let mut request = self
            .http
            .request(call.method.clone(), call.url.clone())
            .header(ACCEPT, "application/json")
            .timeout(limit);
        if let Some(body) = &call.body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        if let Some(key) = &call.idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some((name, value)) = &call.condition {
            request = request.header(*name, value);
        }
        let response = request
            .send()
            .await
            .map_err(|error| Error::from_transport(error, limit))?;
        let (status, retry_after) = (response.status(), wish(&response));
        let bytes = self.read_capped(response).await?;
        if status.is_success() {
            Ok(bytes)
        } else {
            Err(Error::from_answer(status.as_u16(), retry_after, &bytes))
        }
    }

    async fn read_capped(&self, mut response: Response) -> Result<Bytes> {
        let max = self.options.max_json_bytes;
        let mut body = Vec::new();
        let limit = self.options.request_timeout;
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| Error::from_transport(error, limit))?
        {
            if body.len() + chunk.len() > max {
                return Err(Error::Protocol(format!(
                    "the answer is larger than {max} bytes"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }

    /// Opens an event stream after `last_seq`. Only its head is waited for.
    pub(crate) async fn open_stream(&self, mut url: Url, last_seq: u64) -> Result<Response> {
        let mut request = self.http.get(url.clone());
        if last_seq > 0 {
            url.query_pairs_mut()
                .append_pair("lastSeq", &last_seq.to_string());
            request = self
                .http
                .get(url)
                .header("Last-Event-ID", last_seq.to_string());
        }
        let limit = self.options.request_timeout;
        let sent = request.header(ACCEPT, "text/event-stream").send();
        let response = tokio::time::timeout(limit, sent)
            .await
            .map_err(|_| Error::Timeout(limit))?
            .map_err(|error| Error::from_transport(error, limit))?;
        if response.status().as_u16() == 200 {
            return Ok(response);
        }
        let (status, retry_after) = (response.status().as_u16(), wish(&response));
        let body = tokio::time::timeout(limit, self.read_capped(response)).await;
        let body = body.map_err(|_| Error::Timeout(limit))??;
        Err(Error::from_answer(status, retry_after, &body))
    }
}

/// `Retry-After` in seconds; the date form is not worth a clock here.
fn wish(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// The HTTP library panics without a provider, so a process that chose none gets *ring*.
fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race to another thread is as good as winning it.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
