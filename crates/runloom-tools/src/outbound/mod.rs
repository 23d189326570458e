//! The one guarded way out: every connection that a user can cause goes through [`Outbound`].
//!
//! What it promises:
//! - No private, link-local or reserved address is reached, however it is spelt, resolved or redirected to, unless the
//!   operator allowed it ([`OutboundPolicy`]).
//! - Only http and https, no credentials in URLs, no proxy, no decompression, no cookie jar.
//! - Redirects are followed by hand through the same checks; other origins see no header of the spec, and no body at all.
//! - Every request ends in time, every body and every head has a size.
//!
//! Reading order: [`OutboundPolicy`], [`Outbound`], `address` (what is private), `hosts` (the allow list), `resolver`,
//! `redirect`, `response`.

mod address;
mod error;
mod headers;
mod hosts;
mod ports;
mod redirect;
mod resolver;
mod response;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use tokio::time::Instant;

pub use error::{OutboundError, Result};
pub use headers::spec_headers;
pub(crate) use headers::tell_trace;
pub use resolver::{Found, Lookup, SystemLookup};
pub use response::OutboundResponse;

use hosts::HostPattern;
use resolver::{GuardedResolver, Inward};

/// The longest URL we send, in bytes; longer ones are mistakes or attacks.
const MAX_URL_BYTES: usize = 8 * 1024;

/// The most header bytes of one response.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What outgoing connections may do.
#[derive(Debug, Clone)]
pub struct OutboundPolicy {
    /// Loopback and private networks may be reached. Link-local and reserved ranges stay closed.
    pub allow_private_networks: bool,
    /// Hosts that may be reached wherever they are: `host`, `host:port`, `*.internal.example`.
    pub allow_hosts: Vec<String>,
    /// From the first packet to a usable connection, name lookup and TLS included.
    pub connect_timeout: Duration,
    /// One request in all, its body included, unless the request says otherwise.
    pub total_timeout: Duration,
    /// The most bytes of one response body, unless the request says otherwise.
    pub max_response_bytes: usize,
    /// How many redirects one request may follow.
    pub max_redirects: usize,
}

impl Default for OutboundPolicy {
    fn default() -> Self {
        Self {
            allow_private_networks: false,
            allow_hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(60),
            max_response_bytes: 8 * 1024 * 1024,
            max_redirects: 5,
        }
    }
}

/// One outgoing request.
#[derive(Debug, Clone)]
pub struct OutboundRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
    total: Option<Duration>,
    idle: Option<Duration>,
    streaming: bool,
    keeps_method: bool,
    limit: Option<usize>,
}

impl OutboundRequest {
    /// A request without headers and body.
    #[must_use]
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            total: None,
            idle: None,
            streaming: false,
            keeps_method: false,
            limit: None,
        }
    }

    /// Replaces the headers.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Gives it a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Ends the whole exchange after this time.
    #[must_use]
    pub fn within(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Ends the exchange when the body is silent for this long.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// The total time then covers only the head of the response: whoever reads the stream bounds it.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    /// Refuses redirects that would turn the request into a GET: for protocols in which that means something else.
    #[must_use]
    pub fn keeping_method(mut self) -> Self {
        self.keeps_method = true;
        self
    }

    /// Takes at most this many bytes of body.
    #[must_use]
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.limit = Some(bytes);
        self
    }
}

/// The guarded HTTP client. Cheap to clone; connections are shared.
#[derive(Clone)]
pub struct Outbound {
    inner: Arc<Inner>,
}

struct Inner {
    policy: OutboundPolicy,
    allowed: Vec<HostPattern>,
    /// For hosts the operator named: any address.
    named: reqwest::Client,
    /// For all others: only what the policy allows.
    guarded: reqwest::Client,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound")
            .field("policy", &self.inner.policy)
            .finish_non_exhaustive()
    }
}

impl OutboundPolicy {
    /// Looks whether `text` can stand in [`Self::allow_hosts`]. [`Outbound::new`] refuses what this refuses.
    ///
    /// # Errors
    /// It is no host.
    pub fn check_host(text: &str) -> Result<()> {
        HostPattern::parse(text).map(drop)
    }
}

impl Outbound {
    /// A client with the system's resolver.
    ///
    /// # Errors
    /// An entry of `allow_hosts` is no host, or TLS cannot be set up.
    pub fn new(policy: OutboundPolicy) -> Result<Self> {
        Self::with_lookup(policy, Arc::new(SystemLookup))
    }

    /// A client that asks `lookup` for addresses; what it answers goes through the guard.
    ///
    /// # Errors
    /// An entry of `allow_hosts` is no host, or TLS cannot be set up.
    pub fn with_lookup(policy: OutboundPolicy, lookup: Arc<dyn Lookup>) -> Result<Self> {
        let allowed = policy
            .allow_hosts
            .iter()
            .map(|text| HostPattern::parse(text))
            .collect::<Result<_>>()?;
        let inward = inward(&policy);
        let inner = Inner {
            allowed,
            named: client(&policy, Arc::clone(&lookup), None)?,
            guarded: client(&policy, lookup, Some(inward))?,
            policy,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Checks what can be told from the URL alone, without a connection.
    ///
    /// # Errors
    /// [`OutboundError::Blocked`] with what is wrong about it.
    pub fn check(&self, url: &str) -> Result<Url> {
        let parsed = Url::parse(url.trim())
            .map_err(|error| OutboundError::blocked(format!("this is not a URL ({error})")))?;
        self.admit(&parsed)?;
        Ok(parsed)
    }

    /// Sends a request and follows redirects; answers with the head, the body still to be read.
    ///
    /// # Errors
    /// The policy refuses the target, or the peer cannot be reached, is too slow, or sends too much.
    pub async fn send(&self, mut request: OutboundRequest) -> Result<OutboundResponse> {
        let total = request.total.unwrap_or(self.inner.policy.total_timeout);
        let deadline = Instant::now() + total;
        for _ in 0..=self.inner.policy.max_redirects {
            let response = self.exchange(&request, deadline, total).await?;
            let status = response.status();
            let Some(next) = redirect::target(status, response.headers(), &request.url)? else {
                return self.accept(response, &request, deadline, total);
            };
            request = redirect::follow(request, status, next)?;
        }
        Err(OutboundError::Redirects {
            why: format!("there were more than {}", self.inner.policy.max_redirects),
        })
    }

    /// One hop: the guard, then the request, until the head of the response.
    async fn exchange(
        &self,
        request: &OutboundRequest,
        deadline: Instant,
        total: Duration,
    ) -> Result<reqwest::Response> {
        let client = self.admit(&request.url)?;
        let mut headers = request.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut builder = client
            .request(request.method.clone(), request.url.clone())
            .headers(headers);
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        match tokio::time::timeout_at(deadline, builder.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_timeout() => Err(OutboundError::Timeout {
                step: "connection",
                after: self.inner.policy.connect_timeout,
            }),
            Ok(Err(error)) => Err(OutboundError::from_client(&error)),
            Err(_) => Err(OutboundError::Timeout {
                step: "answer",
                after: total,
            }),
        }
    }

    fn accept(
        &self,
        inner: reqwest::Response,
        request: &OutboundRequest,
        deadline: Instant,
        total: Duration,
    ) -> Result<OutboundResponse> {
        let head: usize = inner
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if head > MAX_HEAD_BYTES {
            return Err(OutboundError::TooLarge {
                what: "the head of the response",
                limit: MAX_HEAD_BYTES,
            });
        }
        let encoded = inner.headers().get(CONTENT_ENCODING);
        if encoded.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(OutboundError::Network {
                message: "the response is compressed although the request asked for plain data"
                    .to_owned(),
                unsent: false,
            });
        }
        let limit = request
            .limit
            .unwrap_or(self.inner.policy.max_response_bytes);
        if inner
            .content_length()
            .is_some_and(|length| length > limit as u64)
        {
            return Err(OutboundError::TooLarge {
                what: "the response",
                limit,
            });
        }
        Ok(OutboundResponse {
            inner,
            url: request.url.clone(),
            deadline: (!request.streaming).then_some((deadline, total)),
            idle: request.idle,
            limit,
            read: 0,
        })
    }

    /// The client for this URL, when it may be asked at all. The resolver is not asked about IP literals, so that the host is
    /// judged here; the parser has brought every spelling (decimal, octal, hexadecimal, mapped) into one form.
    fn admit(&self, url: &Url) -> Result<&reqwest::Client> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(OutboundError::blocked(format!(
                "the scheme \"{}\"; only http and https are spoken",
                url.scheme()
            )));
        }
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(OutboundError::blocked(format!(
                "a URL of more than {MAX_URL_BYTES} bytes"
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(OutboundError::blocked(
                "credentials in the URL; send them in a header",
            ));
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(OutboundError::blocked("a URL without a host"));
        };
        let named = |pattern: &HostPattern| pattern.names(host, port);
        if self.inner.allowed.iter().any(named) {
            return Ok(&self.inner.named);
        }
        if ports::is_foreign(port) {
            return Err(OutboundError::blocked(format!(
                "port {port}, which belongs to another protocol than HTTP"
            )));
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse::<IpAddr>()
            && !inward(&self.inner.policy).allows(address)
        {
            return Err(OutboundError::blocked(format!(
                "{literal} is a private or reserved address; the operator can allow it with outbound.allow_hosts"
            )));
        }
        Ok(&self.inner.guarded)
    }
}

fn inward(policy: &OutboundPolicy) -> Inward {
    if policy.allow_private_networks {
        Inward::Private
    } else {
        Inward::Public
    }
}

fn client(
    policy: &OutboundPolicy,
    lookup: Arc<dyn Lookup>,
    allowed: Option<Inward>,
) -> Result<reqwest::Client> {
    // The process has one TLS provider; whoever comes first installs it.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    reqwest::Client::builder()
        .user_agent(concat!("runloom/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .connect_timeout(policy.connect_timeout)
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(8)
        .dns_resolver(GuardedResolver { lookup, allowed })
        .build()
        .map_err(|error| OutboundError::Network {
            message: format!("cannot set up the HTTP client: {error}"),
            unsent: true,
        })
}
