//! Connections and listings, shared by the runs of a workspace that use the same server with the same headers.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use runloom_ports::tasks::Tasks;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::endpoint::{Checked, Endpoint};
use super::link::{Fault, Link};
use super::listing::Listing;
use crate::host::ToolLimits;
use crate::outbound::Outbound;
use crate::places::{Place, Places, Scarce};

/// How often idle connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Bytes of listings that are kept to be used again, of all servers together; beyond them a server is asked each time.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// How long a process that failed twice in a row is left alone: this, doubled with every further failure, up to the most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// One server as one workspace sees it. Sessions are never shared between workspaces, whatever their headers say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    workspace: Arc<str>,
    place: String,
}

/// What is known about one server.
pub(super) struct Slot {
    key: Key,
    endpoint: Checked,
    is_process: bool,
    /// Calls at once: a server on the network bounds them itself, a process of ours cannot be relied upon to.
    turns: Arc<Semaphore>,
    /// How many turns there are.
    concurrency: u32,
    /// Failures in a row, and when the last was.
    failed: Mutex<Option<(Instant, u32)>>,
    /// Held while connecting, so that many runs make one connection.
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
    listing: Mutex<Option<(Instant, Arc<Listing>)>>,
    used: Mutex<Instant>,
    /// Somebody is asking whether the process still lives.
    doubted: AtomicBool,
    /// Its share of the connections, from the first connection on.
    place: OnceLock<Place>,
    /// Who works with it now; changed only while the slots are locked.
    users: AtomicUsize,
}

/// A slot that somebody works with; it is not closed meanwhile.
pub(super) struct Held {
    slot: Arc<Slot>,
    slots: Arc<Slots>,
}

/// Every slot, and how many there may be.
struct Slots {
    known: Mutex<HashMap<Key, Arc<Slot>>>,
    connections: Places,
    processes: Places,
}

/// All servers.
pub(super) struct Pool {
    outbound: Outbound,
    limits: ToolLimits,
    tasks: Tasks,
    slots: Arc<Slots>,
}

impl Pool {
    /// An empty pool; a task closes what is idle until the process stops.
    pub(super) fn new(outbound: Outbound, tasks: &Tasks, limits: ToolLimits) -> Self {
        let slots = Arc::new(Slots {
            known: Mutex::default(),
            connections: Places::new(limits.max_connections, limits.max_workspace_connections),
            // How many a workspace can have is up to the operator, who configures them.
            processes: Places::new(limits.max_processes, limits.max_processes),
        });
        let (swept, stop, idle) = (Arc::clone(&slots), tasks.stop.clone(), Idle::of(&limits));
        tasks.spawn("mcp idle connections", async move {
            while stop
                .run_until_cancelled(tokio::time::sleep(SWEEP_EVERY))
                .await
                .is_some()
            {
                sweep(&mut lock(&swept.known), idle);
            }
            lock(&swept.known).clear();
        });
        Self {
            outbound,
            limits,
            tasks: tasks.clone(),
            slots,
        }
    }

    /// The slot of a server; made when it is new.
    pub(super) fn slot(&self, workspace: &Arc<str>, endpoint: &Endpoint) -> Result<Held, Fault> {
        let (checked, place) = endpoint.checked(&self.outbound)?;
        let key = Key {
            workspace: Arc::clone(workspace),
            place,
        };
        let mut known = lock(&self.slots.known);
        if let Some(slot) = known.get(&key) {
            slot.touch();
            return Ok(Held::of(slot, &self.slots));
        }
        let is_process = endpoint.is_process();
        let concurrency = match is_process {
            true => self.limits.process_concurrency,
            false => u32::MAX,
        };
        let turns = usize::try_from(concurrency)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        let slot = Arc::new(Slot {
            key: key.clone(),
            endpoint: checked,
            is_process,
            turns: Arc::new(Semaphore::new(turns)),
            concurrency,
            failed: Mutex::default(),
            link: tokio::sync::Mutex::default(),
            listing: Mutex::default(),
            used: Mutex::new(Instant::now()),
            doubted: AtomicBool::new(false),
            place: OnceLock::new(),
            users: AtomicUsize::new(0),
        });
        let held = Held::of(&slot, &self.slots);
        // Once the server stops nobody sweeps any more: the slot then ends with whoever asked for it.
        if !self.tasks.stop.is_cancelled() {
            known.insert(key, slot);
        }
        Ok(held)
    }

    /// A live connection: the one there is, or a new one when there is none or it died.
    pub(super) async fn link(&self, slot: &Slot) -> Result<Arc<Link>, Fault> {
        let mut held = slot.link.lock().await;
        if let Some(link) = held.as_ref().filter(|link| link.is_alive()) {
            return Ok(Arc::clone(link));
        }
        // The dead one goes first, so that a failure to connect does not leave it in place.
        held.take();
        slot.may_start()?;
        if slot.place.get().is_none() {
            // Nobody else sets it: the connection is locked.
            let _ = slot.place.set(self.slots.place(slot).await);
        }
        let opened = Link::open(&self.outbound, &slot.endpoint, &self.limits, &self.tasks).await;
        let link = Arc::new(opened.inspect_err(|_| slot.note_failure())?);
        *held = Some(Arc::clone(&link));
        Ok(link)
    }

    /// How long a process may leave a request unanswered before it is doubted.
    pub(super) fn patience(&self) -> Duration {
        self.limits.process_answer
    }

    /// Asks a process that left a request unanswered whether it lives, and ends one that hangs: the next call starts another. A
    /// server on the network is somebody else's to restart.
    pub(super) fn doubt(&self, slot: &Held) {
        let stops = self.tasks.stop.is_cancelled();
        if !slot.is_process || stops || slot.doubted.swap(true, Ordering::AcqRel) {
            return;
        }
        let (slot, stop) = (slot.again(), self.tasks.stop.clone());
        let (patience, at_most) = (self.limits.process_answer, self.limits.call_timeout);
        self.tasks.spawn("mcp process probe", async move {
            let _doubt = Doubt(&slot);
            stop.run_until_cancelled(slot.end_if_it_hangs(patience, at_most))
                .await;
        });
    }

    /// The server's tools, at most a short time old; within the time that a server has to list them.
    pub(super) async fn tools(&self, slot: &Held, called: &str) -> Result<Arc<Listing>, Fault> {
        if let Some((when, tools)) = lock(&slot.listing).as_ref()
            && when.elapsed() < self.limits.listing_ttl
        {
            return Ok(Arc::clone(tools));
        }
        // Whoever only looks whether the tools are at hand goes away here, before a connection is made.
        tokio::task::yield_now().await;
        let within = self.limits.resolve_timeout;
        let late = || slot.late("it did not list its tools", within);
        let deadline = Instant::now() + within;
        let link = timeout_at(deadline, self.link(slot)).await;
        let link = link.map_err(|_| late())??;
        let listed = match timeout_at(deadline, link.list()).await {
            Ok(Ok(listing)) => Arc::new(listing),
            Ok(Err(fault)) => {
                slot.forget(&link).await;
                return Err(fault);
            }
            Err(_) if slot.is_process => {
                self.doubt(slot);
                return Err(late());
            }
            Err(_) => {
                slot.forget(&link).await;
                return Err(late());
            }
        };
        slot.worked();
        if listed.is_cut {
            let (tools, bytes) = (listed.tools.len(), listed.bytes);
            tracing::warn!(
                server = called,
                tools,
                bytes,
                "an MCP server lists more than is used; the rest is left out"
            );
        }
        if self.slots.kept_bytes() + listed.bytes <= MAX_KEPT_BYTES {
            *lock(&slot.listing) = Some((Instant::now(), Arc::clone(&listed)));
        }
        Ok(listed)
    }
}

impl Slots {
    fn places(&self, is_process: bool) -> &Places {
        match is_process {
            true => &self.processes,
            false => &self.connections,
        }
    }

    /// Waits for a place. One of those that nobody works with is closed for it when there is none: of the workspace's own when its share is
    /// used up. The caller bounds the time.
    async fn place(&self, slot: &Slot) -> Place {
        let workspace = &slot.key.workspace;
        let places = self.places(slot.is_process);
        let ask = |scarce| drop(self.longest_unused(slot, scarce));
        places.take_asking(workspace, ask).await
    }

    fn kept_bytes(&self) -> usize {
        let known = lock(&self.known);
        let bytes = |slot: &Arc<Slot>| lock(&slot.listing).as_ref().map_or(0, |kept| kept.1.bytes);
        known.values().map(bytes).sum()
    }

    fn longest_unused(&self, asking: &Slot, scarce: Scarce) -> Option<Arc<Slot>> {
        let mut known = lock(&self.known);
        let unused = known.values().filter(|slot| {
            let counts = scarce == Scarce::All || slot.key.workspace == asking.key.workspace;
            counts && slot.is_process == asking.is_process && !slot.is_in_use()
        });
        let key = unused.min_by_key(|slot| *lock(&slot.used))?.key.clone();
        known.remove(&key)
    }
}

impl Held {
    /// The slots must be locked.
    fn of(slot: &Arc<Slot>, slots: &Arc<Slots>) -> Self {
        slot.users.fetch_add(1, Ordering::AcqRel);
        Self {
            slot: Arc::clone(slot),
            slots: Arc::clone(slots),
        }
    }

    /// For somebody else who works with it.
    fn again(&self) -> Self {
        let _locked = lock(&self.slots.known);
        Self::of(&self.slot, &self.slots)
    }
}

impl Deref for Held {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let slot = &self.slot;
        let mut known = lock(&self.slots.known);
        let is_last = slot.users.fetch_sub(1, Ordering::AcqRel) == 1;
        // It is kept for later only where that keeps nobody waiting.
        let places = self.slots.places(slot.is_process);
        let is_kept = slot.place.get().is_some() && !places.is_wanted(&slot.key.workspace);
        let is_known = |known: &Arc<Slot>| Arc::ptr_eq(known, slot);
        let closed = if is_last && !is_kept && known.get(&slot.key).is_some_and(is_known) {
            known.remove(&slot.key)
        } else {
            None
        };
        drop(known);
        drop(closed);
    }
}

impl Slot {
    fn is_in_use(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Why something could not be done in time.
    pub(super) fn late(&self, what: &str, within: Duration) -> Fault {
        match self.place.get() {
            Some(_) => Fault::broken(format!("{what} within {within:?}")),
            None => Fault::passing("too many other MCP servers are in use at the moment"),
        }
    }

    /// Lets go of a connection that failed; the next call makes another.
    pub(super) async fn forget(&self, link: &Arc<Link>) {
        let mut held = self.link.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, link)) {
            held.take();
            self.note_failure();
        }
    }

    /// Asks once, and waits for the answer until the calls of this moment are over and some time more. One that does one thing after
    /// the other comes to the question when it is done with those, also with those that nobody waits for any more: whatever it says meanwhile
    /// shows that it lives. Calls that come later wait for the verdict, so that a process that hangs is found however often it is called.
    async fn end_if_it_hangs(&self, patience: Duration, at_most: Duration) {
        let held = self.link.lock().await.clone();
        let Some(link) = held.filter(|link| link.is_alive()) else {
            return;
        };
        let nobody_waits = async {
            let turns = tokio::time::timeout(at_most, self.turns.acquire_many(self.concurrency));
            let turns = turns.await;
            tokio::time::sleep(patience).await;
            turns
        };
        // The turns are kept until the process is let go of: who got one sooner would find it still there.
        let _turns = tokio::select! {
            biased;
            () = link.says_something() => return,
            // A connection that is broken is seen to by who uses it.
            _ = link.answers() => return,
            turns = nobody_waits => turns,
        };
        tracing::warn!(
            server = self.endpoint.label(),
            "an MCP process hangs; it is ended, and the next call starts another"
        );
        self.forget(&link).await;
        link.end();
    }

    /// A turn to call; it is given back when dropped.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    fn note_failure(&self) {
        let mut failed = lock(&self.failed);
        let times = failed.map_or(1, |(_, times)| times.saturating_add(1));
        *failed = Some((Instant::now(), times));
    }

    /// Refuses to start a process again at once when it failed: one that dies at its start must not keep the machine busy.
    fn may_start(&self) -> Result<(), Fault> {
        let Some((when, times)) = lock(&self.failed).filter(|_| self.is_process) else {
            return Ok(());
        };
        let pause = PAUSE
            .saturating_mul(1 << times.saturating_sub(2).min(10))
            .min(PAUSE_MAX);
        // One that lived and died is started again at once.
        if times < 2 || when.elapsed() >= pause {
            return Ok(());
        }
        Err(Fault::passing(format!(
            "its process failed {times} times in a row and is tried again later"
        )))
    }

    /// Takes note that the server answered.
    pub(super) fn worked(&self) {
        *lock(&self.failed) = None;
    }

    /// Takes note that the slot was of use, so that its idle time begins anew.
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }
}

/// Somebody is asking whether the process lives; others need not.
struct Doubt<'a>(&'a Slot);

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.0.doubted.store(false, Ordering::Release);
    }
}

/// How long slots are kept that nobody uses.
#[derive(Clone, Copy)]
struct Idle {
    listing: Duration,
    connection: Duration,
    process: Duration,
}

impl Idle {
    fn of(limits: &ToolLimits) -> Self {
        Self {
            listing: limits.listing_ttl,
            connection: limits.connection_idle,
            process: limits.process_idle,
        }
    }
}

/// Removes listings that are too old, and slots that nobody holds and nobody used for a while.
fn sweep(slots: &mut HashMap<Key, Arc<Slot>>, idle: Idle) {
    slots.retain(|_, slot| {
        lock(&slot.listing).take_if(|(when, _)| when.elapsed() >= idle.listing);
        let idle = if slot.is_process {
            idle.process
        } else {
            idle.connection
        };
        slot.is_in_use() || lock(&slot.used).elapsed() < idle
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
