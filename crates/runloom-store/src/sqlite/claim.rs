//! Taking the lease of a run, and finding runs that want to be taken.

use bytes::Bytes;
use runloom_ports::store::{
    Chunk, Claim, Claimable, Lease, LogEntry, MailNo, Millis, RunNo, SessionNo, WorkspaceNo,
};
use runloom_protocol::id::RunId;
use runloom_protocol::spec::PromptMessage;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{Json, Word};
use super::transaction::Tx;
use super::{int, mail, uint};

/// True for a run behind an earlier live run of its session. `runs` is the outer table.
const BLOCKED: &str = "EXISTS (SELECT 1 FROM runs AS earlier
    WHERE earlier.session = runs.session AND earlier.completed_at IS NULL AND earlier.no < runs.no)";

/// A lease just taken, and what the row says.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    lease: Lease,
    id: RunId,
    workspace: WorkspaceNo,
    session: Option<SessionNo>,
    attempts: u32,
    taken_over: bool,
    created_at: Millis,
    started_at: Millis,
}

impl Taken {
    /// The lease.
    pub(super) fn lease(&self) -> Lease {
        self.lease
    }
}

/// Takes the lease, or returns `None` when the run is not to be had.
pub(super) fn take(
    tx: &mut Tx<'_>,
    run: RunNo,
    worker: &str,
    now: Millis,
    most: u32,
) -> rusqlite::Result<Option<Taken>> {
    let found = tx
        .connection
        .prepare_cached(&format!(
            "SELECT worker, epoch, attempts, id, workspace, session, created_at, started_at FROM runs
             WHERE no = ?1 AND completed_at IS NULL AND attempts < ?3
               AND (parked = 0 OR wake_at <= ?2)
               AND (cancel = 1 OR NOT {BLOCKED})"
        ))?
        .query_row([run.0, now.0, i64::from(most)], |row| {
            let holder: Option<String> = row.get(0)?;
            let taken = Taken {
                lease: Lease {
                    run,
                    epoch: uint(row.get(1)?) + 1,
                },
                attempts: row.get::<_, u32>(2)?.saturating_add(1),
                taken_over: holder.is_some(),
                id: row.get::<_, Word<RunId>>(3)?.0,
                workspace: WorkspaceNo(row.get(4)?),
                session: row.get::<_, Option<i64>>(5)?.map(SessionNo),
                created_at: Millis(row.get(6)?),
                started_at: row.get::<_, Option<i64>>(7)?.map_or(now, Millis),
            };
            Ok((holder, taken))
        })
        .optional()?;
    let Some((holder, taken)) = found else {
        return Ok(None);
    };
    if holder.is_some_and(|holder| tx.workers.is_alive(&holder, now)) {
        return Ok(None);
    }
    tx.execute(
        "UPDATE runs SET worker = ?2, epoch = ?3, attempts = ?4, started_at = ?5, parked = 0, wake_at = NULL,
             status = CASE status WHEN 'queued' THEN 'running' ELSE status END
         WHERE no = ?1",
        params![
            run.0,
            worker,
            int(taken.lease.epoch),
            taken.attempts,
            taken.started_at.0
        ],
    )?;
    tx.held.set(taken.lease, true, 0);
    tx.workers.hear(worker, now);
    Ok(Some(taken))
}

/// Gives a lease back that nobody will use.
pub(super) fn give_back(tx: &mut Tx<'_>, lease: Lease) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE runs SET worker = NULL, attempts = attempts - 1 WHERE no = ?1 AND epoch = ?2 AND worker IS NOT NULL",
        params![lease.run.0, int(lease.epoch)],
    )?;
    tx.held.remove(lease.run);
    Ok(())
}

/// Reads what the holder of a lease needs. Apart from mail nothing of it can change under the lease.
pub(super) fn load(connection: &Connection, taken: Taken) -> rusqlite::Result<Claim> {
    let run = taken.lease.run;
    let spec = connection
        .prepare_cached("SELECT spec FROM run_specs WHERE run = ?1")?
        .query_row([run.0], |row| row.get(0))?;
    let (history, active_model) = match taken.session {
        Some(session) => (
            history(connection, session)?,
            active_model(connection, session)?,
        ),
        None => (Vec::new(), None),
    };
    Ok(Claim {
        log: entries(connection, run)?,
        mail: mail::read(connection, run, MailNo::default())?,
        spec,
        history,
        active_model,
        lease: taken.lease,
        id: taken.id,
        workspace: taken.workspace,
        in_session: taken.session.is_some(),
        attempts: taken.attempts,
        taken_over: taken.taken_over,
        created_at: taken.created_at,
        started_at: taken.started_at,
    })
}

/// Runs that nobody alive holds and that have something to do; workspaces take turns, and in each those that were
/// tried often with the others.
pub(super) fn claimable(
    connection: &Connection,
    now: Millis,
    (trusted, limit): (u32, usize),
    alive: &[String],
) -> rusqlite::Result<Vec<Claimable>> {
    connection
        .prepare_cached(&format!(
            "SELECT no, workspace, attempts FROM runs WHERE no IN (
                 SELECT no FROM runs WHERE completed_at IS NULL AND worker IS NULL AND parked = 0
                 UNION ALL
                 SELECT no FROM runs WHERE wake_at IS NOT NULL AND wake_at <= ?1
                 UNION ALL
                 SELECT no FROM runs WHERE worker IS NOT NULL AND worker NOT IN (SELECT value FROM json_each(?3))
             ) AND (cancel = 1 OR NOT {BLOCKED})
             ORDER BY row_number() OVER (PARTITION BY workspace, attempts >= ?4 ORDER BY no), no LIMIT ?2"
        ))?
        .query_map(
            params![now.0, int(limit as u64), Json(alive), trusted],
            |row| {
                Ok(Claimable {
                    run: RunNo(row.get(0)?),
                    workspace: WorkspaceNo(row.get(1)?),
                    attempts: row.get(2)?,
                })
            },
        )?
        .collect()
}

fn history(connection: &Connection, session: SessionNo) -> rusqlite::Result<Vec<PromptMessage>> {
    connection
        .prepare_cached("SELECT body FROM messages WHERE session = ?1 ORDER BY n")?
        .query_map([session.0], |row| {
            Ok(row.get::<_, Json<PromptMessage>>(0)?.0)
        })?
        .collect()
}

fn active_model(connection: &Connection, session: SessionNo) -> rusqlite::Result<Option<String>> {
    let found = connection
        .prepare_cached("SELECT active_model FROM sessions WHERE no = ?1")?
        .query_row([session.0], |row| row.get(0))
        .optional()?;
    Ok(found.flatten())
}

fn entries(connection: &Connection, run: RunNo) -> rusqlite::Result<Vec<LogEntry>> {
    connection
        .prepare_cached(
            "SELECT first_seq, last_seq, terminal, frames, notes, at FROM log WHERE run = ?1 ORDER BY last_seq, no",
        )?
        .query_map([run.0], |row| {
            Ok(LogEntry {
                chunk: chunk(row)?,
                notes: row.get(4)?,
                at: Millis(row.get(5)?),
            })
        })?
        .collect()
}

/// Reads `first_seq, last_seq, terminal, frames` from the first columns.
pub(super) fn chunk(row: &rusqlite::Row<'_>) -> rusqlite::Result<Chunk> {
    Ok(Chunk {
        first_seq: uint(row.get(0)?),
        last_seq: uint(row.get(1)?),
        terminal: row.get(2)?,
        frames: Bytes::from(row.get::<_, Vec<u8>>(3)?),
    })
}
