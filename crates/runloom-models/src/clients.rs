//! The HTTP clients, shared by everything in the process that connects in the same way.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, Proxy, redirect};
use rustls::crypto::CryptoProvider;

use crate::settings::{OpenError, ProviderSettings};

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

/// The client for a provider: no redirects, no proxy but the configured one, connections kept for the next call.
pub(crate) fn shared(provider: &ProviderSettings) -> Result<Client, OpenError> {
    let key = ClientKey {
        proxy: provider.proxy.clone(),
        connect_ms: provider.timeouts.connect_ms,
    };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = clients.get(&key) {
        return Ok(client.clone());
    }
    let client = build_client(provider, &key)?;
    if clients.len() >= MAX_CLIENTS {
        // Models that are open keep their own handle; only the sharing starts anew.
        clients.clear();
    }
    clients.insert(key, client.clone());
    Ok(client)
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
        .pool_idle_timeout(Duration::from_secs(90))
        .pool_max_idle_per_host(64)
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("runloom/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = &key.proxy {
        let proxy = Proxy::all(proxy)
            .map_err(|_| provider.invalid("`proxy` is not a proxy's URL".to_owned()))?;
        builder = builder.proxy(proxy);
    }
    builder
        .build()
        .map_err(|failure| provider.invalid(format!("no HTTP client can be built: {failure}")))
}
