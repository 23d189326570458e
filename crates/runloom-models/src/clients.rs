//! The HTTP clients, shared by everything in the process that connects in the same way.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Proxy, redirect};
use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;
use rustls::crypto::CryptoProvider;

use crate::answer::{Answer, innermost_cause};
use crate::payload::Payload;
use crate::settings::{OpenError, ProviderSettings};

/// Who calls.
const USER_AGENT: &str = concat!("runloom/", env!("CARGO_PKG_VERSION"));

/// Idle connections that are kept per host.
const MAX_IDLE: usize = 64;

/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Silence after which TCP asks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How many clients are kept: one per proxy and connect timeout in use.
const MAX_CLIENTS: usize = 64;

/// Connections are shared by all models of a process that connect in the same way: opening a model is cheap, and a
/// second run finds a warm connection.
static CLIENTS: LazyLock<Mutex<HashMap<ClientKey, Client>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClientKey {
    proxy: Option<String>,
    connect_ms: u64,
}

/// Sends a request and waits for the head of the response.
pub(crate) async fn post(
    client: &Client,
    url: String,
    headers: HeaderMap,
    body: Payload,
) -> Result<Answer, ModelError> {
    let request = client.post(url).headers(headers).body(body.into_body());
    let response = request.send().await;
    response
        .map(Answer::from)
        .map_err(|failure| no_answer(&failure))
}

fn no_answer(failure: &reqwest::Error) -> ModelError {
    if failure.is_timeout() {
        too_late()
    } else if failure.is_connect() {
        unreachable(&innermost_cause(failure))
    } else if failure.is_builder() {
        ModelError::new(
            ErrorClass::InvalidRequest,
            "the provider's URL is not valid",
        )
    } else {
        broken(&innermost_cause(failure))
    }
}

fn too_late() -> ModelError {
    ModelError::new(
        ErrorClass::Timeout,
        "the provider could not be reached in time",
    )
}

/// The URL stays out of the message: it may carry a credential.
fn unreachable(cause: &str) -> ModelError {
    let message = format!("the provider cannot be reached{cause}");
    ModelError::new(ErrorClass::Server, message)
}

fn broken(cause: &str) -> ModelError {
    let message = format!("the connection to the provider broke before it answered{cause}");
    ModelError::new(ErrorClass::Server, message)
}

/// The clients for a provider: no redirects, no proxy but the configured one, connections kept for the next call.
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
        // Models that are open keep their own handle; only the sharing starts anew.
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
        .pool_max_idle_per_host(MAX_IDLE)
        .tcp_keepalive(KEEPALIVE)
        .user_agent(USER_AGENT);
    if let Some(proxy) = &key.proxy {
        let proxy = Proxy::all(proxy)
            .map_err(|_| provider.invalid("`proxy` is not a proxy's URL".to_owned()))?;
        builder = builder.proxy(proxy);
    }
    builder
        .build()
        .map_err(|failure| provider.invalid(format!("no HTTP client can be built: {failure}")))
}
