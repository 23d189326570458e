//! Pool of MCP sessions, per workspace, server, headers and owner.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use runloom_ports::tasks::Tasks;
use runloom_protocol::backoff::Backoff;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::endpoint::{McpAddress, McpConnection, SessionOwner};
use super::listing::ToolListing;
use super::listing_cache::{ListingCache, ListingKey};
use super::session::{McpError, McpSession};
use crate::outbound::Outbound;
use crate::tool_limits::ToolLimits;
use crate::workspace_limits::{Capacity, Exhausted, WorkspaceLimits, WorkspacePermit};

/// Interval at which idle sessions are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Pauses before a process is started again after its second failure in a row and every further one.
const RESTART: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// One server and the owner of the session with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ServerKey {
    server: ListingKey,
    owner: SessionOwner,
}

/// The state of one server.
pub(super) struct PooledServer {
    key: ServerKey,
    address: McpAddress,
    /// Limits concurrent calls to a process; servers on the network limit them themselves.
    call_permits: Arc<Semaphore>,
    concurrency: u32,
    failures: Mutex<Option<FailureStreak>>,
    /// Locked while connecting, so that concurrent runs open one session.
    session: tokio::sync::Mutex<Option<Arc<McpSession>>>,
    last_used: Mutex<Instant>,
    /// How long the server is kept while it is not used.
    idle_close: Duration,
    /// Whether a probe of the process is running.
    is_probed: AtomicBool,
    /// The permit for a session, from the first session on.
    permit: OnceLock<WorkspacePermit>,
    /// Handles to this server; changed only while the table is locked.
    handles: AtomicUsize,
}

/// Failures in a row.
#[derive(Debug, Clone, Copy)]
struct FailureStreak {
    last: Instant,
    count: u32,
}

/// A server in use; it is not closed while a handle exists.
pub(super) struct ServerHandle {
    server: Arc<PooledServer>,
    table: Arc<ServerTable>,
}

/// All servers, and the limits on their number.
struct ServerTable {
    servers: Mutex<HashMap<ServerKey, Arc<PooledServer>>>,
    listings: ListingCache,
    connections: WorkspaceLimits,
    processes: WorkspaceLimits,
}

/// The pool.
pub(super) struct McpPool {
    outbound: Outbound,
    limits: ToolLimits,
    tasks: Tasks,
    table: Arc<ServerTable>,
}

impl McpPool {
    /// An empty pool. A task closes idle sessions until shutdown.
    pub(super) fn new(outbound: Outbound, tasks: &Tasks, limits: ToolLimits) -> Self {
        let table = Arc::new(ServerTable {
            servers: Mutex::default(),
            listings: ListingCache::new(limits.listing_ttl),
            connections: WorkspaceLimits::new(Capacity {
                total: limits.max_connections,
                per_workspace: limits.max_workspace_connections,
            }),
            // The operator configures processes, so workspaces have no limit of their own.
            processes: WorkspaceLimits::new(Capacity {
                total: limits.max_processes,
                per_workspace: limits.max_processes,
            }),
        });
        let (swept, shutdown) = (Arc::clone(&table), tasks.shutdown.clone());
        tasks.spawn("mcp_idle_sessions", async move {
            while shutdown
                .until_draining(tokio::time::sleep(SWEEP_INTERVAL))
                .await
                .is_some()
            {
                swept.sweep();
            }
            swept.servers.lock().clear();
        });
        Self {
            outbound,
            limits,
            tasks: tasks.clone(),
            table,
        }
    }

    /// A handle to the server of a connection.
    pub(super) fn server(&self, connection: &McpConnection<'_>) -> Result<ServerHandle, McpError> {
        let checked = connection.endpoint.check(&self.outbound)?;
        let server = ListingKey {
            workspace: Arc::clone(connection.workspace),
            fingerprint: checked.fingerprint,
        };
        let key = ServerKey {
            server,
            owner: connection.owner.clone(),
        };
        let mut servers = self.table.servers.lock();
        if let Some(server) = servers.get(&key) {
            server.touch();
            return Ok(ServerHandle::new(server, &self.table));
        }
        let concurrency = match checked.address.is_process() {
            true => self.limits.process_concurrency,
            false => u32::MAX,
        };
        let idle_default = match checked.address.is_process() {
            true => self.limits.process_idle,
            false => self.limits.connection_idle,
        };
        let permits = usize::try_from(concurrency)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        let server = Arc::new(PooledServer {
            key: key.clone(),
            address: checked.address,
            call_permits: Arc::new(Semaphore::new(permits)),
            concurrency,
            failures: Mutex::default(),
            session: tokio::sync::Mutex::default(),
            last_used: Mutex::new(Instant::now()),
            idle_close: connection.idle_close.unwrap_or(idle_default),
            is_probed: AtomicBool::new(false),
            permit: OnceLock::new(),
            handles: AtomicUsize::new(0),
        });
        let handle = ServerHandle::new(&server, &self.table);
        // After shutdown began, nothing is swept any more: the server is dropped with its last handle.
        if !self.tasks.shutdown.is_draining() {
            servers.insert(key, server);
        }
        Ok(handle)
    }

    /// The server's session, or a new one when there is none or it died.
    pub(super) async fn session(&self, server: &PooledServer) -> Result<Arc<McpSession>, McpError> {
        let mut current = server.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| session.is_alive()) {
            return Ok(Arc::clone(session));
        }
        // The dead session is dropped first, so that a failure to connect does not leave it in place.
        current.take();
        server.check_restart_pause()?;
        if server.permit.get().is_none() {
            // The session is locked, so the permit cannot be set twice.
            let _ = server.permit.set(self.table.permit(server).await);
        }
        let opening = McpSession::open(&self.outbound, &server.address, &self.limits, &self.tasks);
        let opened = opening.await;
        let session = Arc::new(opened.inspect_err(|_| server.note_failure())?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    /// How long a process may leave a call unanswered before it is probed.
    pub(super) fn probe_after(&self) -> Duration {
        self.limits.process_answer
    }

    /// Checks in the background whether a process that left a call unanswered still works, and kills one that hangs;
    /// the next call starts another. Servers on the network are not probed, because they cannot be restarted from
    /// here.
    pub(super) fn probe(&self, server: &ServerHandle) {
        let is_stopping = self.tasks.shutdown.is_draining();
        if !server.address.is_process()
            || is_stopping
            || server.is_probed.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (server, shutdown) = (server.another(), self.tasks.shutdown.clone());
        let (grace, call_timeout) = (self.limits.process_answer, self.limits.call_timeout);
        self.tasks.spawn("mcp_process_probe", async move {
            let _probe = ProbeGuard(&server);
            let check = server.kill_if_hanging(grace, call_timeout);
            shutdown.until_draining(check).await;
        });
    }

    /// The server's tools, cached for `listing_ttl`. `label` names the server in log lines.
    pub(super) async fn tools(
        &self,
        server: &ServerHandle,
        label: &str,
    ) -> Result<Arc<ToolListing>, McpError> {
        if let Some(cached) = self.table.listings.get(&server.key.server) {
            return Ok(cached);
        }
        // A caller that polls only once, to use a cached listing, stops here before a connection is made.
        tokio::task::yield_now().await;
        let timeout = self.limits.resolve_timeout;
        let timed_out = || server.timed_out("it did not list its tools", timeout);
        let deadline = Instant::now() + timeout;
        let session = timeout_at(deadline, self.session(server)).await;
        let session = session.map_err(|_| timed_out())??;
        let listing = match timeout_at(deadline, session.list()).await {
            Ok(Ok(listing)) => Arc::new(listing),
            Ok(Err(error)) => {
                server.drop_session(&session).await;
                return Err(error);
            }
            Err(_) if server.address.is_process() => {
                self.probe(server);
                return Err(timed_out());
            }
            Err(_) => {
                server.drop_session(&session).await;
                return Err(timed_out());
            }
        };
        server.note_success();
        if listing.is_truncated {
            let (tools, bytes) = (listing.tools.len(), listing.bytes);
            tracing::warn!(
                server = label,
                tools,
                bytes,
                "MCP listing exceeds the limits; the rest is omitted"
            );
        }
        self.table.listings.put(&server.key.server, &listing);
        Ok(listing)
    }
}

impl ServerTable {
    fn limits(&self, server: &PooledServer) -> &WorkspaceLimits {
        match server.address.is_process() {
            true => &self.processes,
            false => &self.connections,
        }
    }

    /// Waits for a permit. If there is none, the unused server that was idle the longest is closed: one of the same
    /// workspace if the workspace's own limit is exhausted. The caller bounds the time.
    async fn permit(&self, server: &PooledServer) -> WorkspacePermit {
        let reclaim = |exhausted| drop(self.remove_longest_idle(server, exhausted));
        let limits = self.limits(server);
        limits.acquire_or_reclaim(server.workspace(), reclaim).await
    }

    /// Removes expired listings, and servers without handles that were idle for too long.
    fn sweep(&self) {
        self.listings.sweep();
        let is_idle = |server: &Arc<PooledServer>| {
            !server.is_in_use() && server.last_used.lock().elapsed() >= server.idle_close
        };
        let mut servers = self.servers.lock();
        let idle: Vec<_> = servers.extract_if(|_, server| is_idle(server)).collect();
        // Sessions are closed after the table is unlocked.
        drop(servers);
        drop(idle);
    }

    fn remove_longest_idle(
        &self,
        needed_by: &PooledServer,
        exhausted: Exhausted,
    ) -> Option<Arc<PooledServer>> {
        let mut servers = self.servers.lock();
        let unused = servers.values().filter(|server| {
            let counts =
                exhausted == Exhausted::Total || server.workspace() == needed_by.workspace();
            let is_same_kind = server.address.is_process() == needed_by.address.is_process();
            counts && is_same_kind && !server.is_in_use()
        });
        let key = unused
            .min_by_key(|server| *server.last_used.lock())?
            .key
            .clone();
        servers.remove(&key)
    }
}

impl ServerHandle {
    /// The table must be locked.
    fn new(server: &Arc<PooledServer>, table: &Arc<ServerTable>) -> Self {
        server.handles.fetch_add(1, Ordering::AcqRel);
        Self {
            server: Arc::clone(server),
            table: Arc::clone(table),
        }
    }

    /// Another handle to the same server.
    fn another(&self) -> Self {
        let _locked = self.table.servers.lock();
        Self::new(&self.server, &self.table)
    }
}

impl Deref for ServerHandle {
    type Target = PooledServer;

    fn deref(&self) -> &PooledServer {
        &self.server
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        let server = &self.server;
        let mut servers = self.table.servers.lock();
        let is_last = server.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        // An idle session is kept only if no caller waits for its permit.
        let is_contended = || {
            let limits = self.table.limits(server);
            limits.is_contended(server.workspace())
        };
        let is_kept = server.permit.get().is_some() && !is_contended();
        let is_current = |known: &Arc<PooledServer>| Arc::ptr_eq(known, server);
        let removed = if is_last && !is_kept && servers.get(&server.key).is_some_and(is_current) {
            servers.remove(&server.key)
        } else {
            None
        };
        // The session is closed after the table is unlocked.
        drop(servers);
        drop(removed);
    }
}

impl PooledServer {
    fn workspace(&self) -> &str {
        &self.key.server.workspace
    }

    fn is_in_use(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    /// The error of a timeout: of the server, or of waiting for a permit.
    pub(super) fn timed_out(&self, what: &str, timeout: Duration) -> McpError {
        match self.permit.get() {
            Some(_) => McpError::broken(format!("{what} within {timeout:?}")),
            None => McpError::transient("too many other MCP servers are in use at the moment"),
        }
    }

    /// Drops a session that failed; the next call opens another.
    pub(super) async fn drop_session(&self, session: &Arc<McpSession>) {
        let mut current = self.session.lock().await;
        if current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, session))
        {
            current.take();
            self.note_failure();
        }
    }

    /// Pings the process and waits for any output until all current calls have ended and `grace` has passed. A process
    /// that works on one request at a time answers after those, also after abandoned ones, and any output shows that it
    /// works. New calls wait for the verdict, so that a hanging process is found however often it is called.
    async fn kill_if_hanging(&self, grace: Duration, call_timeout: Duration) {
        let current = self.session.lock().await.clone();
        let Some(session) = current.filter(|session| session.is_alive()) else {
            return;
        };
        let all_calls_ended = async {
            let acquiring = self.call_permits.acquire_many(self.concurrency);
            let permits = tokio::time::timeout(call_timeout, acquiring).await;
            tokio::time::sleep(grace).await;
            permits
        };
        // The permits are held until the session is dropped, so that no new call uses it.
        let _permits = tokio::select! {
            biased;
            () = session.process_output() => return,
            // A broken session is dropped by the call that notices it.
            _ = session.ping() => return,
            permits = all_calls_ended => permits,
        };
        tracing::warn!(
            server = self.address.label(),
            "MCP process hangs and is killed; the next call starts another"
        );
        self.drop_session(&session).await;
        session.kill_process();
    }

    /// Waits for permission to call.
    pub(super) async fn call_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.call_permits).acquire_owned().await.ok()
    }

    fn note_failure(&self) {
        let mut failures = self.failures.lock();
        let count = failures.map_or(1, |streak| streak.count.saturating_add(1));
        *failures = Some(FailureStreak {
            last: Instant::now(),
            count,
        });
    }

    /// Refuses to restart a process too soon after repeated failures. A process that failed once is restarted at once.
    fn check_restart_pause(&self) -> Result<(), McpError> {
        let failures = *self.failures.lock();
        let Some(streak) = failures.filter(|_| self.address.is_process()) else {
            return Ok(());
        };
        let pause = RESTART.without_jitter(streak.count.saturating_sub(1));
        if streak.count < 2 || streak.last.elapsed() >= pause {
            return Ok(());
        }
        Err(McpError::transient(format!(
            "its process failed {} times in a row and is restarted later",
            streak.count
        )))
    }

    /// Ends the streak of failures.
    pub(super) fn note_success(&self) {
        *self.failures.lock() = None;
    }

    /// Restarts the idle timeout.
    pub(super) fn touch(&self) {
        *self.last_used.lock() = Instant::now();
    }
}

/// Marks a running probe, so that there is one at a time.
struct ProbeGuard<'a>(&'a PooledServer);

impl Drop for ProbeGuard<'_> {
    fn drop(&mut self) {
        self.0.is_probed.store(false, Ordering::Release);
    }
}
