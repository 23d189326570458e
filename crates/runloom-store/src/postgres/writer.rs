//! The one task that writes batches, with group commit on a connection of its own.
//!
//! Whatever waits when a transaction begins goes into it together; only after the commit are the callers told. A
//! group that fails for a reason of its own is done again one by one, so that a poisoned batch fails alone. When the
//! connection breaks before COMMIT was sent, nothing happened and the group is done again on a new one. When it
//! breaks after that, the server is asked what became of the transaction (see `doubt`); when it cannot be asked in
//! time the callers get an error, the batch is remembered, and a caller who comes again with the same batch is
//! answered with what the server then says.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use runloom_ports::instruments::STORE_METRICS;
use runloom_ports::store::{Batch, CommitError, Committed, Lease, RunNo, StoreError};
use runloom_ports::tasks::Tasks;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::commit::{self, Refusal, Unwritten, Verdict};
use super::connect::Endpoint;
use super::doubt::{self, Fate, PATIENCE, PAUSE, Xid};
use super::error::{Failure, broken};
use super::notify::{Notice, Outgoing};
use super::pool::within;
use super::statements::Prepared;
use super::{int, settings};

/// Batches that share one transaction at most: bounds how long the first of them waits for the last.
const GROUP: usize = 1_024;

/// Bytes of frames and notes that share one transaction, unless one batch alone has more.
const GROUP_BYTES: usize = 8 << 20;

/// Jobs that wait for the task before callers have to wait for room.
const WAITING: usize = 4_096;

/// How often a group that collided with others is done again.
const COLLISIONS: u32 = 4;

/// The writer asks for a handful of rows by their keys: no plan that reads whole tables is ever right.
const PLANS: &str =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan";

/// The handle to the task. Dropping it lets the task finish what waits.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

#[derive(Debug)]
enum Job {
    Commit(Box<Waiting>),
    Notice(Notice),
    GiveBack(Lease),
}

/// A batch and who waits for it.
#[derive(Debug)]
struct Waiting {
    lease: Lease,
    batch: Batch,
    reply: oneshot::Sender<Result<Committed, CommitError>>,
}

impl Waiting {
    fn answer(self, verdict: Verdict) {
        // A caller that has gone away is not told; its work is kept all the same.
        let _ = self.reply.send(verdict.map_err(CommitError::from));
    }

    fn bytes(&self) -> usize {
        self.batch.chunk.frames.len() + self.batch.notes.len()
    }
}

impl Writer {
    /// Starts the task. It connects when it first has something to do, and again whenever it has to.
    pub(super) fn start(endpoint: Endpoint, tasks: &Tasks) -> Self {
        let (jobs, receiver) = mpsc::channel(WAITING);
        let task = Task {
            endpoint,
            tasks: tasks.clone(),
            connection: None,
            waiting: VecDeque::new(),
            outgoing: Outgoing::default(),
            given_back: Vec::new(),
            doubts: HashMap::new(),
        };
        tasks.spawn("postgres_writer", task.serve(receiver));
        Self { jobs }
    }

    /// Writes a batch and answers when it is durable.
    pub(super) async fn commit(
        &self,
        lease: Lease,
        batch: Batch,
    ) -> Result<Committed, CommitError> {
        let (reply, answer) = oneshot::channel();
        let waiting = Box::new(Waiting {
            lease,
            batch,
            reply,
        });
        let gone = || broken("the store's writer is gone");
        self.jobs
            .send(Job::Commit(waiting))
            .await
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Tells other replicas with the next transaction. Best effort: with no room left the hint is dropped.
    pub(super) fn notify(&self, notice: Notice) {
        let _ = self.jobs.try_send(Job::Notice(notice));
    }

    /// Gives a lease back that nobody will use, as soon as the server is there. Nobody waits for it.
    pub(super) fn give_back(&self, lease: Lease) {
        if self.jobs.try_send(Job::GiveBack(lease)).is_err() {
            tracing::warn!(run = lease.run.0, "lease not released");
        }
    }
}

struct Connected {
    client: Client,
    prepared: Prepared,
}

/// A batch whose fate could not be learned in time.
struct Doubt {
    xid: Xid,
    lease: Lease,
    seqs: (u64, u64),
}

struct Task {
    endpoint: Endpoint,
    tasks: Tasks,
    connection: Option<Connected>,
    waiting: VecDeque<Waiting>,
    outgoing: Outgoing,
    given_back: Vec<Lease>,
    doubts: HashMap<RunNo, Doubt>,
}

impl Task {
    async fn serve(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut received = Vec::with_capacity(GROUP);
        loop {
            let idle = self.waiting.is_empty();
            if idle && jobs.recv_many(&mut received, GROUP).await == 0 {
                return;
            }
            while received.len() < GROUP
                && let Ok(job) = jobs.try_recv()
            {
                received.push(job);
            }
            for job in received.drain(..) {
                match job {
                    Job::Commit(waiting) => self.waiting.push_back(*waiting),
                    Job::Notice(notice) => self.outgoing.add(notice),
                    Job::GiveBack(lease) => self.given_back.push(lease),
                }
            }
            self.settle().await;
            let group = self.take_group();
            self.write(group).await;
        }
    }

    /// Leases to give back, and notices that no batch takes along.
    async fn settle(&mut self) {
        let notices_alone = self.waiting.is_empty() && !self.outgoing.is_empty();
        if self.given_back.is_empty() && !notices_alone {
            return;
        }
        if let Err(failure) = self.try_settle(notices_alone).await {
            tracing::warn!(error = %failure, "rollback failed; retrying with the next write");
            self.connection = None;
        }
    }

    async fn try_settle(&mut self, notices_alone: bool) -> Result<(), Failure> {
        self.connect(Instant::now()).await?;
        let Some(Connected { client, prepared }) = &self.connection else {
            return Ok(());
        };
        while let Some(lease) = self.given_back.last() {
            let epoch = int(lease.epoch);
            within(client.execute(&prepared.give_back, &[&lease.run.0, &epoch])).await?;
            self.given_back.pop();
        }
        if notices_alone {
            let (channels, payloads) = self.outgoing.messages();
            within(client.execute(&prepared.notify, &[&channels, &payloads])).await?;
            self.outgoing = Outgoing::default();
        }
        Ok(())
    }

    /// The oldest batches, no run twice: a second batch of a run waits for the next group.
    fn take_group(&mut self) -> Vec<Waiting> {
        let mut seen = HashSet::new();
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut later = VecDeque::new();
        while let Some(job) = self.waiting.pop_front() {
            let has_room =
                group.len() < GROUP && (group.is_empty() || bytes + job.bytes() <= GROUP_BYTES);
            // Seen or not, the run is marked: its next batch must not overtake this one.
            if seen.insert(job.lease.run) && has_room {
                bytes += job.bytes();
                group.push(job);
            } else {
                later.push_back(job);
            }
        }
        self.waiting = later;
        group
    }

    /// Writes a group, whatever it takes and for as long as patience lasts, and tells every caller.
    async fn write(&mut self, mut group: Vec<Waiting>) {
        let until = Instant::now() + PATIENCE;
        let mut collisions = 0;
        loop {
            if let Err(failure) = self.ready(&mut group, until).await {
                return fail(group, &failure);
            }
            if group.is_empty() {
                return;
            }
            let began = Instant::now();
            match self.try_write(&group).await {
                Ok(verdicts) => {
                    STORE_METRICS.commits.add(1);
                    STORE_METRICS.commit_time.took(began.elapsed());
                    STORE_METRICS.commit_size.held(group.len());
                    self.outgoing = Outgoing::default();
                    let answered = group.into_iter().zip(verdicts);
                    return answered.for_each(|(job, verdict)| job.answer(verdict));
                }
                Err(Unwritten::InDoubt { xid, verdicts }) => {
                    self.connection = None;
                    let accepted = group.iter().zip(&verdicts);
                    let accepted = accepted.filter(|(_, verdict)| verdict.is_ok());
                    let witness = witness(accepted.map(|(job, _)| job));
                    match self.is_written(&xid, witness, until).await {
                        Ok(true) => return self.after_doubt(group, verdicts).await,
                        Ok(false) => {}
                        Err(failure) => {
                            self.remember(&group, &verdicts, &xid);
                            return fail(group, &failure);
                        }
                    }
                }
                Err(Unwritten::Failed(failure)) => {
                    self.roll_back(&failure).await;
                    if failure.is_collision() && collisions < COLLISIONS {
                        collisions += 1;
                    } else if !failure.is_lost() {
                        return self.write_alone(group, &failure).await;
                    } else if Instant::now() >= until {
                        return fail(group, &failure);
                    }
                }
            }
        }
    }

    async fn write_alone(&mut self, group: Vec<Waiting>, failure: &Failure) {
        if group.len() <= 1 {
            return fail(group, failure);
        }
        for job in group {
            Box::pin(self.write(vec![job])).await;
        }
    }

    async fn try_write(&mut self, group: &[Waiting]) -> Result<Vec<Verdict>, Unwritten> {
        let Some(Connected { client, prepared }) = &self.connection else {
            return Err(Unwritten::Failed(Failure::InDoubt));
        };
        let batches: Vec<(Lease, &Batch)> =
            group.iter().map(|job| (job.lease, &job.batch)).collect();
        commit::write(client, prepared, &batches, &mut self.outgoing).await
    }

    async fn roll_back(&mut self, failure: &Failure) {
        let Some(Connected { client, .. }) = &self.connection else {
            return;
        };
        if failure.is_lost() || within(client.batch_execute("ROLLBACK")).await.is_err() {
            self.connection = None;
        }
    }

    /// A connection, and no batch in the group whose fate was open: those are answered and leave it.
    async fn ready(&mut self, group: &mut Vec<Waiting>, until: Instant) -> Result<(), Failure> {
        self.connect(until).await?;
        let (doubtful, clear): (Vec<_>, Vec<_>) = std::mem::take(group)
            .into_iter()
            .partition(|job| self.doubts.contains_key(&job.lease.run));
        *group = clear;
        for job in doubtful {
            let Some(doubt) = self.doubts.remove(&job.lease.run) else {
                continue;
            };
            let same = doubt.lease == job.lease && doubt.seqs == seqs(&job.batch);
            if same {
                let witness = witness(std::iter::once(&job));
                match self.is_written(&doubt.xid, witness, until).await {
                    Ok(true) => {
                        self.after_doubt(vec![job], vec![Ok(())]).await;
                        continue;
                    }
                    Ok(false) => {}
                    Err(failure) => {
                        self.doubts.insert(job.lease.run, doubt);
                        fail(vec![job], &failure);
                        continue;
                    }
                }
            }
            group.push(job);
        }
        Ok(())
    }

    /// Makes a connection when there is none, trying until the deadline, at least once.
    async fn connect(&mut self, until: Instant) -> Result<(), Failure> {
        if let Some(connected) = &self.connection
            && !connected.client.is_closed()
        {
            return Ok(());
        }
        self.connection = None;
        let mut pause = PAUSE;
        loop {
            match within(self.try_connect()).await {
                Ok(connected) => {
                    self.connection = Some(connected);
                    return Ok(());
                }
                Err(failure) if Instant::now() + pause >= until => return Err(failure),
                Err(failure) => {
                    tracing::warn!(error = %failure, "PostgreSQL writer disconnected; retrying")
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    async fn try_connect(&self) -> Result<Connected, Failure> {
        let client = self.endpoint.connect(&self.tasks, None).await?;
        // Another server may answer than the one that was checked at the start.
        if let Some(complaint) = settings::complaint(&settings::read(&client).await?) {
            return Err(Failure::Unsafe(complaint.to_string()));
        }
        client.batch_execute(PLANS).await?;
        let prepared = Prepared::on(&client).await?;
        Ok(Connected { client, prepared })
    }

    /// Whether a transaction was committed. `witness` is a batch with records that it wrote, if there is one.
    async fn is_written(
        &mut self,
        xid: &Xid,
        witness: Option<&Waiting>,
        until: Instant,
    ) -> Result<bool, Failure> {
        match (self.fate(xid, until).await?, witness) {
            (Fate::Committed, _) => Ok(true),
            (Fate::Aborted, _) => Ok(false),
            // Without records it only gave leases back or changed a status, which may be done twice.
            (Fate::Disputed, None) => Ok(false),
            (Fate::Disputed, Some(job)) => {
                self.connect(until).await?;
                let Some(Connected { client, .. }) = &self.connection else {
                    return Err(Failure::InDoubt);
                };
                within(doubt::is_in_log(client, xid, job.lease, &job.batch)).await
            }
        }
    }

    async fn fate(&mut self, xid: &Xid, until: Instant) -> Result<Fate, Failure> {
        loop {
            let asked = match self.connect(until).await {
                Ok(()) => match &self.connection {
                    Some(connected) => doubt::fate(&connected.client, xid, until).await,
                    None => Err(Failure::InDoubt),
                },
                Err(failure) => Err(failure),
            };
            match asked {
                Ok(fate) => return Ok(fate),
                Err(_) if Instant::now() < until => {
                    self.connection = None;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(_) => return Err(Failure::InDoubt),
            }
        }
    }

    /// The group was written although nobody said so. Only the answer about the sessions has to be asked for once more.
    async fn after_doubt(&mut self, group: Vec<Waiting>, verdicts: Vec<Result<(), Refusal>>) {
        for (job, verdict) in group.into_iter().zip(verdicts) {
            let committed = match verdict {
                Ok(()) => Ok(Committed {
                    next_in_session: self.next_in_session(job.lease.run).await,
                    // The notices went with the transaction.
                    deliveries: Vec::new(),
                }),
                Err(refusal) => Err(refusal),
            };
            job.answer(committed);
        }
        self.outgoing = Outgoing::default();
    }

    async fn next_in_session(&self, run: RunNo) -> Option<RunNo> {
        let Connected { client, prepared } = self.connection.as_ref()?;
        let ended = "SELECT session FROM runs WHERE no = $1 AND completed_at IS NOT NULL";
        let row = within(client.query_opt(ended, &[&run.0])).await.ok()??;
        let session: i64 = row.try_get::<_, Option<i64>>(0).ok()??;
        let rows = within(client.query(&prepared.next_in_session, &[&vec![session]])).await;
        let next = commit::waiting(&rows.ok()?).ok()?;
        next.get(&session).copied()
    }

    fn remember(&mut self, group: &[Waiting], verdicts: &[Result<(), Refusal>], xid: &Xid) {
        for (job, verdict) in group.iter().zip(verdicts) {
            if verdict.is_ok() {
                let doubt = Doubt {
                    xid: xid.clone(),
                    lease: job.lease,
                    seqs: seqs(&job.batch),
                };
                self.doubts.insert(job.lease.run, doubt);
            }
        }
    }
}

/// A batch whose records show whether its transaction was committed.
fn witness<'a>(mut jobs: impl Iterator<Item = &'a Waiting>) -> Option<&'a Waiting> {
    jobs.find(|job| commit::has_records(&job.batch))
}

fn seqs(batch: &Batch) -> (u64, u64) {
    (batch.chunk.first_seq, batch.chunk.last_seq)
}

fn fail(group: Vec<Waiting>, failure: &Failure) {
    STORE_METRICS.commit_failures.add(group.len() as u64);
    tracing::error!(error = %failure, batches = group.len(), "write failed");
    let said = chain(failure);
    let kind = failure.kind();
    for job in group {
        let error = StoreError {
            kind,
            message: "writing to the PostgreSQL database failed".to_owned(),
            source: Some(said.clone().into()),
        };
        let _ = job.reply.send(Err(error.into()));
    }
}

/// The error and its causes in one line; the error itself cannot be given to several callers.
fn chain(failure: &Failure) -> String {
    let mut said = failure.to_string();
    let mut source = std::error::Error::source(failure);
    while let Some(cause) = source {
        said.push_str(": ");
        said.push_str(&cause.to_string());
        source = cause.source();
    }
    said
}
