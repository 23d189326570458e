//! The HTTP clients: one per proxy and connect timeout, shared by every model of the process.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Client, Proxy, redirect};
use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;
use rustls::crypto::CryptoProvider;
use tracing::debug;

use crate::http_call::HttpCall;
use crate::response::{Response, innermost_cause};
use crate::settings::{OpenError, ProviderSettings};

/// `User-Agent` of every call.
const USER_AGENT: &str = concat!("runloom/", env!("CARGO_PKG_VERSION"));

/// Idle connections that are kept per host.
const MAX_IDLE_PER_HOST: usize = 256;

/// How long an idle connection is kept: shorter than load balancers usually keep theirs (60 s or more), because a
/// connection that the server closes just when a request is sent costs a retry.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// A request whose connection breaks this soon, without a byte of a response, was sent on a connection that the server
/// was closing, and is sent again.
const CLOSED_WHILE_IDLE: Duration = Duration::from_secs(5);

/// How many clients are shared.
const MAX_CLIENTS: usize = 64;

static CLIENTS: LazyLock<Mutex<HashMap<ClientKey, Client>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClientKey {
    proxy: Option<String>,
    connect_ms: u64,
}

/// Sends a request and waits for the head of the response.
///
/// A connection that the server closed while it was idle does not fail the call. If nothing was sent yet, the HTTP
/// library uses another connection. If the request was already on its way, it is sent again here, once. A request that
/// was sent twice costs tokens at worst, as every retry of the driver does.
pub(crate) async fn post(client: &Client, call: &HttpCall) -> Result<Response, ModelError> {
    let started = Instant::now();
    let mut outcome = send(client, call).await;
    if let Err(failure) = &outcome
        && is_closed(failure)
        && started.elapsed() < CLOSED_WHILE_IDLE
    {
        debug!("connection closed before a response; sending the request again");
        outcome = send(client, call).await;
    }
    outcome
        .map(Response::from)
        .map_err(|failure| model_error(&failure))
}

async fn send(client: &Client, call: &HttpCall) -> reqwest::Result<reqwest::Response> {
    client
        .post(&call.url)
        .headers(call.headers.clone())
        .body(call.body.clone().into_body())
        .send()
        .await
}

/// Whether the connection was closed or reset before a response.
fn is_closed(failure: &reqwest::Error) -> bool {
    if failure.is_connect() || failure.is_timeout() {
        return false;
    }
    let mut next = failure.source();
    while let Some(cause) = next {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let closed = matches!(
            io,
            Some(
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            )
        );
        let http = cause.downcast_ref::<hyper::Error>();
        if closed || http.is_some_and(hyper::Error::is_incomplete_message) {
            return true;
        }
        next = cause.source();
    }
    false
}

/// The URL stays out of the message: it may carry a credential.
fn model_error(failure: &reqwest::Error) -> ModelError {
    let cause = innermost_cause(failure);
    if failure.is_timeout() {
        let message = "the provider could not be reached in time";
        ModelError::new(ErrorClass::Timeout, message)
    } else if failure.is_connect() {
        let message = format!("the provider cannot be reached{cause}");
        ModelError::new(ErrorClass::Server, message)
    } else if failure.is_builder() {
        let message = "the provider's URL is not valid";
        ModelError::new(ErrorClass::InvalidRequest, message)
    } else {
        let message = format!("the connection to the provider was closed before a response{cause}");
        ModelError::new(ErrorClass::Server, message)
    }
}

/// The client for a provider: no redirects, no proxy but the configured one, and a pool of HTTP/1.1 connections
/// (decision 0027). TCP keepalive and `TCP_USER_TIMEOUT` are reqwest's defaults: a half-open connection is noticed
/// within a minute.
pub(crate) fn shared(provider: &ProviderSettings) -> Result<Client, OpenError> {
    let key = ClientKey {
        proxy: provider.proxy.clone(),
        connect_ms: provider.timeouts.connect_ms,
    };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = clients.get(&key) {
        return Ok(known.clone());
    }
    let new = build_client(provider, &key)?;
    if clients.len() >= MAX_CLIENTS {
        // Open models keep their client; later ones share new clients.
        clients.clear();
    }
    clients.insert(key, new.clone());
    Ok(new)
}

fn build_client(provider: &ProviderSettings, key: &ClientKey) -> Result<Client, OpenError> {
    if CryptoProvider::get_default().is_none() {
        // The binary installs it at start; a library user or a test may not have. Losing a race here is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(Duration::from_millis(key.connect_ms))
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .http1_only()
        .user_agent(USER_AGENT);
    if let Some(proxy) = &key.proxy {
        let proxy = Proxy::all(proxy)
            .map_err(|_| provider.invalid("`proxy` is not a proxy's URL".to_owned()))?;
        builder = builder.proxy(proxy);
    }
    builder
        .build()
        .map_err(|failure| provider.invalid(format!("cannot build an HTTP client: {failure}")))
}
