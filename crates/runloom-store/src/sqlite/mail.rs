//! Mail: what others tell a run, and who has to be woken for it.

use runloom_ports::store::{Delivery, Mail, MailBody, MailNo, Millis, RunNo, WorkspaceNo};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::RunStatus;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Json, Word};
use super::transaction::Tx;

/// What the senders of mail have to know of a run.
pub(super) struct Addressee {
    pub(super) run: RunNo,
    pub(super) status: RunStatus,
    pub(super) cancel: bool,
    pub(super) worker: Option<String>,
}

const COLUMNS: &str = "no, status, cancel, worker";

fn addressee(row: &Row<'_>) -> rusqlite::Result<Addressee> {
    Ok(Addressee {
        run: RunNo(row.get(0)?),
        status: row.get::<_, Word<RunStatus>>(1)?.0,
        cancel: row.get(2)?,
        worker: row.get(3)?,
    })
}

/// Finds a run by its public id.
pub(super) fn find(
    tx: &Tx<'_>,
    workspace: WorkspaceNo,
    id: &RunId,
) -> rusqlite::Result<Option<Addressee>> {
    tx.connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs WHERE id = ?1 AND workspace = ?2"
        ))?
        .query_row(params![id.as_str(), workspace.0], addressee)
        .optional()
}

/// A run by its number, unless it has ended.
pub(super) fn live(tx: &Tx<'_>, run: RunNo) -> rusqlite::Result<Option<Addressee>> {
    tx.connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs WHERE no = ?1 AND completed_at IS NULL"
        ))?
        .query_row([run.0], addressee)
        .optional()
}

/// Live runs below a run, oldest first.
pub(super) fn live_below(tx: &Tx<'_>, run: RunNo) -> rusqlite::Result<Vec<Addressee>> {
    tx.connection
        .prepare_cached(&format!(
            "WITH RECURSIVE below (run) AS (
                 SELECT no FROM runs WHERE parent = ?1
                 UNION SELECT runs.no FROM below JOIN runs ON runs.parent = below.run)
             SELECT {COLUMNS} FROM below JOIN runs ON runs.no = below.run WHERE completed_at IS NULL ORDER BY no"
        ))?
        .query_map([run.0], addressee)?
        .collect()
}

/// Live runs of a session, oldest first.
pub(super) fn live_in_session(tx: &Tx<'_>, session: i64) -> rusqlite::Result<Vec<Addressee>> {
    tx.connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs WHERE session = ?1 AND completed_at IS NULL ORDER BY no"
        ))?
        .query_map([session], addressee)?
        .collect()
}

/// Writes mail to a live run. A parked one wants a worker from now on.
pub(super) fn send(
    tx: &mut Tx<'_>,
    to: &Addressee,
    body: &MailBody,
    now: Millis,
) -> rusqlite::Result<Delivery> {
    tx.execute(
        "INSERT INTO mail (run, at, body) VALUES (?1, ?2, ?3)",
        params![to.run.0, now.0, Json(body)],
    )?;
    tx.held.set_plain(to.run, None);
    if matches!(body, MailBody::Cancel { .. }) {
        tx.execute(
            "UPDATE runs SET cancel = 1, parked = 0, wake_at = NULL WHERE no = ?1",
            params![to.run.0],
        )?;
    } else if to.worker.is_none() {
        tx.execute(
            "UPDATE runs SET parked = 0, wake_at = NULL WHERE no = ?1 AND parked = 1",
            params![to.run.0],
        )?;
    }
    let alive = |worker: &String| tx.workers.is_alive(worker, now);
    Ok(if to.worker.as_ref().is_some_and(alive) {
        Delivery::Owner(to.run)
    } else {
        Delivery::Queue(to.run)
    })
}

/// True when there is mail after `after`.
pub(super) fn is_waiting(
    connection: &Connection,
    run: RunNo,
    after: MailNo,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM mail WHERE run = ?1 AND no > ?2)")?
        .query_row([run.0, after.0], |row| row.get(0))
}

/// Mail after `after`, oldest first.
pub(super) fn read(
    connection: &Connection,
    run: RunNo,
    after: MailNo,
) -> rusqlite::Result<Vec<Mail>> {
    connection
        .prepare_cached("SELECT no, at, body FROM mail WHERE run = ?1 AND no > ?2 ORDER BY no")?
        .query_map([run.0, after.0], |row| {
            Ok(Mail {
                no: MailNo(row.get(0)?),
                at: Millis(row.get(1)?),
                body: row.get::<_, Json<MailBody>>(2)?.0,
            })
        })?
        .collect()
}
