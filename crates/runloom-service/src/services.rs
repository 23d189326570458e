//! The services of a process.

use std::sync::Arc;

use runloom_protocol::resource::{InstalledPlugin, ToolsetTool};

use crate::ag_ui::AgUiService;
use crate::ag_ui_settings::AgUiSettings;
use crate::approvals::ApprovalService;
use crate::auth::Authenticator;
use crate::backlog_limit::{BacklogLimit, BacklogLimits};
use crate::conversations::Conversations;
use crate::create_run::RunCreation;
use crate::dispatcher::Dispatcher;
use crate::dry_run::DryRunService;
use crate::error::{Error, Result};
use crate::feedback::FeedbackService;
use crate::health::HealthService;
use crate::memory::MemoryService;
use crate::oauth::OAuthService;
use crate::project::ProjectService;
use crate::published_agents::PublishedAgentService;
use crate::rate::RateLimiter;
use crate::registry::RegistryService;
use crate::runs::RunService;
use crate::sessions::SessionService;
use crate::spec_resolver::SpecResolver;
use crate::tenancy::TenancyService;
use crate::usage::UsageService;
use runloom_engine::catalog::Catalog;
use runloom_engine::hub::Hub;
use runloom_engine::live_catalog::LiveCatalog;
use runloom_engine::planner::Planner;
use runloom_engine::worker::Worker;
use runloom_ports::bus::Bus;
use runloom_ports::clock::Clock;
use runloom_ports::queue::Queue;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::Store;
use runloom_ports::tools::ToolHost;

/// The ports and parts that the services use.
pub struct ServiceParts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// Offers runs to workers.
    pub queue: Arc<dyn Queue>,
    /// Wake-ups between processes.
    pub bus: Arc<dyn Bus>,
    /// Streams of live runs.
    pub hub: Arc<Hub>,
    /// Plans runs.
    pub planner: Arc<Planner>,
    /// Agents, tools, secrets and providers of workspaces.
    pub registry: Arc<RegistryService>,
    /// Checks the server tools of a spec.
    pub tools: Arc<dyn ToolHost>,
    /// Memories of workspaces.
    pub memory: Arc<MemoryService>,
    /// The project tool.
    pub project: Arc<ProjectService>,
    /// The worker of this process, if it drives runs.
    pub worker: Option<Arc<Worker>>,
    /// Ends cancelled runs that no worker holds: that worker, or one that does nothing else. Without it they are
    /// offered to the queue.
    pub ender: Option<Arc<Worker>>,
    /// While it drains, no runs are accepted; streams end in their phase.
    pub shutdown: Shutdown,
    /// Limits of the backlog.
    pub backlog: BacklogLimits,
    /// Settings of AG-UI.
    pub ag_ui: AgUiSettings,
}

/// The services of a process, one for each group of use cases.
pub struct Services {
    runs: Arc<RunService>,
    sessions: Arc<SessionService>,
    ag_ui: Arc<AgUiService>,
    published_agents: PublishedAgentService,
    dry_runs: DryRunService,
    approvals: Arc<ApprovalService>,
    feedback: FeedbackService,
    usage: UsageService,
    health: HealthService,
    registry: Arc<RegistryService>,
    memory: Arc<MemoryService>,
    project: Arc<ProjectService>,
    tenancy: TenancyService,
    oauth: OAuthService,
    auth: Authenticator,
    rates: RateLimiter,
    tools: Arc<dyn ToolHost>,
    catalog: Arc<LiveCatalog>,
    clock: Clock,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

impl Services {
    /// Builds the services.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "wiring: one service after the other")]
    pub fn new(
        parts: ServiceParts,
        auth: Authenticator,
        rates: RateLimiter,
        tenancy: TenancyService,
    ) -> Self {
        let ServiceParts {
            store,
            queue,
            bus,
            hub,
            planner,
            registry,
            tools,
            memory,
            project,
            worker,
            ender,
            shutdown,
            backlog,
            ag_ui,
        } = parts;
        let dispatcher = Dispatcher {
            worker,
            ender,
            queue: Arc::clone(&queue),
            bus: Arc::clone(&bus),
        };
        let resolver = Arc::new(SpecResolver {
            registry: Arc::clone(&registry),
            tools: Arc::clone(&tools),
            catalog: Arc::clone(&planner.catalog),
            fetches: Default::default(),
        });
        let conversations = Arc::<Conversations>::default();
        let creation = Arc::new(RunCreation {
            store: Arc::clone(&store),
            hub: Arc::clone(&hub),
            planner: Arc::clone(&planner),
            dispatcher: dispatcher.clone(),
            backlog: BacklogLimit::new(Arc::clone(&store), backlog),
            conversations: Arc::clone(&conversations),
            shutdown: shutdown.clone(),
            clock: Clock,
        });
        let runs = Arc::new(RunService {
            store: Arc::clone(&store),
            hub,
            resolver: Arc::clone(&resolver),
            creation: Arc::clone(&creation),
            dispatcher: dispatcher.clone(),
            shutdown,
            clock: Clock,
        });
        let sessions = Arc::new(SessionService {
            store: Arc::clone(&store),
            resolver: Arc::clone(&resolver),
            creation: Arc::clone(&creation),
            conversations,
            dispatcher: dispatcher.clone(),
            clock: Clock,
        });
        let approvals = Arc::new(ApprovalService {
            store: Arc::clone(&store),
            schemas: Arc::clone(&planner.schemas),
            dispatcher: dispatcher.clone(),
            clock: Clock,
        });
        let ag_ui = AgUiService {
            approvals: Arc::clone(&approvals),
            store: Arc::clone(&store),
            runs: Arc::clone(&runs),
            sessions: Arc::clone(&sessions),
            resolver: Arc::clone(&resolver),
            creation: Arc::clone(&creation),
            dispatcher,
            settings: ag_ui,
            clock: Clock,
        };
        Self {
            ag_ui: Arc::new(ag_ui),
            published_agents: PublishedAgentService {
                store: Arc::clone(&store),
                registry: Arc::clone(&registry),
                creation,
                runs: Arc::clone(&runs),
                sessions: Arc::clone(&sessions),
            },
            dry_runs: DryRunService {
                store: Arc::clone(&store),
                resolver,
                planner: Arc::clone(&planner),
                tools: Arc::clone(&tools),
                clock: Clock,
            },
            approvals,
            feedback: FeedbackService {
                store: Arc::clone(&store),
                clock: Clock,
            },
            usage: UsageService {
                store: Arc::clone(&store),
                clock: Clock,
            },
            health: HealthService {
                store: Arc::clone(&store),
                queue,
                bus,
                written: tokio::sync::Mutex::default(),
            },
            oauth: OAuthService::new(Arc::clone(&store), &tenancy),
            auth: auth.knowing_tokens(store),
            catalog: Arc::clone(&planner.catalog),
            runs,
            sessions,
            registry,
            memory,
            project,
            tenancy,
            rates,
            tools,
            clock: Clock,
        }
    }

    /// Runs: create, read, stream, tool results, cancel.
    #[must_use]
    pub fn runs(&self) -> &RunService {
        &self.runs
    }

    /// Sessions and their messages.
    #[must_use]
    pub fn sessions(&self) -> &SessionService {
        &self.sessions
    }

    /// Threads of AG-UI clients.
    #[must_use]
    pub fn ag_ui(&self) -> &Arc<AgUiService> {
        &self.ag_ui
    }

    /// Agents over A2A and MCP.
    #[must_use]
    pub fn published_agents(&self) -> &PublishedAgentService {
        &self.published_agents
    }

    /// Runs without a model call.
    #[must_use]
    pub fn dry_runs(&self) -> &DryRunService {
        &self.dry_runs
    }

    /// Approvals and their decisions.
    #[must_use]
    pub fn approvals(&self) -> &ApprovalService {
        &self.approvals
    }

    /// Feedback on runs.
    #[must_use]
    pub fn feedback(&self) -> &FeedbackService {
        &self.feedback
    }

    /// Usage reports.
    #[must_use]
    pub fn usage(&self) -> &UsageService {
        &self.usage
    }

    /// Readiness and metrics.
    #[must_use]
    pub fn health(&self) -> &HealthService {
        &self.health
    }

    /// Agents, tools, secrets and providers of workspaces.
    #[must_use]
    pub fn registry(&self) -> &Arc<RegistryService> {
        &self.registry
    }

    /// Memories of workspaces.
    #[must_use]
    pub fn memory(&self) -> &MemoryService {
        &self.memory
    }

    /// The project tool.
    #[must_use]
    pub fn project(&self) -> &ProjectService {
        &self.project
    }

    /// Workspaces and API keys.
    #[must_use]
    pub fn tenancy(&self) -> &TenancyService {
        &self.tenancy
    }

    /// Users, OAuth apps and grants.
    #[must_use]
    pub fn oauth(&self) -> &OAuthService {
        &self.oauth
    }

    /// Checks credentials.
    #[must_use]
    pub fn auth(&self) -> &Authenticator {
        &self.auth
    }

    /// Rate limits.
    #[must_use]
    pub fn rates(&self) -> &RateLimiter {
        &self.rates
    }

    /// The plugins that ship with the server, for a workspace.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn installed_plugins(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        Ok(self.tools.installed(workspace).await?)
    }

    /// The tools of a toolset as its server lists them now. Opens the connection.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Unavailable`] with the reason when the toolset cannot be opened.
    pub async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Vec<ToolsetTool>> {
        let tools = self.tools.toolset_tools(workspace, name).await?;
        tools.ok_or(Error::NotFound { what: "toolset" })
    }

    /// The current catalog of models.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.now()
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}
