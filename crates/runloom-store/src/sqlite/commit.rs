//! Writing one batch: the hottest path of the store.

use runloom_ports::store::{
    Batch, Chunk, CommitError, Committed, Ending, Lease, Millis, Next, RunNo,
};
use rusqlite::{OptionalExtension, params};

use super::columns::Json;
use super::leases::{Holding, Standing};
use super::transaction::Tx;
use super::{approvals, int, ledger, mail, tree};

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

/// Name of the batch for crash tests.
pub(super) fn kind(batch: &Batch) -> &'static str {
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

/// Writes the batch, or says why not. An ordinary append is one insert and nothing else.
pub(super) fn write(
    tx: &mut Tx<'_>,
    lease: Lease,
    batch: &Batch,
) -> rusqlite::Result<Result<Committed, Refusal>> {
    let run = lease.run;
    let Some(holding) = holding(tx, lease)? else {
        return Ok(Err(Refusal::Fenced));
    };
    if batch.unless_mail && mail::is_waiting(tx.connection, run, batch.mail_through)? {
        return Ok(Err(Refusal::MailWaiting));
    }
    if let Err(refusal) = tree::check_room(tx, &batch.sub_runs)? {
        return Ok(Err(refusal));
    }
    if has_records(batch) {
        append(tx, run, &batch.chunk, &batch.notes, batch.at)?;
    }
    let through = holding.mail_through.max(batch.mail_through.0);
    if through > holding.mail_through {
        tx.execute(
            "DELETE FROM mail WHERE run = ?1 AND no <= ?2",
            params![run.0, through],
        )?;
    }
    update_calls(tx, run, batch)?;
    approvals::update(tx, run, batch)?;
    if let Some(usage) = &batch.usage {
        ledger::record(tx, run, (usage, batch.speaker.as_deref()), batch.at)?;
    }
    let deliveries = tree::reach(tx, lease, batch)?;
    let mut next_in_session = None;
    match &batch.next {
        Next::Keep => {
            let reset = holding.attempts_counted && batch.progress;
            if reset || batch.status.is_some() {
                tx.execute(
                    "UPDATE runs SET attempts = iif(?3, 0, attempts), status = coalesce(?2, status) WHERE no = ?1",
                    params![run.0, batch.status.map(|status| status.as_str()), reset],
                )?;
            }
            tx.held
                .set(lease, holding.attempts_counted && !reset, through);
        }
        Next::Park { wake_at } => leave(tx, batch, run, Some(*wake_at))?,
        Next::Defer { until } => leave(tx, batch, run, Some(Some(*until)))?,
        Next::Release | Next::Return => leave(tx, batch, run, None)?,
        Next::Finish(ending) => next_in_session = finish(tx, run, ending, batch.at)?,
    }
    Ok(Ok(Committed {
        next_in_session,
        deliveries,
    }))
}

/// True when the batch adds to the log.
fn has_records(batch: &Batch) -> bool {
    !(batch.chunk.frames.is_empty() && batch.notes.is_empty())
}

/// Appends one row to the log.
pub(super) fn append(
    tx: &Tx<'_>,
    run: RunNo,
    chunk: &Chunk,
    notes: &str,
    at: Millis,
) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO log (run, first_seq, last_seq, terminal, at, notes, frames)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            run.0,
            int(chunk.first_seq),
            int(chunk.last_seq),
            chunk.terminal,
            at.0,
            notes,
            &chunk.frames[..],
        ],
    )?;
    Ok(())
}

/// What is known of the lease, when it is still good.
pub(super) fn holding(tx: &mut Tx<'_>, lease: Lease) -> rusqlite::Result<Option<Holding>> {
    if tx.held.get(lease.run).is_none() {
        let stored = tx
            .connection
            .prepare_cached(
                "SELECT epoch, attempts FROM runs WHERE no = ?1 AND worker IS NOT NULL",
            )?
            .query_row([lease.run.0], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })
            .optional()?;
        let Some((epoch, attempts)) = stored else {
            return Ok(None);
        };
        let stored = Lease {
            run: lease.run,
            epoch: super::uint(epoch),
        };
        tx.held.set(stored, attempts > 0, 0);
    }
    Ok(tx
        .held
        .get(lease.run)
        .filter(|holding| holding.epoch == lease.epoch))
}

fn update_calls(tx: &mut Tx<'_>, run: RunNo, batch: &Batch) -> rusqlite::Result<()> {
    if !batch.opened.is_empty() {
        tx.held.set_plain(run, None);
    }
    for call in &batch.closed {
        tx.execute(
            "DELETE FROM calls WHERE run = ?1 AND tool_use_id = ?2",
            params![run.0, call],
        )?;
    }
    for call in &batch.opened {
        tx.execute(
            "INSERT OR REPLACE INTO calls (run, tool_use_id, deadline) VALUES (?1, ?2, ?3)",
            params![run.0, call.tool_use_id, call.deadline.0],
        )?;
    }
    Ok(())
}

/// Leaves a run that is not over. `park`: it waits for mail, or until then.
fn leave(
    tx: &mut Tx<'_>,
    batch: &Batch,
    run: RunNo,
    park: Option<Option<Millis>>,
) -> rusqlite::Result<()> {
    // Mail that came meanwhile would wake a parked run: it does so at once.
    let (parked, wake_at) = match park {
        Some(wake_at) if !mail::is_waiting(tx.connection, run, batch.mail_through)? => {
            (true, wake_at)
        }
        _ => (false, None),
    };
    tx.execute(
        "UPDATE runs SET worker = NULL, attempts = max(attempts - ?5, 0), parked = ?2, wake_at = ?3,
             status = coalesce(?4, status)
         WHERE no = ?1",
        params![
            run.0,
            parked,
            wake_at.map(|at| at.0),
            batch.status.map(|status| status.as_str()),
            batch.forgives(parked),
        ],
    )?;
    tx.held.remove(run);
    Ok(())
}

/// Ends the run; returns the run of its session whose turn it is now.
fn finish(
    tx: &mut Tx<'_>,
    run: RunNo,
    ending: &Ending,
    at: Millis,
) -> rusqlite::Result<Option<RunNo>> {
    tx.execute(
        "UPDATE runs SET worker = NULL, attempts = 0, parked = 0, wake_at = NULL, status = ?2, completed_at = ?3,
             tool_calls = ?4, turns = ?5, cost_usd = ?6, tokens = ?7, model = ?8, failure = ?9, cancelled = ?10,
             error = ?11, final_text = ?12, subagents = ?13
         WHERE no = ?1",
        params![
            run.0,
            ending.status.as_str(),
            at.0,
            ending.tool_calls,
            ending.turns,
            ending.cost_usd,
            Json(&ending.tokens),
            Json(&ending.model),
            ending.failure.as_ref().map(Json),
            ending.cancel.as_ref().map(Json),
            ending.error,
            ending.final_text,
            ending.subagents.as_ref().map(Json),
        ],
    )?;
    let plain = tx.held.get(run).and_then(|holding| holding.plain);
    tx.held.remove(run);
    let session = match plain {
        Some(plain) => plain.session,
        None => {
            ledger::settle(tx, run, None)?;
            tx.execute("DELETE FROM mail WHERE run = ?1", params![run.0])?;
            tx.execute("DELETE FROM calls WHERE run = ?1", params![run.0])?;
            approvals::cancel(tx, run)?;
            session_of(tx, run)?
        }
    };
    let Some(session) = session else {
        return Ok(None);
    };
    extend_session(tx, session, ending, at)?;
    next_in_session(tx, session.no)
}

fn session_of(tx: &Tx<'_>, run: RunNo) -> rusqlite::Result<Option<Standing>> {
    tx.connection
        .prepare_cached(
            "SELECT sessions.no, sessions.messages FROM runs JOIN sessions ON sessions.no = runs.session WHERE runs.no = ?1",
        )?
        .query_row([run.0], |row| {
            Ok(Standing {
                no: row.get(0)?,
                messages: super::uint(row.get(1)?),
            })
        })
        .optional()
}

fn extend_session(
    tx: &Tx<'_>,
    Standing {
        no: session,
        messages,
    }: Standing,
    ending: &Ending,
    at: Millis,
) -> rusqlite::Result<()> {
    let mut count = int(messages);
    for message in &ending.session_messages {
        count += 1;
        tx.execute(
            "INSERT INTO messages (session, n, body) VALUES (?1, ?2, ?3)",
            params![session, count, Json(message)],
        )?;
    }
    tx.execute(
        "UPDATE sessions SET messages = ?2, last_used_at = max(last_used_at, ?3), active_model = coalesce(?4, active_model)
         WHERE no = ?1",
        params![session, count, at.0, ending.active_model],
    )?;
    Ok(())
}

/// The session's oldest live run, when it waits for a worker.
fn next_in_session(tx: &Tx<'_>, session: i64) -> rusqlite::Result<Option<RunNo>> {
    let oldest = tx
        .connection
        .prepare_cached(
            "SELECT no, worker IS NULL AND parked = 0 FROM runs
             WHERE session = ?1 AND completed_at IS NULL ORDER BY no LIMIT 1",
        )?
        .query_row([session], |row| {
            Ok((RunNo(row.get(0)?), row.get::<_, bool>(1)?))
        })
        .optional()?;
    Ok(oldest.and_then(|(run, waits)| waits.then_some(run)))
}
