//! Writing batches: the hottest path of the store. One transaction for whatever waits, in two flights.
//!
//! The first flight takes the locks and with them the verdicts: a batch whose lease is not the run's, or that rests on
//! silence while mail waits, is refused alone. The second flight writes all others, tells the other replicas and commits.

use std::collections::HashMap;

use runloom_ports::crash;
use runloom_ports::store::{Batch, CommitError, Committed, Lease, Next, RunNo};
use tokio_postgres::{Client, Row};

use super::doubt::Xid;
use super::error::Failure;
use super::group::{Sending, Standing, Work, pipeline, query};
use super::int;
use super::notify::{Notice, Outgoing};
use super::pool::within;
use super::statements::Prepared;

/// What becomes of a batch, the store willing.
pub(super) type Verdict = Result<Committed, Refusal>;

/// Why a batch is not written, without the store having failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Fenced,
    MailWaiting,
}

impl From<Refusal> for CommitError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fenced => Self::Fenced,
            Refusal::MailWaiting => Self::MailWaiting,
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
    let locked = lock(client, prepared, batches).await?;
    let verdicts: Vec<Result<Standing, Refusal>> = batches
        .iter()
        .map(|(lease, batch)| locked.judge(*lease, batch))
        .collect();
    let mut work = Work::default();
    let mut counts = locked.counts;
    for ((lease, batch), verdict) in batches.iter().zip(&verdicts) {
        if let Ok(standing) = verdict {
            work.add(*lease, batch, *standing, &mut counts)?;
            announce(outgoing, lease.run, batch, *standing);
        }
    }
    let doubt = || Unwritten::InDoubt {
        xid: locked.xid.clone(),
        verdicts: verdicts.iter().map(|verdict| verdict.map(|_| ())).collect(),
    };
    let sent = send(client, prepared, &work, outgoing, batches).await;
    let next = match sent {
        Ok(next) => next,
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
    Ok(batches
        .iter()
        .zip(&verdicts)
        .map(|((_, batch), verdict)| {
            verdict
                .as_ref()
                .map_err(|refusal| *refusal)
                .map(|standing| Committed {
                    next_in_session: next_of(standing, batch),
                })
        })
        .collect())
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
}

impl Locked {
    fn judge(&self, lease: Lease, batch: &Batch) -> Result<Standing, Refusal> {
        let Some(&(attempts_counted, session)) = self.leases.get(&lease.run) else {
            return Err(Refusal::Fenced);
        };
        let last_mail = self.mail.get(&lease.run).copied().unwrap_or(0);
        let mail_waits = last_mail > batch.mail_through.0;
        if batch.unless_mail && mail_waits {
            return Err(Refusal::MailWaiting);
        }
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
    let flight = pipeline(vec![
        plain(client, "BEGIN"),
        query(client, &prepared.xid, vec![]),
        optional(client, &prepared.lock_sessions, &ending),
        query(client, &prepared.lock_runs, vec![&runs, &epochs]),
        optional(client, &prepared.last_mail, &resting),
    ]);
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
    let mut leases = HashMap::new();
    for row in rows() {
        leases.insert(RunNo(row.try_get(0)?), (row.try_get(1)?, row.try_get(2)?));
    }
    let last = rows();
    let mail = pairs(&last)?.map(|(run, no)| (RunNo(run), no)).collect();
    Ok(Locked {
        xid,
        leases,
        mail,
        counts,
    })
}

/// The second flight: the rows, the notices, COMMIT. Returns the next run of each session whose run ended.
async fn send(
    client: &Client,
    prepared: &Prepared,
    work: &Work<'_>,
    outgoing: &Outgoing,
    batches: &[(Lease, &Batch)],
) -> Result<HashMap<i64, RunNo>, Failure> {
    let (channels, payloads) = outgoing.messages();
    let mut sending = work.statements(client, prepared);
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
        return waiting(&answers[at]);
    }
    sending.push(plain(client, "COMMIT"));
    let answers = within(pipeline(sending)).await?;
    waiting(&answers[at])
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
