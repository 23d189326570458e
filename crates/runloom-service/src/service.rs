//! The service: what the use cases are made of.

use std::sync::Arc;

use runloom_protocol::resource::{InstalledPlugin, ToolsetTool};
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use runloom_engine::catalog::Catalog;
use runloom_engine::hub::Hub;
use runloom_engine::planner::Planner;
use runloom_engine::worker::{Driving, Worker};
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::clock::Clock;
use runloom_ports::queue::{Job, Queue};
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{Delivery, RunNo, Store, WorkspaceNo};
use runloom_ports::tools::ToolHost;

use crate::auth::Authenticator;
use crate::backlog_limit::{BacklogLimit, BacklogLimits};
use crate::conversations::Conversations;
use crate::fetch_limits::FetchLimits;
use crate::memory::MemoryService;
use crate::oauth::OAuthService;
use crate::rate::RateLimiter;
use crate::registry::RegistryService;
use crate::tenancy::TenancyService;

/// What the use cases are made of.
#[derive(Clone)]
pub struct ServiceParts {
    /// Where everything lives.
    pub store: Arc<dyn Store>,
    /// Where runs are offered to workers.
    pub queue: Arc<dyn Queue>,
    /// How other processes are told.
    pub bus: Arc<dyn Bus>,
    /// Live tails.
    pub hub: Arc<Hub>,
    /// Makes plans.
    pub planner: Arc<Planner>,
    /// Agents, tools, secrets and providers of workspaces.
    pub registry: Arc<RegistryService>,
    /// Checks the tools that the server executes.
    pub tools: Arc<dyn ToolHost>,
    /// What workspaces remember.
    pub memory: Arc<MemoryService>,
    /// The worker of this process, when it has one.
    pub worker: Option<Arc<Worker>>,
    /// Ends cancelled runs that nobody holds: that worker, or one for nothing else. Without it they are offered to the workers.
    pub ender: Option<Arc<Worker>>,
    /// While it drains, no runs are accepted; streams end in their phase.
    pub shutdown: Shutdown,
    /// How many runs may wait.
    pub admission: BacklogLimits,
}

/// The use cases.
pub struct Service {
    pub(crate) parts: ServiceParts,
    pub(crate) auth: Authenticator,
    pub(crate) rates: RateLimiter,
    pub(crate) tenancy: TenancyService,
    pub(crate) oauth: OAuthService,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) admission: Arc<BacklogLimit>,
    pub(crate) fetching: FetchLimits,
    pub(crate) clock: Clock,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    /// Puts the use cases together.
    #[must_use]
    pub fn new(
        parts: ServiceParts,
        auth: Authenticator,
        rates: RateLimiter,
        tenancy: TenancyService,
    ) -> Self {
        let admission = BacklogLimit::new(Arc::clone(&parts.store), parts.admission);
        let store = Arc::clone(&parts.store);
        Self {
            oauth: OAuthService::new(Arc::clone(&store), &tenancy),
            auth: auth.knowing_tokens(store),
            parts,
            rates,
            tenancy,
            conversations: Arc::default(),
            admission: Arc::new(admission),
            fetching: FetchLimits::default(),
            clock: Clock,
        }
    }

    /// Who calls.
    #[must_use]
    pub fn auth(&self) -> &Authenticator {
        &self.auth
    }

    /// How often they may.
    #[must_use]
    pub fn rates(&self) -> &RateLimiter {
        &self.rates
    }

    /// Workspaces and keys.
    #[must_use]
    pub fn tenancy(&self) -> &TenancyService {
        &self.tenancy
    }

    /// People, apps, and what the ones let the others do.
    #[must_use]
    pub fn oauth(&self) -> &OAuthService {
        &self.oauth
    }

    /// Agents, tools, secrets and providers of workspaces.
    #[must_use]
    pub fn registry(&self) -> &Arc<RegistryService> {
        &self.parts.registry
    }

    /// The plugins that a workspace has without keeping them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn installed_plugins(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        Ok(self.parts.tools.installed(workspace).await?)
    }

    /// The tools of a toolset as its server lists them now. Opens the connection.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Unavailable`] with the reason when the toolset cannot be opened.
    pub async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Vec<ToolsetTool>> {
        let tools = self.parts.tools.toolset_tools(workspace, name).await?;
        tools.ok_or(Error::NotFound { what: "toolset" })
    }

    /// What workspaces remember.
    #[must_use]
    pub fn memory(&self) -> &MemoryService {
        &self.parts.memory
    }

    /// The models.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.parts.planner.catalog.now()
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether requests can be served: the store answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ready(&self) -> Result<()> {
        self.parts.store.next_timer().await?;
        Ok(())
    }

    /// Carries `work` to its end even when the caller goes away in the middle, as the request of a client that hangs up does:
    /// what was made durable must also be acted upon.
    pub(crate) async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.run_detached_then(async move { work.await.map(|done| (done, None)) })
            .await
    }

    /// The same with something that goes on after the answer, in the same task: one less to be woken.
    pub(crate) async fn run_detached_then<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<(T, Option<Driving>)>> + Send + 'static,
    ) -> Result<T> {
        let Some(worker) = &self.parts.worker else {
            return work.await.map(|(done, _)| done);
        };
        let (reply, answer) = oneshot::channel();
        // Apart from what goes on: that may take hours, and the room that the work took is free again at once.
        let work = Box::pin(work);
        worker.tasks().spawn("create_run", async move {
            let worked = work.await;
            let (done, on) = match worked {
                Ok((done, on)) => (Ok(done), on),
                Err(error) => (Err(error), None),
            };
            // Nobody listens any more when the caller has gone.
            let _ = reply.send(done);
            if let Some(on) = on {
                on.await;
            }
        });
        answer
            .await
            .unwrap_or_else(|gone| Err(Error::internal(gone)))
    }
}

impl ServiceParts {
    /// Offers a run to the workers.
    pub(crate) fn offer(&self, run: RunNo, workspace: WorkspaceNo) {
        self.queue.push(Job {
            run,
            workspace: Some(workspace),
        });
    }

    /// Tells whoever is concerned that there is mail.
    pub(crate) fn notify(&self, delivery: Delivery, workspace: WorkspaceNo) {
        match (&self.worker, delivery) {
            (Some(worker), delivery) => worker.notify(delivery, workspace),
            (None, Delivery::Owner(run)) => self.bus.announce(Signal::Mail(run)),
            (None, Delivery::Queue(run)) => self.offer(run, workspace),
        }
    }

    /// Tells whoever is concerned that a run was cancelled.
    pub(crate) fn notify_cancel(&self, delivery: Delivery, workspace: WorkspaceNo) {
        match (&self.ender, delivery) {
            (Some(ender), Delivery::Queue(run)) => ender.end(run, workspace),
            _ => self.notify(delivery, workspace),
        }
    }
}
