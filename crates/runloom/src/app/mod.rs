//! The server in one process: opens and connects all parts, and closes them in order.
//!
//! [`App::start`] takes its listener and its configuration from the caller, so that tests own both.

mod declare;
mod fabric;
mod listeners;
pub(crate) mod model_lists;
pub(crate) mod models;
mod monthly_budgets;
pub(crate) mod server_config;
mod tools;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use runloom_engine::driver::DriverSettings;
use runloom_engine::hub::Hub;
use runloom_engine::live_catalog::LiveCatalog;
use runloom_engine::planner::Planner;
use runloom_engine::worker::{Worker, WorkerParts, WorkerSettings};
use runloom_ports::bus::Bus;
use runloom_ports::sealer::Sealer;
use runloom_ports::store::Store;
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::ToolHost;
use runloom_project::ModuleSet;
use runloom_schema::SchemaCache;
use runloom_service::auth::{Authenticator, KeyCache, KeyRing};
use runloom_service::listener::listen;
use runloom_service::memory::MemoryService;
use runloom_service::project::ProjectService;
use runloom_service::rate::{RateLimiter, RateLimits};
use runloom_service::registry::{RegistryService, SecretInjectingHost};
use runloom_service::tenancy::TenancyService;
use runloom_service::vault::Vault;
use runloom_service::{BacklogLimits, ServiceParts, Services};
use runloom_store::OpenOptions;
use tokio::net::TcpListener;
use tracing::{info, warn};

use self::fabric::Fabric;
use self::listeners::Listeners;
use self::models::Models;
use crate::config::Config;
use crate::telemetry::traces;

pub(crate) use tools::{PROJECT_CLI, SANDBOX_COMMAND};

/// How long a driver may take to release its run after it was interrupted.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// How often a stream polls the store when other processes may drive its run.
const LOOK: Duration = Duration::from_secs(2);

/// The part of the work that a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    All,
    /// Serves requests; workers drive the runs.
    Api,
    /// Drives runs; other processes serve requests.
    Worker,
}

/// A running server.
pub struct App {
    address: SocketAddr,
    watched: Option<SocketAddr>,
    service: Arc<Services>,
    tasks: Tasks,
    connections: Tasks,
    /// Exports traces; runs until the last run ended.
    tracing: Tasks,
    drain: Duration,
}

impl App {
    /// Opens everything and serves on `listener`. Requests are served when this returns.
    ///
    /// # Errors
    /// The store cannot be opened, or a declared resource cannot be created.
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
        let tracing = Tasks::default();
        let parts = (master_key, store);
        let service = wire(config, role, parts, (&tasks, &tracing)).await?;
        let listeners = Listeners {
            settings: listeners::settings(config, address),
            service: Arc::clone(&service),
            shutdown: tasks.shutdown.clone(),
            connections: Tasks::default(),
        };
        let watched = match &config.server.metrics_listen {
            Some(address) => Some(listeners.watch(address).await?),
            None => None,
        };
        if role != Role::Api {
            listeners.serve_project().await?;
        }
        listeners.open(role, listener);
        let connections = listeners.connections;
        Ok(Self {
            address,
            watched,
            service,
            tasks,
            connections,
            tracing,
            drain: Duration::from_millis(config.runs.drain_ms),
        })
    }

    /// The address of the API.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the metrics listener, if there is one.
    #[must_use]
    pub fn watched(&self) -> Option<SocketAddr> {
        self.watched
    }

    /// The use cases, for callers inside the process.
    #[must_use]
    pub fn service(&self) -> &Arc<Services> {
        &self.service
    }

    /// Stops in order, in bounded time.
    pub async fn stop(self) {
        // 1. Stop claiming. Runs continue to their next step boundary and are released there.
        self.tasks.shutdown.drain();
        // 2. Runs that do not get there in time are interrupted and released; their turn is repeated elsewhere.
        if tokio::time::timeout(self.drain, self.tasks.ended())
            .await
            .is_err()
        {
            info!(
                runs = self.tasks.len(),
                "interrupting runs after the drain timeout"
            );
            self.tasks.shutdown.interrupt();
            if tokio::time::timeout(KILL_GRACE, self.tasks.ended())
                .await
                .is_err()
            {
                warn!(
                    tasks = self.tasks.len(),
                    "tasks still running at exit; their runs are recovered at the next start"
                );
            }
        }
        // 3. No run ends here any more: export the last traces.
        self.tracing.shutdown.drain();
        if tokio::time::timeout(traces::LAST_WORDS, self.tracing.ended())
            .await
            .is_err()
        {
            warn!("trace export timed out at exit");
        }
        // 4. End streams, so that clients resume elsewhere, then stop accepting and close connections.
        self.tasks.shutdown.end_streams();
        self.tasks.shutdown.close_connections();
        self.connections.ended().await;
        // 5. The store closes when its last owner is dropped, which is here.
        drop(self.service);
    }
}

fn hub(bus: &Arc<dyn Bus>) -> Hub {
    if bus.is_shared() {
        Hub::shared(Arc::clone(bus), LOOK)
    } else {
        Hub::default()
    }
}

#[expect(clippy::too_many_lines, reason = "wiring: one part after the other")]
async fn wire(
    config: &Config,
    role: Role,
    (master_key, store): (&[u8], Arc<dyn Store>),
    (tasks, tracing): (&Tasks, &Tasks),
) -> Result<Arc<Services>> {
    let Fabric {
        queue,
        bus,
        windows,
    } = fabric::open(config, role, tasks).await?;
    let hub = Arc::new(hub(&bus));
    let sealer: Arc<dyn Sealer> = Arc::new(vault(config, master_key));
    let catalog = Arc::new(LiveCatalog::default());
    let registry = RegistryService::new(
        Arc::clone(&store),
        Arc::clone(&sealer),
        Arc::clone(&catalog),
        Arc::new(Models::declared(config)?),
    );
    let registry = registry
        .announcing(Arc::clone(&bus))
        .taking_code(config.code.enabled)
        .with_operator_toolsets(tools::operator_toolsets(config))
        .with_projects(modules(config), configured_projects(config));
    let registry = Arc::new(registry);
    let source = Arc::downgrade(&registry);
    catalog.set_source(source);
    let memory = Arc::new(MemoryService::new(Arc::clone(&store)));
    let project = ProjectService::new(Arc::clone(&store), Arc::clone(&memory), master_key);
    let project = Arc::new(project);
    let tools: Arc<dyn ToolHost> = Arc::new(SecretInjectingHost::new(
        tools::open(config, &registry, &memory, &project, tasks)?,
        Arc::clone(&registry) as _,
    ));
    // Before the worker, which needs the models and budgets of the runs that it resumes.
    registry
        .refresh_catalog()
        .await
        .context("cannot read the stored providers")?;
    let (auth, tenancy) = doors(config, master_key, &store, &*sealer).await?;
    let tenancy = tenancy.announcing(Arc::clone(&bus));
    let planner = Arc::new(Planner {
        catalog,
        schemas: Arc::new(SchemaCache::new()),
        sealer,
        monthly_budgets: Arc::new(monthly_budgets::monthly_budgets(config, &tenancy).await?),
        max_tool_turns: config.runs.max_tool_turns,
        max_sub_runs: config.runs.max_sub_runs,
        agents: Arc::<RegistryService>::clone(&registry),
    });
    // Also before the worker: resumed runs use the current configuration, and a server that cannot start claims none.
    declare::declare((&store, &tenancy), &registry, config).await?;
    let parts = WorkerParts {
        store: Arc::clone(&store),
        queue: Arc::clone(&queue),
        bus: Arc::clone(&bus),
        hub: Arc::clone(&hub),
        planner: Arc::clone(&planner),
        tools: Arc::clone(&tools),
        files: Arc::new(runloom_service::files::Reader),
        tracer: traces::open(tracing),
        tasks: tasks.clone(),
    };
    let (worker, ender) = workers(role, parts, worker_settings(config));
    let rates = match windows {
        Some(windows) => rates(config).sharing(windows),
        None => rates(config),
    };
    let parts = ServiceParts {
        memory,
        project,
        store,
        queue,
        bus: Arc::clone(&bus),
        hub: Arc::clone(&hub),
        planner,
        registry,
        tools,
        worker: worker.clone(),
        ender: Some(ender),
        shutdown: tasks.shutdown.clone(),
        backlog: backlog_limits(config),
        ag_ui: config.ag_ui,
    };
    let service = Arc::new(Services::new(parts, auth, rates, tenancy));
    listen(bus, hub, worker, Arc::clone(&service), tasks);
    Ok(service)
}

/// The worker of a process that drives runs, and the cancelling of queued runs.
fn workers(
    role: Role,
    parts: WorkerParts,
    settings: WorkerSettings,
) -> (Option<Arc<Worker>>, Arc<Worker>) {
    if role == Role::Api {
        return (None, Worker::for_endings(parts, settings));
    }
    let worker = Worker::start(parts, settings);
    (Some(Arc::clone(&worker)), worker)
}

/// Authentication: stored keys, and access tokens.
async fn doors(
    config: &Config,
    master_key: &[u8],
    store: &Arc<dyn Store>,
    sealer: &dyn Sealer,
) -> Result<(Authenticator, TenancyService)> {
    let first_key = config
        .server
        .previous_master_key
        .as_ref()
        .map_or(master_key, |key| key.expose().as_bytes());
    let keys = KeyRing::kept(&**store as _, sealer, first_key)
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

fn vault(config: &Config, master_key: &[u8]) -> Vault {
    let vault = Vault::new(master_key);
    match &config.server.previous_master_key {
        Some(previous) => vault.with_previous(previous.expose().as_bytes()),
        None => vault,
    }
}

fn rates(config: &Config) -> RateLimiter {
    RateLimiter::new(RateLimits {
        run_starts_per_minute: config.limits.run_starts_per_minute,
        lifecycle_per_minute: config.limits.lifecycle_per_minute,
        writes_per_minute: config.limits.writes_per_minute,
        reads_per_minute: config.limits.reads_per_minute,
    })
}

fn backlog_limits(config: &Config) -> BacklogLimits {
    BacklogLimits {
        max_backlog: config.limits.max_backlog,
        max_backlog_per_workspace: config.limits.max_backlog_per_workspace,
    }
}

fn worker_settings(config: &Config) -> WorkerSettings {
    let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 3600);
    WorkerSettings {
        max_concurrent: config.runs.max_concurrent,
        retention: config.runs.retention_days.map(days),
        session_retention: config.session_retention_days.map(days),
        driver: DriverSettings {
            local_tool_timeout: Duration::from_millis(config.runs.local_tool_timeout_ms),
            park_after: Duration::from_millis(config.runs.park_after_ms),
            approval_timeout: Duration::from_millis(config.runs.approval_timeout_ms),
            ..DriverSettings::default()
        },
    }
}

/// The modules that projects may name.
fn modules(config: &Config) -> Arc<ModuleSet> {
    Arc::new(ModuleSet::with_operator(config.project_modules.clone()))
}

/// The workspaces whose project the file declares.
fn configured_projects(config: &Config) -> BTreeSet<String> {
    let declared = config.workspaces.iter();
    let declared = declared.filter(|workspace| workspace.project.is_some());
    declared.map(|workspace| workspace.slug.clone()).collect()
}
