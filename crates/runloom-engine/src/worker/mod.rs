//! The worker: claims runs, starts their drivers, wakes them, and releases them at shutdown.

mod cancel_queued;
mod crash_suspects;
mod mail_notifiers;
mod planning;
mod release_on_panic;
mod retention;
mod run_slots;
mod run_waker;
mod sweeper;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use runloom_protocol::spec::PromptMessage;
use tokio::sync::{Notify, Semaphore, watch};
use tracing::{Instrument, debug, error, info_span, warn};

use crate::driver::{
    CrashSuspicion, Driver, DriverParts, DriverSettings, Left, MailNotifier, RunTail, Start,
    WritePermits, compile_schemas,
};
use crate::hub::{Hub, LiveRun};
use crate::metrics::METRICS;
use crate::planner::{Planned, Planner};
use runloom_ports::bus::Bus;
use runloom_ports::clock::Clock;
use runloom_ports::file::FileReader;
use runloom_ports::queue::{Job, Queue};
use runloom_ports::store::{Claim, ClaimOutcome, Delivery, Millis, RunNo, Store, WorkspaceNo};
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::ToolHost;
use runloom_ports::trace::Tracer;

use cancel_queued::ENDINGS;
use crash_suspects::{CrashSuspects, TRUSTED};
use mail_notifiers::MailNotifiers;
use planning::DeferredRuns;
use release_on_panic::ReleaseOnPanic;
use run_slots::{RunSlot, RunSlots};
use run_waker::RunWaker;

/// The drive of one run, from its first step until the driver leaves it. Returns what the run added to its session,
/// unless another run of the session waits.
pub type Driving = Pin<Box<dyn Future<Output = Option<RunTail>> + Send>>;

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Number of run slots. Parked runs need none.
    pub max_concurrent: usize,
    /// Age at which finished runs and ended sessions are deleted; `None` keeps them.
    pub retention: Option<Duration>,
    /// Age at which unused sessions are deleted; `None` keeps them.
    pub session_retention: Option<Duration>,
    /// Settings of the drivers.
    pub driver: DriverSettings,
}

/// The ports and parts that a worker uses.
#[derive(Clone)]
pub struct WorkerParts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// The queue of runs that wait for a worker.
    pub queue: Arc<dyn Queue>,
    /// Wake-ups between processes.
    pub bus: Arc<dyn Bus>,
    /// Publishes chunks to subscribers.
    pub hub: Arc<Hub>,
    /// Plans claimed runs.
    pub planner: Arc<Planner>,
    /// Executes tools.
    pub tools: Arc<dyn ToolHost>,
    /// Reads the files that tools return.
    pub files: Arc<dyn FileReader>,
    /// Exports the traces of runs, if configured.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// Spawns the tasks of the worker.
    pub tasks: Tasks,
}

/// The worker of this process.
pub struct Worker {
    id: String,
    parts: WorkerParts,
    driver_parts: Arc<DriverParts>,
    settings: WorkerSettings,
    clock: Clock,
    slots: Arc<RunSlots>,
    notifiers: Arc<MailNotifiers>,
    /// Permits to end cancelled runs without a run slot.
    endings: Arc<Semaphore>,
    crash_suspects: CrashSuspects,
    deferred_runs: DeferredRuns,
    sweep: Arc<Notify>,
    next_sweep: AtomicI64,
    /// The last sweep found more than it offered.
    more: AtomicBool,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A run slot that is reserved for a run that is about to be created.
#[derive(Debug)]
pub struct ReservedSlot {
    _slot: RunSlot,
    /// State of the notifiers at the reservation.
    unheard: u64,
}

/// A run that was created with the lease of this worker.
pub struct LeasedRun {
    /// The claim that came with its creation.
    pub claim: Claim,
    /// Its plan.
    pub planned: Planned,
    /// The request's own messages.
    pub request: Vec<PromptMessage>,
    /// Keeps the run in the hub until its driver has it.
    pub live: Arc<LiveRun>,
}

/// The conditions of a claim.
struct ClaimTerms {
    /// The claim is refused when it would be a later attempt than this one.
    max_attempts: u32,
    /// Held by a crash suspect.
    suspicion: Option<CrashSuspicion>,
}

impl ClaimTerms {
    /// The terms of a run that is no crash suspect.
    fn ordinary() -> Self {
        Self {
            max_attempts: TRUSTED,
            suspicion: None,
        }
    }
}

impl Worker {
    /// Starts the loops of a worker: heartbeat, claiming, sweeping and retention.
    #[must_use]
    pub fn start(parts: WorkerParts, settings: WorkerSettings) -> Arc<Self> {
        let worker = Arc::new(Self::new(parts, settings));
        let (claiming, sweeping) = (Arc::clone(&worker), Arc::clone(&worker));
        let (living, deleting) = (Arc::clone(&worker), Arc::clone(&worker));
        let tasks = &worker.parts.tasks;
        tasks.spawn("heartbeat", async move { living.heartbeat_loop().await });
        tasks.spawn("claim_runs", async move { claiming.claim_runs().await });
        tasks.spawn("sweep_runs", async move { sweeping.sweep_runs().await });
        tasks.spawn("retention", async move { deleting.delete_old().await });
        worker
    }

    fn new(parts: WorkerParts, settings: WorkerSettings) -> Self {
        let notifiers = Arc::<MailNotifiers>::default();
        let waker = RunWaker {
            notifiers: Arc::clone(&notifiers),
            bus: Arc::clone(&parts.bus),
            queue: Arc::clone(&parts.queue),
        };
        let driver_parts = DriverParts {
            log: parts.store.clone(),
            ledger: parts.store.clone(),
            hub: Arc::clone(&parts.hub),
            tools: Arc::clone(&parts.tools),
            files: Arc::clone(&parts.files),
            settings: settings.driver.clone(),
            write_permits: WritePermits::default(),
            shutdown: parts.tasks.shutdown.clone(),
            sub_runs: Arc::<Planner>::clone(&parts.planner),
            waker: Arc::new(waker),
            call_policy: None,
        };
        Self {
            id: format!("worker_{}", Clock.new_id()),
            slots: RunSlots::new(settings.max_concurrent),
            driver_parts: Arc::new(driver_parts),
            parts,
            settings,
            clock: Clock,
            notifiers,
            endings: Arc::new(Semaphore::new(ENDINGS)),
            crash_suspects: CrashSuspects::default(),
            deferred_runs: DeferredRuns::default(),
            sweep: Arc::default(),
            next_sweep: AtomicI64::new(i64::MAX),
            more: AtomicBool::new(false),
        }
    }

    /// The id under which this worker holds leases.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tasks of this worker.
    pub fn tasks(&self) -> &Tasks {
        &self.parts.tasks
    }

    /// Number of runs that are driven now.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.notifiers.len()
    }

    /// Whether a run of this workspace could start now. False while jobs wait in the queue, which come first.
    #[must_use]
    pub fn has_room(&self, workspace: WorkspaceNo) -> bool {
        !self.parts.tasks.shutdown.is_draining()
            && self.parts.queue.depth() == 0
            && self.slots.admits(Some(workspace))
    }

    /// Reserves a run slot for a run that is about to be created. `None` when the workspace gets none now or the worker
    /// is stopping.
    #[must_use]
    pub fn reserve(&self, workspace: WorkspaceNo) -> Option<ReservedSlot> {
        if !self.has_room(workspace) {
            return None;
        }
        self.slots.take(Some(workspace)).map(|slot| ReservedSlot {
            _slot: slot,
            unheard: self.notifiers.unheard(),
        })
    }

    /// The drive of a run that was created with the lease of this worker. The caller polls it in a task of this worker.
    pub fn begin(self: &Arc<Self>, slot: ReservedSlot, run: LeasedRun) -> Driving {
        count(&run.claim);
        let notifier = self.notifiers.install(run.claim.lease.run, slot.unheard);
        let worker = Arc::clone(self);
        Box::pin(async move {
            let LeasedRun {
                claim,
                planned,
                request,
                live,
            } = run;
            let span = info_span!("run", id = %claim.id);
            let guard = ReleaseOnPanic::of(&worker, &claim, &notifier);
            let start = worker.start_of(claim, planned, request, notifier);
            let tail = worker.drive(start, guard).instrument(span).await;
            drop((slot, live));
            tail
        })
    }

    /// There may be mail for this run, if it is driven here.
    pub fn ring(&self, run: RunNo) {
        self.notifiers.ring(run);
    }

    /// There may be mail for every run that is driven here.
    pub fn ring_all(&self) {
        self.notifiers.ring_all();
    }

    /// Sweeps at once, because there may be runs without a worker.
    pub fn look(&self) {
        self.sweep.notify_one();
    }

    /// Announces mail: to the driver of the run if it is here, otherwise to other processes and the queue.
    pub fn notify(&self, delivery: Delivery, workspace: WorkspaceNo) {
        self.driver_parts.waker.wake(delivery, workspace);
    }

    async fn claim_runs(self: Arc<Self>) {
        let shutdown = self.parts.tasks.shutdown.clone();
        let mut free = self.slots.watch();
        loop {
            let next = shutdown.until_draining(self.next_job(&mut free)).await;
            let Some(Some((job, slot))) = next else {
                return;
            };
            let Some(notifier) = self.notifiers.try_install(job.run) else {
                self.parts.queue.done(job);
                continue;
            };
            let worker = Arc::clone(&self);
            self.parts.tasks.spawn("run", async move {
                let terms = ClaimTerms::ordinary();
                worker.claim_and_drive(job, notifier, terms).await;
                drop(slot);
            });
        }
    }

    /// A job and a run slot for it. No slot is held while there is no job, because runs that are created here need it.
    async fn next_job(&self, free: &mut watch::Receiver<usize>) -> Option<(Job, RunSlot)> {
        let admits = |workspace| self.slots.admits(workspace);
        loop {
            free.wait_for(|free| *free > 0).await.ok()?;
            let job = tokio::select! {
                job = self.parts.queue.pull(&admits) => job,
                // A returned slot may admit other workspaces.
                changed = free.changed() => {
                    changed.ok()?;
                    continue;
                }
            };
            let slot = self.slots.take(job.workspace);
            self.sweep_on();
            match slot {
                Some(slot) => return Some((job, slot)),
                None => self.parts.queue.push_here(job),
            }
        }
    }

    /// Claims a run on these terms and drives it.
    async fn claim_and_drive(&self, job: Job, notifier: Arc<MailNotifier>, terms: ClaimTerms) {
        let run = job.run;
        let began = Instant::now();
        let (store, now) = (&self.parts.store, self.clock.now());
        let outcome = store.claim(run, &self.id, now, terms.max_attempts).await;
        METRICS.claim_time.took(began.elapsed());
        // The store has the lease now; after an error the sweeper offers the run again.
        self.parts.queue.done(job);
        let claim = match outcome {
            Ok(ClaimOutcome::Claimed(claim)) => {
                count(&claim);
                *claim
            }
            Ok(ClaimOutcome::NotNow) => {
                METRICS.claims_in_vain.add(1);
                return self.leave(job, &notifier);
            }
            Err(error) => {
                METRICS.claims_in_vain.add(1);
                warn!(run = run.0, %error, "claim failed");
                return self.leave(job, &notifier);
            }
        };
        let span = info_span!("run", id = %claim.id);
        async {
            debug!(
                epoch = claim.lease.epoch,
                attempts = claim.attempts,
                "run claimed"
            );
            if terms.suspicion.is_some() {
                let attempt = claim.attempts;
                warn!(attempt, "running in isolation after repeated crashes");
            }
            let guard = ReleaseOnPanic::of(self, &claim, &notifier);
            let mut start = self.plan(claim, notifier).await;
            start.suspicion = terms.suspicion;
            self.drive(start, guard).await;
        }
        .instrument(span)
        .await;
    }

    async fn drive(&self, start: Start, guard: ReleaseOnPanic<'_>) -> Option<RunTail> {
        let lease = start.claim.lease;
        let workspace = Some(start.claim.workspace);
        let job = |run| Job { run, workspace };
        let notifier = Arc::clone(&start.notifier);
        compile_schemas(&start.claim.log, &start.planned.plan.schemas).await;
        let mut driver = Driver::new(start, Arc::clone(&self.driver_parts));
        let left = driver.drive().await;
        drop(driver);
        guard.defuse();
        self.leave(job(lease.run), &notifier);
        match left {
            Ok(Left::Finished { next: None, said }) => return Some(said),
            Ok(Left::Finished {
                next: Some(next), ..
            }) => self.parts.queue.push(job(next)),
            Ok(Left::Over | Left::Released) => {}
            Ok(Left::Parked(wake_at)) => {
                METRICS.runs_parked.add(1);
                self.wake_sweeper(wake_at);
            }
            Ok(Left::Deferred(until)) => {
                METRICS.runs_deferred.add(1);
                if self.parts.bus.is_shared() {
                    self.deferred_runs.add(lease.run, until);
                }
                self.wake_sweeper(Some(until));
            }
            Err(error) => error!(error = &error as &dyn std::error::Error, "run abandoned"),
        }
        None
    }

    /// Removes the notifier of a run whose driver has ended. A run that was offered meanwhile is offered again.
    fn leave(&self, job: Job, notifier: &Arc<MailNotifier>) {
        if self.notifiers.remove(job.run, notifier) {
            self.parts.queue.push(job);
        }
    }

    fn wake_sweeper(&self, at: Option<Millis>) {
        if at.is_some_and(|at| at.0 < self.next_sweep.load(Ordering::SeqCst)) {
            self.sweep.notify_one();
        }
    }
}

fn count(claim: &Claim) {
    METRICS.claims.add(1);
    if claim.taken_over {
        METRICS.takeovers.add(1);
    }
    if claim.lease.epoch == 1 {
        let waited = claim.started_at.0.saturating_sub(claim.created_at.0);
        let waited = u64::try_from(waited).unwrap_or_default();
        METRICS.run_wait.took(Duration::from_millis(waited));
    }
}
