//! Writing batches: the hottest path of the store. One transaction for whatever waits, in two flights.
//!
//! The first flight takes the locks and with them the verdicts: a batch whose lease is not the run's, or that rests
//! on silence while mail waits, is refused alone. The second flight writes all others, tells the other replicas and
//! commits.

use std::collections::HashMap;

use runloom_ports::crash;
use runloom_ports::store::{Batch, CommitError, Committed, Delivery, Lease, Next, RunNo};
use tokio_postgres::{Client, Row};

use super::doubt::Xid;
use super::error::Failure;
use super::group::{Sending, Standing, Values, Work, pipeline, query};
use super::notify::{Notice, Outgoing};
use super::pool::within;
use super::statements::Prepared;
use super::tree::{Reach, Reached, TreeWork};
use super::{int, mail};

/// What becomes of a batch, the store willing.
pub(super) type Verdict = Result<Committed, Refusal>;

/// Why a batch is not written, without the store having failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Fenced,
    MailWaiting,
    TooManySubRuns { room: u32 },
}

impl From<Refusal> for CommitError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fenced => Self::Fenced,
            Refusal::MailWaiting => Self::MailWaiting,
            Refusal::TooManySubRuns { room } => Self::TooManySubRuns { room },
        }
    }
}

/// Why a group was not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// Nothing of it is there.
    Failed(Failure),
    /// COMMIT was sent and not answered.
    InDoubt {
        xid: Xid,
        verdicts: Vec<Result<(), Refusal>>,
    },
}

impl<E: Into<Failure>> From<E> for Unwritten {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// True when the batch adds to the log.
pub(super) fn has_records(batch: &Batch) -> bool {
    !(batch.chunk.frames.is_empty() && batch.notes.is_empty())
}

/// Name of the batch for crash tests.
fn kind(batch: &Batch) -> &'static str {
    match batch.next {
        _ if !batch.sub_runs.new.is_empty() => "sub_run",
        _ if !batch.approvals.is_empty() => "ask_approval",
        _ if !batch.expired_approvals.is_empty() => "expire_approval",
        Next::Keep => "append",
        Next::Park { .. } | Next::Defer { .. } => "park",
        Next::Release | Next::Return => "release",
        Next::Finish(_) => "finish",
    }
}

/// Writes batches of different runs in one transaction. The verdicts are in the order of the batches.
pub(super) async fn write(
    client: &Client,
    prepared: &Prepared,
    batches: &[(Lease, &Batch)],
    outgoing: &mut Outgoing,
) -> Result<Vec<Verdict>, Unwritten> {
    let mut locked = lock(client, prepared, batches).await?;
    let verdicts: Vec<Result<Standing, Refusal>> = batches
        .iter()
        .map(|(lease, batch)| locked.judge(*lease, batch))
        .collect();
    let mut work = Work::default();
    let mut counts = std::mem::take(&mut locked.counts);
    let accepted = || {
        let judged = batches.iter().zip(&verdicts);
        judged.filter_map(|((lease, batch), verdict)| Some((*lease, *batch, verdict.ok()?)))
    };
    for (lease, batch, standing) in accepted() {
        work.add(lease, batch, standing, &mut counts)?;
        announce(outgoing, lease.run, batch, standing);
    }
    let mut deliveries = reach(&mut work.tree, accepted(), &locked.reached, outgoing)?;
    let doubt = || Unwritten::InDoubt {
        xid: locked.xid.clone(),
        verdicts: verdicts.iter().map(|verdict| verdict.map(|_| ())).collect(),
    };
    let sent = send(client, prepared, &work, outgoing, batches).await;
    let (next, created) = match sent {
        Ok(answer) => answer,
        Err(failure) if failure.is_lost() => return Err(doubt()),
        Err(failure) => return Err(failure.into()),
    };
    if crash::is_armed() {
        pass("after_commit", batches);
    }
    let next_of = |standing: &Standing, batch: &Batch| match batch.next {
        Next::Finish(_) => next.get(&standing.session?).copied(),
        _ => None,
    };
    let mut created = created.into_iter();
    Ok(batches
        .iter()
        .zip(&verdicts)
        .map(|((lease, batch), verdict)| {
            let standing = verdict.as_ref().map_err(|refusal| *refusal)?;
            let mut woken = deliveries.remove(&lease.run).unwrap_or_default();
            let children = created.by_ref().take(batch.sub_runs.new.len());
            woken.extend(children.flatten().map(Delivery::Queue));
            Ok(Committed {
                next_in_session: next_of(standing, batch),
                deliveries: woken,
            })
        })
        .collect())
}

/// Adds what the batches do to other runs. Returns who has to be woken for each, apart from children.
fn reach<'b>(
    tree: &mut TreeWork,
    accepted: impl Iterator<Item = (Lease, &'b Batch, Standing)> + Clone,
    reached: &Reached,
    outgoing: &mut Outgoing,
) -> Result<HashMap<RunNo, Vec<Delivery>>, Failure> {
    let reaches = |batch: &Batch| {
        !batch.mail.is_empty() || batch.stop_below.is_some() || !batch.sub_runs.new.is_empty()
    };
    let mut deliveries = HashMap::new();
    if !accepted.clone().any(|(_, batch, _)| reaches(batch)) {
        return Ok(deliveries);
    }
    for (lease, batch, _) in accepted.clone() {
        tree.note_own(lease, batch);
    }
    for (lease, batch, _) in accepted.filter(|(_, batch, _)| reaches(batch)) {
        let told = tree.add(lease, batch, reached)?;
        told.iter()
            .for_each(|delivery| outgoing.add(mail::notice(*delivery)));
        if !batch.sub_runs.new.is_empty() {
            outgoing.add(Notice::Queue);
        }
        deliveries.insert(lease.run, told);
    }
    Ok(deliveries)
}

/// What the locked rows say.
struct Locked {
    xid: Xid,
    /// Runs whose lease is the batch's: claims counted, session.
    leases: HashMap<RunNo, (bool, Option<i64>)>,
    /// The last mail of each run that was asked for.
    mail: HashMap<RunNo, i64>,
    /// Messages of each session whose run may end.
    counts: HashMap<i64, i64>,
    /// Other runs.
    reached: Reached,
}

impl Locked {
    fn judge(&mut self, lease: Lease, batch: &Batch) -> Result<Standing, Refusal> {
        let Some(&(attempts_counted, session)) = self.leases.get(&lease.run) else {
            return Err(Refusal::Fenced);
        };
        let last_mail = self.mail.get(&lease.run).copied().unwrap_or(0);
        let mail_waits = last_mail > batch.mail_through.0;
        if batch.unless_mail && mail_waits {
            return Err(Refusal::MailWaiting);
        }
        self.reached.take_room(batch)?;
        Ok(Standing {
            attempts_counted,
            session,
            mail_waits,
        })
    }
}

/// The first flight: BEGIN, the transaction's number, the locks, the mail.
async fn lock(
    client: &Client,
    prepared: &Prepared,
    batches: &[(Lease, &Batch)],
) -> Result<Locked, Failure> {
    let (runs, epochs): (Vec<i64>, Vec<i64>) = batches
        .iter()
        .map(|(lease, _)| (lease.run.0, int(lease.epoch)))
        .unzip();
    let those = |wanted: fn(&Batch) -> bool| -> Vec<i64> {
        let wanted = batches.iter().filter(|(_, batch)| wanted(batch));
        wanted.map(|(lease, _)| lease.run.0).collect()
    };
    let ending = those(|batch| matches!(batch.next, Next::Finish(_)));
    let resting = those(|batch| {
        batch.unless_mail || matches!(batch.next, Next::Park { .. } | Next::Defer { .. })
    });
    let reach = Reach::of(batches);
    let mut flight = vec![
        plain(client, "BEGIN"),
        query(client, &prepared.xid, vec![]),
        optional(client, &prepared.lock_sessions, &ending),
    ];
    if !reach.locked.is_empty() {
        let values: Values<'_> = vec![&reach.locked, &reach.stopping];
        flight.push(query(client, &prepared.lock_trees, values));
    }
    flight.extend([
        query(client, &prepared.lock_runs, vec![&runs, &epochs]),
        optional(client, &prepared.last_mail, &resting),
        optional(client, &prepared.readers, &reach.readers),
        optional(client, &prepared.live_below, &reach.stopping),
        optional(client, &prepared.count_below, &reach.roots),
    ]);
    let flight = pipeline(flight);
    let mut answers = within(flight).await?.into_iter();
    let mut rows = || answers.next().unwrap_or_default();
    rows();
    let xid = match rows().first() {
        Some(row) => Xid {
            number: row.try_get(0)?,
            begun: row.try_get(1)?,
        },
        None => return Err(Failure::InDoubt),
    };
    let sessions = rows();
    let counts = pairs(&sessions)?.collect();
    if !reach.locked.is_empty() {
        rows();
    }
    let mut leases = HashMap::new();
    for row in rows() {
        leases.insert(RunNo(row.try_get(0)?), (row.try_get(1)?, row.try_get(2)?));
    }
    let last = rows();
    let mail = pairs(&last)?.map(|(run, no)| (RunNo(run), no)).collect();
    let reached = Reached::read(&rows(), &rows(), &rows())?;
    Ok(Locked {
        xid,
        leases,
        mail,
        counts,
        reached,
    })
}

/// What the second flight returns: the next run of each session whose run ended, and the children in their order,
/// `None` for one that existed.
type Sent = (HashMap<i64, RunNo>, Vec<Option<RunNo>>);

/// The second flight: the rows, the notices, COMMIT.
async fn send(
    client: &Client,
    prepared: &Prepared,
    work: &Work<'_>,
    outgoing: &Outgoing,
    batches: &[(Lease, &Batch)],
) -> Result<Sent, Failure> {
    let (channels, payloads) = outgoing.messages();
    let mut sending = work.statements(client, prepared);
    let children = sending.len() - work.tree.children()..sending.len();
    if !channels.is_empty() {
        sending.push(query(client, &prepared.notify, vec![&channels, &payloads]));
    }
    let sessions = work.touched_sessions();
    let at = sending.len();
    sending.push(optional(client, &prepared.next_in_session, sessions));
    if crash::is_armed() {
        let answers = within(pipeline(sending)).await?;
        pass("before_commit", batches);
        within(pipeline(vec![plain(client, "COMMIT")])).await?;
        return Ok((waiting(&answers[at])?, created(&answers[children])?));
    }
    sending.push(plain(client, "COMMIT"));
    let answers = within(pipeline(sending)).await?;
    Ok((waiting(&answers[at])?, created(&answers[children])?))
}

/// Numbers of new children.
fn created(answers: &[Vec<Row>]) -> Result<Vec<Option<RunNo>>, Failure> {
    let number = |rows: &Vec<Row>| match rows.first() {
        Some(row) => Ok(Some(RunNo(row.try_get(0)?))),
        None => Ok(None),
    };
    answers.iter().map(number).collect()
}

/// Which runs of those sessions want a worker now.
pub(super) fn waiting(rows: &[Row]) -> Result<HashMap<i64, RunNo>, Failure> {
    let mut next = HashMap::new();
    for row in rows {
        if row.try_get::<_, bool>(2)? {
            next.insert(row.try_get(0)?, RunNo(row.try_get(1)?));
        }
    }
    Ok(next)
}

fn announce(outgoing: &mut Outgoing, run: RunNo, batch: &Batch, standing: Standing) {
    if !batch.chunk.frames.is_empty() {
        outgoing.add(Notice::Events(vec![(run, batch.chunk.last_seq)]));
    }
    let wants_worker = match batch.next {
        Next::Keep => false,
        Next::Release | Next::Return => true,
        Next::Park { .. } | Next::Defer { .. } => standing.mail_waits,
        Next::Finish(_) => standing.session.is_some(),
    };
    if wants_worker {
        outgoing.add(Notice::Queue);
    }
}

fn pairs(rows: &[Row]) -> Result<impl Iterator<Item = (i64, i64)>, Failure> {
    let pairs: Result<Vec<(i64, i64)>, tokio_postgres::Error> = rows
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect();
    Ok(pairs?.into_iter())
}

/// A statement about these rows, or nothing when there are none.
fn optional<'a>(
    client: &'a Client,
    statement: &'a tokio_postgres::Statement,
    rows: &'a Vec<i64>,
) -> Sending<'a> {
    if rows.is_empty() {
        return Box::pin(std::future::ready(Ok(Vec::new())));
    }
    query(client, statement, vec![rows])
}

fn plain<'a>(client: &'a Client, sql: &'a str) -> Sending<'a> {
    Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) })
}

/// Passes the crash points of a transaction's batches.
fn pass(stage: &str, batches: &[(Lease, &Batch)]) {
    crash::point(stage);
    for (_, batch) in batches {
        crash::point_of(stage, kind(batch));
    }
}
