//! The arrays of one group commit: many batches of many runs, one statement for each table they touch.

use std::collections::{BTreeMap, HashMap};
use std::task::Poll;

use futures_util::future::BoxFuture;
use runloom_ports::store::{Batch, Ending, Lease, Next};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::approvals::Requested;
use super::columns::{maybe_text, text, to_json};
use super::commit::has_records;
use super::error::Failure;
use super::int;
use super::ledger::Account;
use super::statements::Prepared;
use super::tree::TreeWork;

/// What the locked rows say about one batch that is going to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// The row counts claims since the last batch.
    pub(super) attempts_counted: bool,
    pub(super) session: Option<i64>,
    /// There is mail after the batch's `mail_through`.
    pub(super) mail_waits: bool,
}

/// Columns of the rows that a group writes.
#[derive(Default)]
pub(super) struct Work<'a> {
    log: Log<'a>,
    mail: (Vec<i64>, Vec<i64>),
    closed: (Vec<i64>, Vec<String>),
    opened: (Vec<i64>, Vec<String>, Vec<i64>),
    approvals: Requested,
    kept: Kept,
    ended: Ended,
    messages: (Vec<i64>, Vec<i64>, Vec<String>),
    sessions: (Vec<i64>, Vec<i64>, Vec<i64>, Vec<Option<String>>),
    account: Account,
    pub(super) tree: TreeWork,
}

#[derive(Default)]
struct Log<'a> {
    run: Vec<i64>,
    first_seq: Vec<i64>,
    last_seq: Vec<i64>,
    terminal: Vec<bool>,
    at: Vec<i64>,
    notes: Vec<&'a str>,
    frames: Vec<&'a [u8]>,
}

/// Rows of runs that are not over.
#[derive(Default)]
struct Kept {
    run: Vec<i64>,
    forgiven: Vec<i64>,
    status: Vec<Option<&'static str>>,
    leaves: Vec<bool>,
    parked: Vec<bool>,
    wake_at: Vec<Option<i64>>,
}

/// Rows of runs that are over.
#[derive(Default)]
struct Ended {
    run: Vec<i64>,
    status: Vec<&'static str>,
    completed_at: Vec<i64>,
    tool_calls: Vec<i64>,
    turns: Vec<i64>,
    cost_usd: Vec<Option<f64>>,
    tokens: Vec<String>,
    model: Vec<String>,
    failure: Vec<Option<String>>,
    cancelled: Vec<Option<String>>,
    error: Vec<Option<String>>,
    final_text: Vec<Option<String>>,
    subagents: Vec<Option<String>>,
}

impl<'a> Work<'a> {
    /// Adds a batch. `counts` has the number of messages of each session that is locked, and goes on counting.
    pub(super) fn add(
        &mut self,
        lease: Lease,
        batch: &'a Batch,
        standing: Standing,
        counts: &mut HashMap<i64, i64>,
    ) -> Result<(), Failure> {
        let run = lease.run.0;
        if has_records(batch) {
            self.log.add(run, batch);
        }
        self.calls(run, batch);
        self.approvals.add(run, batch)?;
        self.account.add(run, batch);
        let is_over = matches!(batch.next, Next::Finish(_));
        let through = if is_over {
            i64::MAX
        } else {
            batch.mail_through.0
        };
        if through > 0 {
            self.mail.0.push(run);
            self.mail.1.push(through);
        }
        match &batch.next {
            Next::Keep => {
                let forgives = standing.attempts_counted && batch.progress;
                if forgives || batch.status.is_some() {
                    self.kept.add(run, batch, None);
                }
            }
            Next::Release | Next::Return => self.kept.add(run, batch, Some((false, None))),
            // Mail that came meanwhile would wake a parked run: it does so at once.
            Next::Park { .. } | Next::Defer { .. } if standing.mail_waits => {
                self.kept.add(run, batch, Some((false, None)));
            }
            Next::Park { wake_at } => {
                let wake_at = wake_at.map(|at| at.0);
                self.kept.add(run, batch, Some((true, wake_at)));
            }
            Next::Defer { until } => self.kept.add(run, batch, Some((true, Some(until.0)))),
            Next::Finish(ending) => {
                self.ended.add(run, batch, ending)?;
                if let Some(session) = standing.session {
                    self.extend_session(session, batch, ending, counts)?;
                }
            }
        }
        Ok(())
    }

    fn calls(&mut self, run: i64, batch: &Batch) {
        for call in &batch.closed {
            self.closed.0.push(run);
            self.closed.1.push(text(call).into_owned());
        }
        // A statement may not touch a row twice: of two calls with one id the last counts.
        let opened: BTreeMap<&str, i64> = batch
            .opened
            .iter()
            .map(|call| (call.tool_use_id.as_str(), call.deadline.0))
            .collect();
        for (id, deadline) in opened {
            self.opened.0.push(run);
            self.opened.1.push(text(id).into_owned());
            self.opened.2.push(deadline);
        }
    }

    fn extend_session(
        &mut self,
        session: i64,
        batch: &Batch,
        ending: &Ending,
        counts: &mut HashMap<i64, i64>,
    ) -> Result<(), Failure> {
        let count = counts.entry(session).or_insert(0);
        for message in &ending.session_messages {
            *count += 1;
            self.messages.0.push(session);
            self.messages.1.push(*count);
            self.messages.2.push(to_json(message)?);
        }
        self.sessions.0.push(session);
        self.sessions
            .1
            .push(int(ending.session_messages.len() as u64));
        self.sessions.2.push(batch.at.0);
        let model = maybe_text(ending.active_model.as_ref());
        self.sessions.3.push(model.map(|model| model.into_owned()));
        Ok(())
    }

    /// Sessions whose runs ended: they may have a next one.
    pub(super) fn touched_sessions(&self) -> &Vec<i64> {
        &self.sessions.0
    }

    /// The statements, in the order in which they must run. Each is sent when it is first polled.
    pub(super) fn statements<'s>(
        &'s self,
        client: &'s Client,
        prepared: &'s Prepared,
    ) -> Vec<Sending<'s>> {
        let mut sending = Vec::new();
        let mut send = |rows: &'s Vec<i64>, statement: &'s Statement, values: Values<'s>| {
            if !rows.is_empty() {
                sending.push(query(client, statement, values));
            }
        };
        send(&self.log.run, &prepared.log, self.log.values());
        send(
            &self.mail.0,
            &prepared.mail,
            vec![&self.mail.0, &self.mail.1],
        );
        send(
            &self.closed.0,
            &prepared.closed,
            vec![&self.closed.0, &self.closed.1],
        );
        send(
            &self.opened.0,
            &prepared.opened,
            vec![&self.opened.0, &self.opened.1, &self.opened.2],
        );
        send(
            &self.approvals.run,
            &prepared.open_approvals,
            self.approvals.values(),
        );
        send(&self.kept.run, &prepared.kept, self.kept.values());
        send(&self.ended.run, &prepared.ended, self.ended.values());
        send(&self.ended.run, &prepared.calls, vec![&self.ended.run]);
        send(
            &self.ended.run,
            &prepared.cancel_approvals,
            vec![&self.ended.run],
        );
        send(
            &self.messages.0,
            &prepared.messages,
            vec![&self.messages.0, &self.messages.1, &self.messages.2],
        );
        send(
            &self.sessions.0,
            &prepared.sessions,
            vec![
                &self.sessions.0,
                &self.sessions.1,
                &self.sessions.2,
                &self.sessions.3,
            ],
        );
        let (runs, spent) = &self.account.settled;
        send(runs, &prepared.lock_purses, vec![runs]);
        send(runs, &prepared.settle, vec![runs, spent]);
        send(runs, &prepared.settled, vec![runs]);
        send(self.account.users(), &prepared.used, self.account.used());
        sending.extend(self.tree.statements(client, prepared));
        if !self.approvals.expired.is_empty() {
            let expired: Values<'s> = vec![&self.approvals.expired];
            sending.push(query(client, &prepared.expire_approvals, expired));
        }
        sending
    }
}

impl<'a> Log<'a> {
    fn add(&mut self, run: i64, batch: &'a Batch) {
        let chunk = &batch.chunk;
        self.run.push(run);
        self.first_seq.push(int(chunk.first_seq));
        self.last_seq.push(int(chunk.last_seq));
        self.terminal.push(chunk.terminal);
        self.at.push(batch.at.0);
        self.notes.push(&batch.notes);
        self.frames.push(&chunk.frames);
    }

    fn values(&self) -> Values<'_> {
        vec![
            &self.run,
            &self.first_seq,
            &self.last_seq,
            &self.terminal,
            &self.at,
            &self.notes,
            &self.frames,
        ]
    }
}

impl Kept {
    /// `left`: the lease is given back; parked or not, and until when.
    fn add(&mut self, run: i64, batch: &Batch, left: Option<(bool, Option<i64>)>) {
        let (parked, wake_at) = left.unwrap_or((false, None));
        self.run.push(run);
        self.forgiven.push(i64::from(batch.forgives(parked)));
        self.status.push(batch.status.map(|status| status.as_str()));
        self.leaves.push(left.is_some());
        self.parked.push(parked);
        self.wake_at.push(wake_at);
    }

    fn values(&self) -> Values<'_> {
        vec![
            &self.run,
            &self.forgiven,
            &self.status,
            &self.leaves,
            &self.parked,
            &self.wake_at,
        ]
    }
}

impl Ended {
    fn add(&mut self, run: i64, batch: &Batch, ending: &Ending) -> Result<(), Failure> {
        let owned = |it: std::borrow::Cow<'_, str>| it.into_owned();
        self.run.push(run);
        self.status.push(ending.status.as_str());
        self.completed_at.push(batch.at.0);
        self.tool_calls.push(i64::from(ending.tool_calls));
        self.turns.push(i64::from(ending.turns));
        self.cost_usd.push(ending.cost_usd);
        self.tokens.push(to_json(&ending.tokens)?);
        self.model.push(to_json(&ending.model)?);
        self.failure
            .push(ending.failure.as_ref().map(to_json).transpose()?);
        self.cancelled
            .push(ending.cancel.as_ref().map(to_json).transpose()?);
        self.error
            .push(maybe_text(ending.error.as_ref()).map(owned));
        self.final_text
            .push(maybe_text(ending.final_text.as_ref()).map(owned));
        self.subagents
            .push(ending.subagents.as_ref().map(to_json).transpose()?);
        Ok(())
    }

    fn values(&self) -> Values<'_> {
        vec![
            &self.run,
            &self.status,
            &self.completed_at,
            &self.tool_calls,
            &self.turns,
            &self.cost_usd,
            &self.tokens,
            &self.model,
            &self.failure,
            &self.cancelled,
            &self.error,
            &self.final_text,
            &self.subagents,
        ]
    }
}

/// Values of a statement.
pub(super) type Values<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// A statement on its way.
pub(super) type Sending<'a> = BoxFuture<'a, Result<Vec<Row>, tokio_postgres::Error>>;

/// A statement, not yet sent.
pub(super) fn query<'a>(
    client: &'a Client,
    statement: &'a Statement,
    values: Values<'a>,
) -> Sending<'a> {
    Box::pin(async move { client.query(statement, &values).await })
}

/// Sends all statements in their order, without waiting for one another's answer, and collects the answers up to the
/// first error. A statement that cannot even be sent keeps all later ones back: COMMIT must not follow a hole.
pub(super) async fn pipeline(
    mut sending: Vec<Sending<'_>>,
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let mut answers: Vec<Option<Vec<Row>>> = sending.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (statement, answer) in sending.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(said) = statement.as_mut().poll(context)
            {
                match said {
                    Ok(rows) => *answer = Some(rows),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    })
    .await?;
    Ok(answers.into_iter().flatten().collect())
}
