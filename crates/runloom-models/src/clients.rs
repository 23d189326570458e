//! The HTTP clients, shared by everything in the process that connects in the same way.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Proxy, redirect};
use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;
use rustls::crypto::CryptoProvider;

use crate::answer::{Answer, innermost, innermost_cause};
use crate::lines::{IDLE, KEEPALIVE, LineError, Lines, MAX_IDLE};
use crate::payload::Payload;
use crate::settings::{OpenError, ProviderSettings};

/// Who calls.
pub(crate) const USER_AGENT: &str = concat!("runloom/", env!("CARGO_PKG_VERSION"));

/// How many clients are kept: one per proxy and connect timeout in use.
const MAX_CLIENTS: usize = 64;

/// Connections are shared by all models of a process that connect in the same way: opening a model is cheap, and a
/// second run finds a warm connection.
static CLIENTS: LazyLock<Mutex<HashMap<ClientKey, Clients>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClientKey {
    proxy: Option<String>,
    connect_ms: u64,
}

/// The two ways to a provider.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// TLS, HTTP/2, proxies, and whatever a URL may hold.
    any: Client,
    /// Plain HTTP, if no proxy is between: a gateway or a model on one's own machines. Costs less per token (decision 0017).
    plain: Option<Arc<Lines>>,
}

impl Clients {
    /// Posts, and waits for the head of the answer.
    pub(crate) async fn post(
        &self,
        url: String,
        headers: HeaderMap,
        body: Payload,
    ) -> Result<Answer, ModelError> {
        if let Some(lines) = &self.plain
            && let Some(target) = Lines::target(&url)
        {
            let answer = lines.post(target, headers, body.into_body()).await;
            return answer
                .map(Answer::from)
                .map_err(|failure| no_line(&failure));
        }
        let request = self.any.post(url).headers(headers).body(body.into_body());
        let answer = request.send().await;
        answer
            .map(Answer::from)
            .map_err(|failure| no_answer(&failure))
    }
}

fn no_line(failure: &LineError) -> ModelError {
    match failure {
        LineError::TooLate => too_late(),
        LineError::Unreachable(cause) if timed_out(cause.as_ref()) => too_late(),
        LineError::Unreachable(cause) => unreachable(&innermost(cause.as_ref())),
        LineError::Broken(cause) if timed_out(cause) => too_late(),
        LineError::Broken(cause) => broken(&innermost(cause)),
    }
}

/// Whether the operating system, or one of several attempts, gave up waiting.
fn timed_out(failure: &(dyn Error + 'static)) -> bool {
    let mut next = Some(failure);
    while let Some(error) = next {
        let system = error.downcast_ref::<io::Error>();
        if system.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        next = error.source();
    }
    false
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
pub(crate) fn shared(provider: &ProviderSettings) -> Result<Clients, OpenError> {
    let key = ClientKey {
        proxy: provider.proxy.clone(),
        connect_ms: provider.timeouts.connect_ms,
    };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = clients.get(&key) {
        return Ok(known.clone());
    }
    let connect = Duration::from_millis(key.connect_ms);
    let new = Clients {
        any: build_client(provider, &key)?,
        plain: key.proxy.is_none().then(|| Lines::new(connect)),
    };
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
        .pool_idle_timeout(IDLE)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As a connector tells it: the system's error is the cause of its own.
    #[derive(Debug, thiserror::Error)]
    #[error("tcp connect error")]
    struct NotConnected(#[source] io::Error);

    fn of(kind: io::ErrorKind) -> ModelError {
        let cause = io::Error::new(kind, "the system's words");
        no_line(&LineError::Unreachable(NotConnected(cause).into()))
    }

    #[test]
    fn a_connection_that_is_not_made_in_time_is_told_apart_from_one_that_is_refused() {
        for late in [of(io::ErrorKind::TimedOut), no_line(&LineError::TooLate)] {
            assert_eq!(late.class, ErrorClass::Timeout);
            assert_eq!(late.message, "the provider could not be reached in time");
        }
        let refused = of(io::ErrorKind::ConnectionRefused);
        assert_eq!(refused.class, ErrorClass::Server);
        assert_eq!(
            refused.message,
            "the provider cannot be reached: the system's words"
        );
    }
}
