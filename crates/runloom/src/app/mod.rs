//! The server in one process: every room opened, connected and, at the end, closed in order.
//!
//! [`App::start`] takes its listener and its configuration from the caller, so that tests own both.

mod declare;
mod fabric;
pub(crate) mod models;
mod purses;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use runloom_core::driver::DriverSettings;
use runloom_core::hub::Hub;
use runloom_core::listener::listen;
use runloom_core::live_catalog::LiveCatalog;
use runloom_core::planner::Planner;
use runloom_core::ports::store::Store;
use runloom_core::ports::tools::ToolHost;
use runloom_core::schema::SchemaCache;
use runloom_core::service::auth::{Authenticator, KeyCache, KeyRing};
use runloom_core::service::rate::{RateLimiter, RateLimits};
use runloom_core::service::registry::{FillingHost, RegistryService};
use runloom_core::service::tenancy::TenancyService;
use runloom_core::service::{Service, ServiceParts};
use runloom_core::tasks::Tasks;
use runloom_core::vault::Vault;
use runloom_core::worker::{Worker, WorkerParts, WorkerSettings};
use runloom_http::AdminToken;
use runloom_store::OpenOptions;
use runloom_tools::outbound::{Outbound, OutboundPolicy};
use runloom_tools::{Host, HostParts, SandboxProgram, ToolLimits};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::fabric::Fabric;
use self::models::Models;
use crate::cli::SANDBOX;
use crate::config::Config;

/// How long open requests may take to end after the runs have been handed over.
const CLOSE_CONNECTIONS: Duration = Duration::from_secs(5);
/// How long a driver may take to give its run back once it was told to end at once.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// How often a stream looks into the store by itself when other processes may drive its run.
const LOOK: Duration = Duration::from_secs(2);

/// Which part of the work a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    All,
    /// Answers requests; others drive the runs.
    Api,
    /// Drives runs; others answer requests.
    Worker,
}

/// A running server.
pub struct App {
    address: SocketAddr,
    service: Arc<Service>,
    tasks: Tasks,
    end_streams: CancellationToken,
    end_connections: CancellationToken,
    connections: Tasks,
    drain: Duration,
}

impl App {
    /// Opens everything and serves on `listener`. When this returns, requests are answered.
    ///
    /// # Errors
    /// When the store cannot be opened, or something that the configuration declares cannot be made.
    pub async fn start(
        config: &Config,
        role: Role,
        master_key: &[u8],
        listener: TcpListener,
    ) -> Result<Self> {
        let address = listener
            .local_addr()
            .context("the listener has no address")?;
        let store = runloom_store::open(&config.store.url(), OpenOptions::default())
            .await
            .with_context(|| format!("cannot open the store {}", config.store.shown()))?;
        let tasks = Tasks::default();
        let end_streams = CancellationToken::new();
        let service = wire(config, role, (master_key, store), &tasks, &end_streams).await?;
        declare::declare(&service, config).await?;
        let end_connections = CancellationToken::new();
        let connections = Tasks::default();
        serve(
            config,
            &service,
            listener,
            &end_streams,
            &end_connections,
            &connections,
        );
        Ok(Self {
            address,
            service,
            tasks,
            end_streams,
            end_connections,
            connections,
            drain: Duration::from_millis(config.runs.drain_ms),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The use cases, for what happens inside the process.
    #[must_use]
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Stops in order, in bounded time.
    pub async fn stop(self) {
        // 1. Stop claiming. Runs go on to their next step boundary and are handed over there.
        self.tasks.stop.cancel();
        // 2. What does not get there in time is dropped and handed over as it is: its turn is called again elsewhere.
        if tokio::time::timeout(self.drain, self.tasks.ended())
            .await
            .is_err()
        {
            info!(
                runs = self.tasks.len(),
                "interrupting runs that did not reach a step boundary"
            );
            self.tasks.kill.cancel();
            if tokio::time::timeout(KILL_GRACE, self.tasks.ended())
                .await
                .is_err()
            {
                warn!(
                    tasks = self.tasks.len(),
                    "leaving tasks behind; their runs are recovered at the next start"
                );
            }
        }
        // 3. End streams, so that clients resume elsewhere, then stop accepting and close connections.
        self.end_streams.cancel();
        self.end_connections.cancel();
        self.connections.ended().await;
        // 4. The store closes when its last owner is dropped: here.
        drop(self.service);
    }
}

async fn wire(
    config: &Config,
    role: Role,
    (master_key, store): (&[u8], Arc<dyn Store>),
    tasks: &Tasks,
    end_streams: &CancellationToken,
) -> Result<Arc<Service>> {
    let Fabric { queue, bus } = fabric::open(config, role, tasks).await?;
    let hub = Arc::new(if bus.is_shared() {
        Hub::shared(Arc::clone(&bus), LOOK)
    } else {
        Hub::default()
    });
    let vault = vault(config, master_key);
    let catalog = Arc::new(LiveCatalog::default());
    let registry = Arc::new(RegistryService::new(
        Arc::clone(&store),
        vault.clone(),
        Arc::clone(&catalog),
        Arc::new(Models::declared(config)?),
    ));
    let tools: Arc<dyn ToolHost> = Arc::new(FillingHost::new(
        tools(config, &registry, tasks)?,
        Arc::clone(&registry) as _,
    ));
    // Before the worker: it must find the models and the budgets of the runs that it takes up again.
    registry
        .refresh_catalog()
        .await
        .context("cannot read the stored providers")?;
    let (auth, tenancy) = doors(config, master_key, &store, &vault).await?;
    let planner = Arc::new(Planner {
        catalog,
        schemas: Arc::new(SchemaCache::new()),
        vault,
        purses: Arc::new(purses::purses(config, &tenancy).await?),
        max_tool_turns: config.runs.max_tool_turns,
    });
    let parts = WorkerParts {
        store: Arc::clone(&store),
        queue: Arc::clone(&queue),
        bus: Arc::clone(&bus),
        hub: Arc::clone(&hub),
        planner: Arc::clone(&planner),
        tools: Arc::clone(&tools),
        tasks: tasks.clone(),
    };
    let worker = (role != Role::Api).then(|| Worker::start(parts, worker_settings(config)));
    listen(Arc::clone(&bus), Arc::clone(&hub), worker.clone(), tasks);
    let rates = RateLimiter::new(RateLimits {
        run_starts_per_minute: config.limits.run_starts_per_minute,
        lifecycle_per_minute: config.limits.lifecycle_per_minute,
        writes_per_minute: config.limits.writes_per_minute,
        reads_per_minute: config.limits.reads_per_minute,
    });
    let parts = ServiceParts {
        store,
        queue,
        bus,
        hub,
        planner,
        registry,
        tools,
        worker,
        end_streams: end_streams.clone(),
    };
    Ok(Arc::new(Service::new(parts, auth, rates, tenancy)))
}

/// Who may come in, and who says so.
async fn doors(
    config: &Config,
    master_key: &[u8],
    store: &Arc<dyn Store>,
    vault: &Vault,
) -> Result<(Authenticator, TenancyService)> {
    let first_key = config
        .server
        .previous_master_key
        .as_ref()
        .map_or(master_key, |key| key.expose().as_bytes());
    let keys = KeyRing::kept(&**store as _, vault, first_key)
        .await
        .context("cannot open what the database keeps: is the master key the right one?")?;
    let keys = Arc::new(keys);
    let cache = Arc::new(KeyCache::default());
    let auth = Authenticator::new(
        Arc::clone(store) as _,
        Arc::clone(&keys),
        Arc::clone(&cache),
    );
    let tenancy = TenancyService::new(Arc::clone(store) as _, keys, cache);
    Ok((auth, tenancy))
}

fn tools(
    config: &Config,
    registry: &Arc<RegistryService>,
    tasks: &Tasks,
) -> Result<Arc<dyn ToolHost>> {
    let policy = OutboundPolicy {
        allow_private_networks: config.outbound.allow_private_networks,
        allow_hosts: config.outbound.allow_hosts.clone(),
        ..OutboundPolicy::default()
    };
    let parts = HostParts {
        outbound: Outbound::new(policy).context("[outbound] cannot be used")?,
        definitions: Arc::clone(registry) as _,
        sandbox: SandboxProgram::this_program(SANDBOX).context("cannot find this program")?,
        limits: ToolLimits::default(),
    };
    Ok(Arc::new(Host::new(parts, tasks)))
}

fn vault(config: &Config, master_key: &[u8]) -> Vault {
    let vault = Vault::new(master_key);
    match &config.server.previous_master_key {
        Some(previous) => vault.with_previous(previous.expose().as_bytes()),
        None => vault,
    }
}

fn worker_settings(config: &Config) -> WorkerSettings {
    let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 3600);
    WorkerSettings {
        max_concurrent: config.runs.max_concurrent,
        retention: config.runs.retention_days.map(days),
        driver: DriverSettings {
            local_tool_timeout: Duration::from_millis(config.runs.local_tool_timeout_ms),
            park_after: Duration::from_millis(config.runs.park_after_ms),
            ..DriverSettings::default()
        },
    }
}

fn serve(
    config: &Config,
    service: &Arc<Service>,
    listener: TcpListener,
    end_streams: &CancellationToken,
    end_connections: &CancellationToken,
    connections: &Tasks,
) {
    let settings = runloom_http::Settings {
        max_body_bytes: config.limits.max_body_bytes,
        admin_token: config
            .server
            .admin_token
            .as_ref()
            .map(|token| AdminToken::new(token.expose())),
        ..runloom_http::Settings::default()
    };
    let router = runloom_http::router(Arc::clone(service), settings, end_streams.clone());
    let token = end_connections.clone();
    connections.spawn("serve http", async move {
        if let Err(error) = runloom_http::serve(listener, router, token, CLOSE_CONNECTIONS).await {
            warn!(%error, "the listener failed");
        }
    });
}
