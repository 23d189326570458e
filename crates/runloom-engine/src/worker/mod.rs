//! The worker: claims runs, keeps a driver for each, wakes them, and hands them over at the end.

mod cancel_queued;
mod crash_suspects;
mod mail_notifiers;
mod planning;
mod release_on_panic;
mod retention;
mod run_slots;
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
    CrashSuspicion, Driver, DriverSettings, Left, MailNotifier, RunTail, Start, WritePermits,
    meet_schemas,
};
use crate::hub::{Hub, LiveRun};
use crate::metrics::METRICS;
use crate::planner::{Planned, Planner};
use runloom_ports::bus::{Bus, Signal};
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
use run_slots::RunSlots;

/// A run under way, from its first step to where it is left; what it told its session, when no other run waits behind it.
pub type Driving = Pin<Box<dyn Future<Output = Option<RunTail>> + Send>>;

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Runs that are driven at once; parked ones do not count.
    pub max_concurrent: usize,
    /// Finished runs and ended sessions are deleted after so long; `None` keeps them.
    pub retention: Option<Duration>,
    /// Sessions that nobody uses are deleted after so long; `None` keeps them.
    pub session_retention: Option<Duration>,
    /// Settings of the drivers.
    pub driver: DriverSettings,
}

/// What a worker needs.
#[derive(Clone)]
pub struct WorkerParts {
    /// Where runs live.
    pub store: Arc<dyn Store>,
    /// Where jobs come from.
    pub queue: Arc<dyn Queue>,
    /// How other processes are told.
    pub bus: Arc<dyn Bus>,
    /// Where chunks are shown.
    pub hub: Arc<Hub>,
    /// Makes plans.
    pub planner: Arc<Planner>,
    /// Executes tools.
    pub tools: Arc<dyn ToolHost>,
    /// Reads the files that tools return.
    pub files: Arc<dyn FileReader>,
    /// Takes the traces of runs, when somebody wants them.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// Where tasks are spawned.
    pub tasks: Tasks,
}

/// The worker of this process.
pub struct Worker {
    id: String,
    parts: WorkerParts,
    settings: WorkerSettings,
    clock: Clock,
    places: Arc<RunSlots>,
    notifiers: MailNotifiers,
    /// Cancelled runs that may be ended beside those that are driven.
    endings: Arc<Semaphore>,
    crash_suspects: CrashSuspects,
    deferred_runs: DeferredRuns,
    sweep: Arc<Notify>,
    next_sweep: AtomicI64,
    /// The last sweep found more than it offered.
    more: AtomicBool,
    /// The turns in which answers write their deltas.
    turns: WritePermits,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A place for one more run.
#[derive(Debug)]
pub struct RunSlot {
    _place: run_slots::RunSlot,
    /// State of the notifiers when the place was taken.
    unheard: u64,
}

impl Worker {
    /// Starts the worker's loops: claiming, sweeping for what was forgotten, and deleting what is old.
    #[must_use]
    pub fn start(parts: WorkerParts, settings: WorkerSettings) -> Arc<Self> {
        let worker = Arc::new(Self::new(parts, settings));
        let (claiming, sweeping) = (Arc::clone(&worker), Arc::clone(&worker));
        let (living, deleting) = (Arc::clone(&worker), Arc::clone(&worker));
        worker
            .parts
            .tasks
            .spawn("tell of life", async move { living.heartbeat_loop().await });
        worker
            .parts
            .tasks
            .spawn("claim runs", async move { claiming.claim_runs().await });
        worker
            .parts
            .tasks
            .spawn("sweep runs", async move { sweeping.sweep_runs().await });
        worker
            .parts
            .tasks
            .spawn("delete old", async move { deleting.delete_old().await });
        worker
    }

    fn new(parts: WorkerParts, settings: WorkerSettings) -> Self {
        Self {
            id: format!("worker_{}", Clock.new_id()),
            places: RunSlots::new(settings.max_concurrent),
            parts,
            settings,
            clock: Clock,
            notifiers: MailNotifiers::default(),
            endings: Arc::new(Semaphore::new(ENDINGS)),
            crash_suspects: CrashSuspects::default(),
            deferred_runs: DeferredRuns::default(),
            sweep: Arc::default(),
            next_sweep: AtomicI64::new(i64::MAX),
            more: AtomicBool::new(false),
            turns: WritePermits::default(),
        }
    }

    /// The id under which this worker holds leases.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where this worker's tasks are spawned.
    pub fn tasks(&self) -> &Tasks {
        &self.parts.tasks
    }

    /// Runs that are driven now.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.notifiers.len()
    }

    /// Whether a run of this workspace could begin now. Not while others wait: it must not overtake them.
    #[must_use]
    pub fn has_room(&self, workspace: WorkspaceNo) -> bool {
        !self.parts.tasks.stop.is_cancelled()
            && self.parts.queue.depth() == 0
            && self.places.admits(Some(workspace))
    }

    /// A place for a run that is about to be created, when there is one for this workspace and the worker is not stopping.
    #[must_use]
    pub fn reserve(&self, workspace: WorkspaceNo) -> Option<RunSlot> {
        if !self.has_room(workspace) {
            return None;
        }
        self.places.take(Some(workspace)).map(|place| RunSlot {
            _place: place,
            unheard: self.notifiers.unheard(),
        })
    }

    /// What drives a run that was created with this worker's lease; the caller lets it go on in a task of this worker.
    /// `live` keeps the run in the hub until its driver has it.
    pub fn begin(
        self: &Arc<Self>,
        place: RunSlot,
        claim: Claim,
        (planned, request): (Planned, Vec<PromptMessage>),
        live: Arc<LiveRun>,
    ) -> Driving {
        count(&claim);
        let run = claim.lease.run;
        let notifier = self.notifiers.install(run, place.unheard);
        let worker = Arc::clone(self);
        Box::pin(async move {
            let span = info_span!("run", id = %claim.id);
            let guard = ReleaseOnPanic::of(&worker, &claim, &notifier);
            let start = worker.start_of(claim, planned, request, notifier);
            let last_word = worker.drive(start, guard).instrument(span).await;
            drop((place, live));
            last_word
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

    /// There may be runs that want a worker.
    pub fn look(&self) {
        self.sweep.notify_one();
    }

    /// Tells whoever is concerned that there is mail.
    pub fn notify(&self, delivery: Delivery, workspace: WorkspaceNo) {
        let job = |run| Job {
            run,
            workspace: Some(workspace),
        };
        match delivery {
            Delivery::Owner(run) if self.notifiers.ring(run) => {}
            Delivery::Owner(run) => {
                self.parts.bus.announce(Signal::Mail(run));
                self.parts.queue.push(job(run));
            }
            Delivery::Queue(run) => self.parts.queue.push(job(run)),
        }
    }

    async fn claim_runs(self: Arc<Self>) {
        let stop = self.parts.tasks.stop.clone();
        let mut free = self.places.watch();
        loop {
            let next = stop.run_until_cancelled(self.next_job(&mut free)).await;
            let Some(Some((job, place))) = next else {
                return;
            };
            let Some(notifier) = self.notifiers.try_install(job.run) else {
                self.parts.queue.done(job);
                continue;
            };
            let worker = Arc::clone(&self);
            self.parts.tasks.spawn("run", async move {
                worker.claim_and_drive(job, notifier, (TRUSTED, None)).await;
                drop(place);
            });
        }
    }

    /// A job and a place for it. No place is held while there is no job: it would be missing to runs that are created here.
    async fn next_job(
        &self,
        free: &mut watch::Receiver<usize>,
    ) -> Option<(Job, run_slots::RunSlot)> {
        let admits = |workspace| self.places.admits(workspace);
        loop {
            free.wait_for(|free| *free > 0).await.ok()?;
            let job = tokio::select! {
                job = self.parts.queue.pull(&admits) => job,
                // Who is let in depends on who has gone.
                changed = free.changed() => {
                    changed.ok()?;
                    continue;
                }
            };
            let place = self.places.take(job.workspace);
            self.sweep_on();
            match place {
                Some(place) => return Some((job, place)),
                None => self.parts.queue.push_here(job),
            }
        }
    }

    /// Drives a run if it is to be had with `most` attempts, this one included.
    async fn claim_and_drive(
        &self,
        job: Job,
        notifier: Arc<MailNotifier>,
        (most, suspicion): (u32, Option<CrashSuspicion>),
    ) {
        let run = job.run;
        let began = Instant::now();
        let outcome = self
            .parts
            .store
            .claim(run, &self.id, self.clock.now(), most)
            .await;
        METRICS.claim_time.took(began.elapsed());
        // From here on the store knows whose run it is; after an error the sweeper offers it again.
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
                warn!(run = run.0, %error, "cannot claim a run");
                return self.leave(job, &notifier);
            }
        };
        let span = info_span!("run", id = %claim.id);
        async {
            debug!(
                epoch = claim.lease.epoch,
                attempts = claim.attempts,
                "claimed"
            );
            if suspicion.is_some() {
                let attempt = claim.attempts;
                warn!(
                    attempt,
                    "tried apart from others: it was interrupted again and again"
                );
            }
            let guard = ReleaseOnPanic::of(self, &claim, &notifier);
            let mut start = self.plan(claim, notifier).await;
            start.suspicion = suspicion;
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
        meet_schemas(&start.claim.log, &start.plan.schemas).await;
        let mut driver = Driver::new(
            start,
            (self.parts.store.clone(), self.parts.store.clone()),
            &self.parts.hub,
            self.settings.driver.clone(),
            (self.parts.tasks.stop.clone(), self.parts.tasks.kill.clone()),
        );
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
                METRICS.runs_stalled.add(1);
                if self.parts.bus.is_shared() {
                    self.deferred_runs.add(lease.run, until);
                }
                self.wake_sweeper(Some(until));
            }
            Err(error) => error!(
                error = &error as &dyn std::error::Error,
                "left a run as it is"
            ),
        }
        None
    }

    /// The run's driver is gone. When somebody asked for it meanwhile, it is offered again.
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
