//! The delta throttle of a driver, with a scripted provider and store under a paused clock.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use runloom_protocol::id::RunId;
use tokio::time::{Instant, sleep, sleep_until};

use super::WritePermits;
use crate::driver::{Driver, DriverParts, DriverSettings, Left, RunTail, Start};
use crate::hub::Hub;
use crate::planner::{Origin, Planned};
use crate::run::tests::bench::plan;
use runloom_ports::model::{
    Capabilities, Done, Model, ModelError, ModelEvent, ModelRequest, ModelStream,
};
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{
    Batch, BudgetLimit, BudgetScope, BudgetState, Chunk, Claim, ClaimOutcome, Claimable,
    CommitError, Committed, CostRange, DayRange, Delivery, Lease, Ledger, Mail, MailNo, Millis,
    Month, Reservation, RunLog, RunNo, StoreError, StoreErrorKind, StoreResult, UsageGroup,
    UsageRow, WorkspaceNo,
};
use runloom_ports::tools::NoTools;

/// Hardly ever due together with a batch.
const WORD: Duration = Duration::from_millis(7);

/// A provider that says a word every [`WORD`], whether it is read or not.
#[derive(Debug)]
struct Dictation {
    words: u32,
    /// When each word was read.
    read: Arc<Mutex<Vec<Instant>>>,
}

#[async_trait]
impl Model for Dictation {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn call(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        let (words, began) = (self.words, Instant::now());
        let said = stream::unfold(
            (1, Arc::clone(&self.read)),
            move |(word, read)| async move {
                sleep_until(began + WORD * word).await;
                let event = if word <= words {
                    read.lock().unwrap().push(Instant::now());
                    ModelEvent::Text("word ".to_owned())
                } else {
                    ModelEvent::Done(Done::default())
                };
                Some((Ok(event), (word + 1, read)))
            },
        );
        Ok(Box::pin(said))
    }
}

/// A store in which every batch takes so long, and which fails for a while.
struct Slow {
    takes: Duration,
    fails: Range<Duration>,
    began: Instant,
    /// When batches began, and the number of their last event.
    batches: Mutex<Vec<(Instant, u64)>>,
}

#[async_trait]
impl RunLog for Slow {
    async fn commit(&self, _: Lease, batch: Batch) -> Result<Committed, CommitError> {
        let begun = (Instant::now(), batch.chunk.last_seq);
        self.batches.lock().unwrap().push(begun);
        sleep(self.takes).await;
        if self.fails.contains(&self.began.elapsed()) {
            let kind = StoreErrorKind::Unavailable;
            let message = "the disk is full".to_owned();
            let source = None;
            return Err(CommitError::Store(StoreError {
                kind,
                message,
                source,
            }));
        }
        Ok(Committed::default())
    }

    async fn claim(&self, _: RunNo, _: &str, _: Millis, _: u32) -> StoreResult<ClaimOutcome> {
        unreachable!("the run is claimed")
    }

    async fn mail(&self, _: RunNo, _: MailNo) -> StoreResult<Vec<Mail>> {
        unreachable!("nobody rings")
    }

    async fn read_log(&self, _: RunNo, _: u64, _: usize) -> StoreResult<Vec<Chunk>> {
        unreachable!("nobody watches")
    }

    async fn claimable(&self, _: Millis, _: u32, _: usize) -> StoreResult<Vec<Claimable>> {
        unreachable!("no worker")
    }

    async fn next_timer(&self) -> StoreResult<Option<Millis>> {
        unreachable!("no worker")
    }

    async fn unheard(&self, _: &str) -> StoreResult<Vec<RunNo>> {
        unreachable!("no worker")
    }

    async fn heartbeat(&self, _: &str, _: Millis) -> StoreResult<()> {
        unreachable!("no worker")
    }
}

/// The run has no delegates.
struct NoSubRuns;

#[async_trait]
impl crate::planner::PlanSubRuns for NoSubRuns {
    async fn sub_run(
        &self,
        _: &crate::planner::ParentRun<'_>,
        _: &crate::run::DelegateCall,
    ) -> runloom_ports::error::Result<runloom_ports::store::NewSubRun> {
        unreachable!("the run has no delegates")
    }
}

/// The run sends no mail.
struct NobodyWakes;

impl crate::driver::WakeRuns for NobodyWakes {
    fn wake(&self, _: Delivery, _: WorkspaceNo) {}
}

/// Nothing here costs money.
struct Penniless;

#[async_trait]
impl Ledger for Penniless {
    async fn reserve(&self, _: Lease, _: &[BudgetLimit], _: CostRange) -> StoreResult<Reservation> {
        unreachable!("no monthly budgets")
    }

    async fn budget(&self, _: &BudgetScope, _: Month) -> StoreResult<BudgetState> {
        unreachable!("no monthly budgets")
    }

    async fn usage(
        &self,
        _: WorkspaceNo,
        _: DayRange,
        _: UsageGroup,
    ) -> StoreResult<Vec<UsageRow>> {
        unreachable!("nobody asks")
    }
}

fn claim(id: RunId) -> Claim {
    Claim {
        lease: Lease {
            run: RunNo(1),
            epoch: 1,
        },
        id,
        workspace: WorkspaceNo(1),
        in_session: false,
        spec: String::new(),
        history: Vec::new(),
        active_model: None,
        log: Vec::new(),
        mail: Vec::new(),
        attempts: 1,
        taken_over: false,
        created_at: Millis(0),
        started_at: Millis(0),
    }
}

/// What a run of one answer did, in time since it began.
struct Driven {
    /// When batches of nothing but deltas began, and how many words were written with them.
    batches: Vec<(Duration, u32)>,
    /// When each word was read.
    read: Vec<Duration>,
}

/// A run of one answer.
struct Scene {
    driver: Driver,
    store: Arc<Slow>,
    read: Arc<Mutex<Vec<Instant>>>,
    shutdown: Shutdown,
}

impl Scene {
    /// A turn of `words` deltas on a store whose batches take `takes`, with shared permits.
    fn new(words: u32, takes: Duration, permits: &WritePermits) -> Self {
        Self::failing(words, takes, permits, Duration::ZERO..Duration::ZERO)
    }

    fn failing(
        words: u32,
        takes: Duration,
        permits: &WritePermits,
        fails: Range<Duration>,
    ) -> Self {
        let read = Arc::<Mutex<Vec<Instant>>>::default();
        let model = Dictation {
            words,
            read: Arc::clone(&read),
        };
        let store = Arc::new(Slow {
            takes,
            fails,
            began: Instant::now(),
            batches: Mutex::default(),
        });
        let plan = plan(|_| {});
        let start = Start {
            claim: claim(plan.run.clone()),
            planned: Planned {
                plan,
                model: Arc::new(model),
                fallback: None,
                summariser: None,
                missing_fallback: None,
                project: None,
                workspace: "acme".into(),
                refs: Arc::default(),
                monthly_budgets: Vec::new(),
                origin: Origin::default(),
                key: None,
                policies: Arc::default(),
                place: None,
            },
            request: Vec::new(),
            notifier: Arc::default(),
            changed_model: None,
            suspicion: None,
            deferral: None,
            tracing: None,
        };
        let shutdown = Shutdown::default();
        let parts = DriverParts {
            log: store.clone(),
            ledger: Arc::new(Penniless),
            hub: Arc::new(Hub::default()),
            tools: Arc::new(NoTools),
            files: Arc::new(NoFiles),
            settings: DriverSettings::default(),
            write_permits: permits.clone(),
            shutdown: shutdown.clone(),
            sub_runs: Arc::new(NoSubRuns),
            call_policy: None,
            waker: Arc::new(NobodyWakes),
        };
        Self {
            driver: Driver::new(start, Arc::new(parts)),
            store,
            read,
            shutdown,
        }
    }

    /// Drives it to its end.
    async fn play(mut self) -> Driven {
        let began = self.store.began;
        let over = Left::Finished {
            next: None,
            said: RunTail::default(),
        };
        assert_eq!(self.driver.drive().await.unwrap(), over);
        let batches = self.store.batches.lock().unwrap();
        let ([first, deltas @ .., _], read) = (&batches[..], self.read.lock().unwrap()) else {
            panic!("fewer batches than the first and the last: {batches:?}");
        };
        assert_eq!(*first, (began, 1), "that the run has started");
        let written =
            |(at, last): &(Instant, u64)| (*at - began, u32::try_from(*last - 1).unwrap());
        Driven {
            batches: deltas.iter().map(written).collect(),
            read: read.iter().map(|at| *at - began).collect(),
        }
    }
}

async fn drive(words: u32, takes: Duration, permits: WritePermits) -> Driven {
    Scene::new(words, takes, &permits).play().await
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn delta_batches_are_spaced_and_sequential() {
    for (takes, apart) in [(ms(1), ms(10)), (ms(30), ms(30))] {
        let batches = drive(590, takes, WritePermits::default()).await.batches;
        let distances: Vec<Duration> = batches.windows(2).map(|of| of[1].0 - of[0].0).collect();
        assert!(distances.len() > 2);
        assert_eq!(distances, vec![apart; distances.len()], "{takes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_every_delta_as_it_comes() {
    let read = drive(100, ms(30), WritePermits::default()).await.read;
    let said: Vec<Duration> = (1..=100).map(|word| WORD * word).collect();
    assert_eq!(read, said);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_permit_pauses_the_provider() {
    let permits = WritePermits::of(1);
    let others = permits.take_all();
    // Short of what tokio lets one task take in a row.
    let busy = ms(500);
    let waiting = async move {
        sleep(busy).await;
        drop(others);
    };
    let (driven, ()) = tokio::join!(drive(200, ms(1), permits), waiting);
    let [first, second, ..] = driven.batches[..] else {
        panic!("too few batches: {:?}", driven.batches);
    };
    assert!(
        first.0 < ms(20),
        "the first batch needs no permit: {first:?}"
    );
    let said = u32::try_from(busy.as_millis() / WORD.as_millis()).unwrap();
    assert_eq!(second, (busy, said), "all that was said meanwhile");
    let read = driven
        .read
        .iter()
        .filter(|read| (ms(30)..busy).contains(read));
    assert_eq!(read.count(), 0, "words were read before the permit came");
}

#[tokio::test(start_paused = true)]
async fn answers_share_one_permit() {
    let (takes, permits) = (ms(30), WritePermits::of(1));
    let scenes = [(); 2].map(|()| Scene::new(100, takes, &permits));
    let [one, other] = scenes.map(Scene::play);
    let (one, other) = tokio::join!(one, other);
    // The first batch of each needs no permit.
    let mut begun: Vec<Duration> = [&one, &other]
        .iter()
        .flat_map(|driven| driven.batches[1..].iter().map(|(at, _)| *at))
        .collect();
    begun.sort();
    assert!(begun.len() > 10);
    let overlap = begun.windows(2).find(|of| of[1] - of[0] < takes);
    assert_eq!(overlap, None, "two at once");
    assert!(one.batches.len().abs_diff(other.batches.len()) <= 1);
}

#[tokio::test(start_paused = true)]
async fn returns_the_permit_while_the_store_fails() {
    let permits = WritePermits::of(1);
    let scene = Scene::failing(100, ms(1), &permits, ms(100)..ms(1_000));
    let watching = async {
        sleep(ms(500)).await;
        permits.0.available_permits()
    };
    let (driven, free) = tokio::join!(scene.play(), watching);
    assert_eq!(free, 1, "others may write meanwhile");
    let words = driven.batches.last().map(|(_, words)| *words);
    assert!(words.is_some_and(|words| words <= 100));
}

#[tokio::test(start_paused = true)]
async fn interrupts_a_wait_for_a_permit() {
    let permits = WritePermits::of(1);
    let others = permits.take_all();
    let mut scene = Scene::new(100, ms(1), &permits);
    let shutdown = scene.shutdown.clone();
    let stopping = async move {
        sleep(ms(200)).await;
        shutdown.interrupt();
    };
    let (left, ()) = tokio::join!(
        tokio::time::timeout(ms(10_000), scene.driver.drive()),
        stopping
    );
    assert!(!matches!(left.unwrap(), Ok(Left::Finished { .. })));
    let read = scene.read.lock().unwrap().len();
    assert!(read < 5, "it was not waiting: {read} words were read");
    drop(others);
}

/// Tools here return no files.
struct NoFiles;

#[async_trait::async_trait]
impl runloom_ports::file::FileReader for NoFiles {
    async fn read_leniently(
        &self,
        files: Vec<runloom_protocol::attachment::Attachment>,
        _max_bytes: usize,
    ) -> Vec<runloom_protocol::attachment::Attachment> {
        files
    }
}
