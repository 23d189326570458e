//! The guarded HTTP client: every connection that a user can cause goes through [`Outbound`].
//!
//! Guarantees:
//! - Private, link-local and reserved addresses are not reached, however they are written, resolved or redirected to,
//!   unless the operator allowed them ([`OutboundPolicy`]).
//! - Only http and https; no credentials in URLs, no proxy, no decompression, no cookie jar.
//! - Redirects go through the same checks. Other origins get no header of the spec and no body.
//! - Every request has a timeout; every head and every body has a size limit.
//!
//! Reading order: [`OutboundPolicy`], [`Outbound`], `address` (private ranges), `allowed_hosts`, `resolver`,
//! `redirect`, `response`.

mod address;
mod allowed_hosts;
mod blocked_ports;
mod error;
mod headers;
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

pub use error::{OutboundError, Result, Sent};
pub(crate) use headers::add_trace_header;
pub use headers::spec_headers;
pub use resolver::{DnsLookup, LookupFuture};
pub use response::OutboundResponse;

use address::AllowedAddresses;
use allowed_hosts::HostPattern;
use resolver::{GuardedResolver, SystemLookup};
use response::Deadline;

/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Maximum header bytes of one response.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Policy and limits of outgoing connections.
#[derive(Debug, Clone)]
pub struct OutboundPolicy {
    /// Allows loopback and private networks. Link-local and reserved ranges stay blocked.
    pub allow_private_networks: bool,
    /// Hosts that may be reached at any address: `host`, `host:port`, `*.internal.example`.
    pub allow_hosts: Vec<String>,
    /// Timeout of connecting, DNS lookup and TLS included.
    pub connect_timeout: Duration,
    /// Default timeout of one request, its response body included.
    pub total_timeout: Duration,
    /// Default limit of one response body.
    pub max_response_bytes: usize,
    /// Maximum redirects of one request.
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
    timeout: Option<Duration>,
    timed_part: TimedPart,
    method_change: MethodChange,
    limit: Option<usize>,
}

/// The part of an exchange that the request's timeout covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimedPart {
    HeadAndBody,
    Head,
}

/// What happens on a redirect that would turn the request into a GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MethodChange {
    Follow,
    Refuse,
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
            timeout: None,
            timed_part: TimedPart::HeadAndBody,
            method_change: MethodChange::Follow,
            limit: None,
        }
    }

    /// Sets the headers.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets the timeout of the whole exchange.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Limits the timeout to the head of the response. The reader of the body bounds the rest.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.timed_part = TimedPart::Head;
        self
    }

    /// Refuses redirects that would turn the request into a GET.
    #[must_use]
    pub fn keeping_method(mut self) -> Self {
        self.method_change = MethodChange::Refuse;
        self
    }

    /// Sets the limit of the response body in bytes.
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
    allowed_hosts: Vec<HostPattern>,
    /// Client for hosts that the operator named: any address.
    unrestricted: reqwest::Client,
    /// Client for all other hosts: only addresses that the policy allows.
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
    /// Validates an entry of [`Self::allow_hosts`]. [`Outbound::new`] refuses what this refuses.
    ///
    /// # Errors
    /// The text is not a host pattern.
    pub fn check_host(text: &str) -> Result<()> {
        HostPattern::parse(text).map(drop)
    }
}

impl Outbound {
    /// A client with the system's resolver.
    ///
    /// # Errors
    /// An entry of `allow_hosts` is invalid, or TLS cannot be set up.
    pub fn new(policy: OutboundPolicy) -> Result<Self> {
        Self::with_lookup(policy, Arc::new(SystemLookup))
    }

    /// A client with another resolver, whose addresses are checked like the system's.
    ///
    /// # Errors
    /// An entry of `allow_hosts` is invalid, or TLS cannot be set up.
    pub fn with_lookup(policy: OutboundPolicy, lookup: Arc<dyn DnsLookup>) -> Result<Self> {
        let allowed_hosts = policy
            .allow_hosts
            .iter()
            .map(|text| HostPattern::parse(text))
            .collect::<Result<_>>()?;
        let allowed = allowed_addresses(&policy);
        let inner = Inner {
            allowed_hosts,
            unrestricted: client(&policy, Arc::clone(&lookup), AllowedAddresses::All)?,
            guarded: client(&policy, lookup, allowed)?,
            policy,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Parses a URL and checks it against the policy, without DNS and without connecting.
    ///
    /// # Errors
    /// [`OutboundError::Blocked`] with the reason.
    pub fn check(&self, url: &str) -> Result<Url> {
        let parsed = Url::parse(url.trim())
            .map_err(|error| OutboundError::blocked(format!("this is not a URL ({error})")))?;
        self.client_for(&parsed)?;
        Ok(parsed)
    }

    /// Sends a request and follows redirects. Returns once the head of the response was received.
    ///
    /// # Errors
    /// The policy refuses the target, or the peer cannot be reached, is too slow, or sends too much.
    pub async fn send(&self, mut request: OutboundRequest) -> Result<OutboundResponse> {
        let timeout = request.timeout.unwrap_or(self.inner.policy.total_timeout);
        let deadline = Deadline {
            at: Instant::now() + timeout,
            timeout,
        };
        for _ in 0..=self.inner.policy.max_redirects {
            let response = self.send_once(&request, deadline).await?;
            let status = response.status();
            let Some(next) = redirect::target(status, response.headers(), &request.url)? else {
                return self.check_head(response, &request, deadline);
            };
            request = redirect::follow(request, status, next)?;
        }
        Err(OutboundError::Redirects {
            why: format!("there were more than {}", self.inner.policy.max_redirects),
        })
    }

    /// Checks the URL and sends the request to it, without following a redirect.
    async fn send_once(
        &self,
        request: &OutboundRequest,
        deadline: Deadline,
    ) -> Result<reqwest::Response> {
        let client = self.client_for(&request.url)?;
        let mut headers = request.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut builder = client
            .request(request.method.clone(), request.url.clone())
            .headers(headers);
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        match tokio::time::timeout_at(deadline.at, builder.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_timeout() => Err(OutboundError::Timeout {
                step: "connection",
                after: self.inner.policy.connect_timeout,
            }),
            Ok(Err(error)) => Err(OutboundError::from_client(&error)),
            Err(_) => Err(OutboundError::Timeout {
                step: "response",
                after: deadline.timeout,
            }),
        }
    }

    /// Refuses a response whose head is too large, or whose body is compressed or announced as too large.
    fn check_head(
        &self,
        inner: reqwest::Response,
        request: &OutboundRequest,
        deadline: Deadline,
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
                message: "the response is compressed although the request does not accept it"
                    .to_owned(),
                sent: Sent::Maybe,
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
            deadline: match request.timed_part {
                TimedPart::HeadAndBody => Some(deadline),
                TimedPart::Head => None,
            },
            limit,
            read: 0,
        })
    }

    /// The client for a URL that the policy allows. IP literals do not go through the resolver, so they are checked
    /// here; the URL parser has normalized every form of them (decimal, octal, hexadecimal, mapped).
    fn client_for(&self, url: &Url) -> Result<&reqwest::Client> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(OutboundError::blocked(format!(
                "the scheme \"{}\"; only http and https are allowed",
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
        let is_match = |pattern: &HostPattern| pattern.matches(host, port);
        if self.inner.allowed_hosts.iter().any(is_match) {
            return Ok(&self.inner.unrestricted);
        }
        if blocked_ports::is_blocked(port) {
            return Err(OutboundError::blocked(format!(
                "port {port}, which belongs to another protocol than HTTP"
            )));
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse::<IpAddr>()
            && !allowed_addresses(&self.inner.policy).contains(address)
        {
            return Err(OutboundError::blocked(format!(
                "{literal} is a private or reserved address; the operator can allow it with outbound.allow_hosts"
            )));
        }
        Ok(&self.inner.guarded)
    }
}

fn allowed_addresses(policy: &OutboundPolicy) -> AllowedAddresses {
    match policy.allow_private_networks {
        true => AllowedAddresses::PublicAndPrivate,
        false => AllowedAddresses::Public,
    }
}

fn client(
    policy: &OutboundPolicy,
    lookup: Arc<dyn DnsLookup>,
    allowed: AllowedAddresses,
) -> Result<reqwest::Client> {
    // The TLS provider is installed once per process.
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
            sent: Sent::No,
        })
}
