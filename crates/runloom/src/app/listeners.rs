//! The listeners of a process: the API, and metrics with probes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use runloom_http::{AdminToken, ConnectionLimits, CorsOrigins, Router};
use runloom_ports::shutdown::Shutdown;
use runloom_ports::tasks::Tasks;
use runloom_service::Services;
use tokio::net::TcpListener;
use tracing::{info, warn};

use super::Role;
use crate::config::Config;

/// How long open requests may take after the runs were released.
const CLOSE_CONNECTIONS: Duration = Duration::from_secs(5);

/// HTTP settings from the configuration.
pub(super) fn settings(config: &Config, address: SocketAddr) -> runloom_http::Settings {
    let public_url = config.server.public_url.clone();
    runloom_http::Settings {
        issuer: public_url.unwrap_or_else(|| here(address)),
        max_body_bytes: config.limits.max_body_bytes,
        max_connections: config.server.max_connections,
        max_connections_per_address: config.server.max_connections_per_address,
        admin_token: config
            .server
            .admin_token
            .as_ref()
            .map(|token| AdminToken::new(token.expose())),
        public_url: config.server.public_url.clone(),
        dashboard: config.dashboard,
        cors_origins: CorsOrigins::new(config.server.cors_origins.clone()),
        ..runloom_http::Settings::default()
    }
}

/// The address of a listener as seen from its own machine.
fn here(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    format!("http://{address}")
}

/// The listeners, and their shutdown.
pub(super) struct Listeners {
    pub(super) settings: runloom_http::Settings,
    pub(super) service: Arc<Services>,
    pub(super) shutdown: Shutdown,
    pub(super) connections: Tasks,
}

impl Listeners {
    /// Serves the API; a worker serves only probes.
    pub(super) fn open(&self, role: Role, listener: TcpListener) {
        let assemble = match role {
            Role::All | Role::Api => runloom_http::router,
            Role::Worker => runloom_http::probe_router,
        };
        let router = assemble(
            Arc::clone(&self.service),
            self.settings.clone(),
            self.shutdown.clone(),
        );
        let limits = ConnectionLimits {
            total: self.settings.max_connections,
            per_address: self.settings.max_connections_per_address,
        };
        self.serve("http_listener", listener, router, limits);
    }

    /// Serves the loopback API of the project tool, on a free port of this machine only.
    pub(super) async fn serve_project(&self) -> Result<()> {
        let listener = runloom_http::listen("127.0.0.1:0")
            .await
            .context("cannot listen on 127.0.0.1 for the project tool")?;
        let address = listener
            .local_addr()
            .context("the listener has no address")?;
        let router = runloom_http::project_router(
            Arc::clone(&self.service),
            self.settings.clone(),
            self.shutdown.clone(),
        );
        self.serve("project_listener", listener, router, self.internal_limits());
        let base = format!("http://{address}/api/project/v1");
        self.service.project().serve_at(base);
        Ok(())
    }

    /// Serves metrics and probes. Returns the address.
    pub(super) async fn watch(&self, address: &str) -> Result<SocketAddr> {
        let listener = runloom_http::listen(address)
            .await
            .with_context(|| format!("cannot listen on {address} (server.metrics_listen)"))?;
        let address = listener
            .local_addr()
            .context("the listener has no address")?;
        let router = runloom_http::watch_router(
            Arc::clone(&self.service),
            self.settings.clone(),
            self.shutdown.clone(),
        );
        self.serve("metrics_listener", listener, router, self.internal_limits());
        info!(%address, "metrics listener started");
        Ok(address)
    }

    /// The limits of listeners that only the operator's own programs reach.
    fn internal_limits(&self) -> ConnectionLimits {
        ConnectionLimits::total(self.settings.max_connections)
    }

    fn serve(
        &self,
        name: &'static str,
        listener: TcpListener,
        router: Router,
        limits: ConnectionLimits,
    ) {
        let shutdown = self.shutdown.clone();
        self.connections.spawn(name, async move {
            let served = runloom_http::serve(listener, router, limits, shutdown, CLOSE_CONNECTIONS);
            if let Err(error) = served.await {
                warn!(%error, "listener failed");
            }
        });
    }
}
