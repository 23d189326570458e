//! The worker: claims runs, keeps a driver for each, wakes them, and hands them over at the end.

mod doorbells;
mod sweeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use runloom_protocol::spec::PromptMessage;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tracing::{Instrument, debug, error, info_span, warn};

use crate::clock::Clock;
use crate::driver::{Ahead, Doorbell, Driver, DriverSettings, Left, Start};
use crate::hub::{Hub, LiveRun};
use crate::planner::{Planned, Planner, StoredRun, spoken};
use crate::ports::bus::{Bus, Signal};
use crate::ports::queue::{Job, Queue};
use crate::ports::store::{
    Batch, Chunk, Claim, ClaimOutcome, Delivery, Lease, MailNo, Millis, Next, RunNo, Store,
};
use crate::ports::tools::{ToolContext, ToolHost};
use crate::tasks::Tasks;

use doorbells::Doorbells;

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Runs that are driven at once; parked ones do not count.
    pub max_concurrent: usize,
    /// Finished runs are deleted after so long; `None` keeps them.
    pub retention: Option<Duration>,
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
    /// Where tasks are spawned.
    pub tasks: Tasks,
}

/// The worker of this process.
pub struct Worker {
    id: String,
    parts: WorkerParts,
    settings: WorkerSettings,
    clock: Clock,
    permits: Arc<Semaphore>,
    doorbells: Doorbells,
    sweep: Notify,
    next_sweep: AtomicI64,
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
pub struct Place {
    _permit: OwnedSemaphorePermit,
    /// State of the doorbells when the place was taken.
    unheard: u64,
}

impl Worker {
    /// Starts the worker's loops: claiming, and sweeping for what was forgotten.
    #[must_use]
    pub fn start(parts: WorkerParts, settings: WorkerSettings) -> Arc<Self> {
        let worker = Arc::new(Self {
            id: format!("worker_{}", Clock.new_id()),
            permits: Arc::new(Semaphore::new(settings.max_concurrent.max(1))),
            parts,
            settings,
            clock: Clock,
            doorbells: Doorbells::default(),
            sweep: Notify::new(),
            next_sweep: AtomicI64::new(i64::MAX),
        });
        let (claiming, sweeping) = (Arc::clone(&worker), Arc::clone(&worker));
        let living = Arc::clone(&worker);
        worker
            .parts
            .tasks
            .spawn("tell of life", async move { living.tell_of_life().await });
        worker
            .parts
            .tasks
            .spawn("claim runs", async move { claiming.claim_runs().await });
        worker
            .parts
            .tasks
            .spawn("sweep runs", async move { sweeping.sweep_runs().await });
        worker
    }

    /// The id under which this worker holds leases.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where this worker's tasks are spawned.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.parts.tasks
    }

    /// Runs that are driven now.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.doorbells.len()
    }

    /// A place for a run that is about to be created, when there is one and the worker is not stopping.
    #[must_use]
    pub fn reserve(&self) -> Option<Place> {
        if self.parts.tasks.stop.is_cancelled() {
            return None;
        }
        Arc::clone(&self.permits)
            .try_acquire_owned()
            .ok()
            .map(|permit| Place {
                _permit: permit,
                unheard: self.doorbells.unheard(),
            })
    }

    /// Drives a run that was created with this worker's lease.
    /// `live` keeps the run in the hub until its driver has it.
    pub(crate) fn begin(
        self: &Arc<Self>,
        place: Place,
        claim: Claim,
        (planned, request): (Planned, Vec<PromptMessage>),
        live: Arc<LiveRun>,
        ahead: Option<Ahead>,
    ) {
        let run = claim.lease.run;
        let doorbell = self.doorbells.install(run, place.unheard);
        let worker = Arc::clone(self);
        self.parts.tasks.spawn("run", async move {
            let span = info_span!("run", id = %claim.id);
            let mut start = worker.start_of(claim, planned, request, doorbell);
            start.ahead = ahead;
            worker.drive(start).instrument(span).await;
            drop((place, live));
        });
    }

    /// There may be mail for this run, if it is driven here.
    pub fn ring(&self, run: RunNo) {
        self.doorbells.ring(run);
    }

    /// There may be mail for every run that is driven here.
    pub fn ring_all(&self) {
        self.doorbells.ring_all();
    }

    /// There may be runs that want a worker.
    pub fn look(&self) {
        self.sweep.notify_one();
    }

    /// Tells whoever is concerned that there is mail.
    pub fn notify(&self, delivery: Delivery) {
        match delivery {
            Delivery::Owner(run) if self.doorbells.ring(run) => {}
            Delivery::Owner(run) => {
                self.parts.bus.announce(Signal::Mail(run));
                self.offer(run);
            }
            Delivery::Queue(run) => self.offer(run),
        }
    }

    fn offer(&self, run: RunNo) {
        self.parts.queue.push(Job {
            run,
            workspace: None,
        });
    }

    async fn claim_runs(self: Arc<Self>) {
        let stop = self.parts.tasks.stop.clone();
        loop {
            let claimed = async {
                // The job first: a place that waits for one would be missing to runs that are created here.
                let job = self.parts.queue.pull().await;
                let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
                Some((permit, job))
            };
            let Some(Some((permit, job))) = stop.run_until_cancelled(claimed).await else {
                return;
            };
            let Some(doorbell) = self.doorbells.try_install(job.run) else {
                self.parts.queue.done(job);
                continue;
            };
            let worker = Arc::clone(&self);
            self.parts.tasks.spawn("run", async move {
                worker.claim_and_drive(job, doorbell).await;
                drop(permit);
            });
        }
    }

    async fn claim_and_drive(&self, job: Job, doorbell: Arc<Doorbell>) {
        let run = job.run;
        let outcome = self
            .parts
            .store
            .claim(run, &self.id, self.clock.now())
            .await;
        // From here on the store knows whose run it is; after an error the sweeper offers it again.
        self.parts.queue.done(job);
        let claim = match outcome {
            Ok(ClaimOutcome::Claimed(claim)) => *claim,
            Ok(ClaimOutcome::NotNow) => return self.leave(run, &doorbell),
            Err(error) => {
                warn!(run = run.0, %error, "cannot claim a run");
                return self.leave(run, &doorbell);
            }
        };
        let span = info_span!("run", id = %claim.id);
        async {
            debug!(
                epoch = claim.lease.epoch,
                attempts = claim.attempts,
                "claimed"
            );
            let start = self.plan(claim, doorbell).await;
            self.drive(start).await;
        }
        .instrument(span)
        .await;
    }

    async fn plan(&self, claim: Claim, doorbell: Arc<Doorbell>) -> Start {
        let (planned, request) = match serde_json::from_str::<StoredRun>(&claim.spec) {
            Err(error) => {
                let reason = format!("the stored spec cannot be read by this version: {error}");
                (
                    self.parts
                        .planner
                        .unplannable(claim.id.clone(), "unknown", reason),
                    Vec::new(),
                )
            }
            Ok(stored) => {
                let (model, request) = (stored.model.clone(), stored.messages.clone());
                let planner = &self.parts.planner;
                let planned = match stored.opened(&planner.vault) {
                    Ok(stored) => {
                        let history = claim.history.iter().filter_map(spoken).collect();
                        planner
                            .plan(claim.id.clone(), stored, Arc::new(history))
                            .await
                    }
                    Err(error) => Err(error),
                };
                let planned = planned.unwrap_or_else(|error| {
                    planner.unplannable(claim.id.clone(), &model, error.to_string())
                });
                (planned, request)
            }
        };
        self.start_of(claim, planned, request, doorbell)
    }

    fn start_of(
        &self,
        claim: Claim,
        planned: Planned,
        request: Vec<PromptMessage>,
        doorbell: Arc<Doorbell>,
    ) -> Start {
        let context = ToolContext {
            workspace: planned.workspace,
            run: claim.id.clone(),
            refs: planned.refs,
        };
        let tools = Arc::clone(&self.parts.tools);
        Start {
            purses: planned.purses,
            claim,
            plan: planned.plan,
            model: planned.model,
            tools,
            context,
            request,
            doorbell,
            ahead: None,
        }
    }

    async fn drive(&self, start: Start) {
        let lease = start.claim.lease;
        let last_seq = start
            .claim
            .log
            .last()
            .map_or(0, |entry| entry.chunk.last_seq);
        let guard = LeaveOnPanic {
            worker: self,
            lease,
            last_seq,
            doorbell: Arc::clone(&start.doorbell),
            armed: true,
        };
        let doorbell = Arc::clone(&start.doorbell);
        let mut driver = Driver::new(
            start,
            Arc::clone(&self.parts.store),
            &self.parts.hub,
            self.settings.driver.clone(),
            (self.parts.tasks.stop.clone(), self.parts.tasks.kill.clone()),
        );
        let left = driver.drive().await;
        drop(driver);
        guard.defuse();
        self.leave(lease.run, &doorbell);
        match left {
            Ok(Left::Finished(Some(next))) => self.offer(next),
            Ok(Left::Finished(None) | Left::Released) => {}
            Ok(Left::Parked(wake_at)) => self.wake_sweeper(wake_at),
            Err(error) => error!(
                error = &error as &dyn std::error::Error,
                "left a run as it is"
            ),
        }
    }

    /// The run's driver is gone. When somebody asked for it meanwhile, it is offered again.
    fn leave(&self, run: RunNo, doorbell: &Arc<Doorbell>) {
        if self.doorbells.remove(run, doorbell) {
            self.offer(run);
        }
    }

    fn wake_sweeper(&self, at: Option<Millis>) {
        if at.is_some_and(|at| at.0 < self.next_sweep.load(Ordering::SeqCst)) {
            self.sweep.notify_one();
        }
    }
}

/// When a driver panics its lease is given back, so that the run goes on or, after some attempts, ends.
struct LeaveOnPanic<'a> {
    worker: &'a Worker,
    lease: Lease,
    last_seq: u64,
    doorbell: Arc<Doorbell>,
    armed: bool,
}

impl LeaveOnPanic<'_> {
    /// The driver ended in order.
    fn defuse(mut self) {
        self.armed = false;
    }
}

impl Drop for LeaveOnPanic<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (store, lease) = (Arc::clone(&self.worker.parts.store), self.lease);
        let batch = Batch {
            chunk: Chunk {
                first_seq: self.last_seq + 1,
                last_seq: self.last_seq,
                terminal: false,
                frames: bytes::Bytes::new(),
            },
            notes: String::new(),
            at: self.worker.clock.now(),
            opened: Vec::new(),
            closed: Vec::new(),
            mail_through: MailNo::default(),
            unless_mail: false,
            status: None,
            usage: None,
            next: Next::Return,
        };
        let queue = Arc::clone(&self.worker.parts.queue);
        self.worker.leave(lease.run, &self.doorbell);
        self.worker
            .parts
            .tasks
            .spawn("give a lease back", async move {
                match store.commit(lease, batch).await {
                    Ok(_) => queue.push(Job {
                        run: lease.run,
                        workspace: None,
                    }),
                    Err(error) => error!(run = lease.run.0, %error, "cannot give a lease back"),
                }
            });
    }
}
