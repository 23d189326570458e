//! Taking the lease of a run, and finding runs that want to be taken.

use bytes::Bytes;
use runloom_ports::store::{
    Chunk, Claim, Claimable, Lease, LogEntry, MailNo, Millis, RunNo, SessionNo, WorkspaceNo,
};
use runloom_protocol::id::RunId;
use runloom_protocol::spec::PromptMessage;
use tokio_postgres::Row;

use super::columns::{Json, get_count, get_maybe_text, get_time, get_word};
use super::error::Failure;
use super::leases::alive;
use super::pool::Session;
use super::{int, mail, uint};

/// SQL: true for a run behind an earlier live run of its session. `runs` is the outer table.
macro_rules! blocked {
    () => {
        "EXISTS (SELECT 1 FROM runs AS earlier
            WHERE earlier.session = runs.session AND earlier.completed_at IS NULL AND earlier.no < runs.no)"
    };
}

/// A lease just taken, and what the row says.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) lease: Lease,
    id: RunId,
    workspace: WorkspaceNo,
    session: Option<SessionNo>,
    attempts: u32,
    taken_over: bool,
    created_at: Millis,
    started_at: Millis,
}

/// The row is locked and judged as it is then, so of two workers one gets it. A row that somebody else has locked is
/// passed over: a batch or a claim of another worker means that it is held, and mail announces itself when it is
/// written.
const TAKE: &str = concat!(
    "UPDATE runs SET worker = $2, epoch = epoch + 1, attempts = attempts + 1, started_at = coalesce(started_at, $3),
         parked = FALSE, wake_at = NULL, status = CASE status WHEN 'queued' THEN 'running' ELSE status END
     FROM (
         SELECT no, worker FROM runs
         WHERE no = $1 AND completed_at IS NULL AND attempts < $5 AND (NOT parked OR wake_at <= $3) AND (cancel OR NOT ",
    blocked!(),
    ") AND (worker IS NULL OR NOT ",
    alive!("runs.worker", "$4"),
    ") FOR NO KEY UPDATE SKIP LOCKED) AS found
     WHERE runs.no = found.no
     RETURNING epoch, attempts, id, workspace, session, created_at, started_at, found.worker IS NOT NULL AS taken_over"
);

/// Takes the lease, or returns `None` when the run is not to be had.
pub(super) async fn take(
    session: &Session,
    run: RunNo,
    worker: &str,
    now: Millis,
    (most, silence): (u32, f64),
) -> Result<Option<Taken>, Failure> {
    let taken = session
        .first(TAKE, &[&run.0, &worker, &now.0, &silence, &i64::from(most)])
        .await?;
    let Some(row) = taken else {
        return Ok(None);
    };
    Ok(Some(Taken {
        lease: Lease {
            run,
            epoch: uint(row.try_get("epoch")?),
        },
        id: get_word(&row, "id")?,
        workspace: WorkspaceNo(row.try_get("workspace")?),
        session: row.try_get::<_, Option<i64>>("session")?.map(SessionNo),
        attempts: get_count(&row, "attempts")?,
        taken_over: row.try_get("taken_over")?,
        created_at: get_time(&row, "created_at")?,
        started_at: get_time(&row, "started_at")?,
    }))
}

/// Reads what the holder of a lease needs. Apart from mail nothing of it can change under the lease.
pub(super) async fn load(session: &Session, taken: &Taken) -> Result<Claim, Failure> {
    let run = taken.lease.run;
    let spec = session
        .query("SELECT spec FROM run_specs WHERE run = $1", &[&run.0])
        .await?;
    let spec: String = match spec.first() {
        Some(row) => row.try_get(0)?,
        None => String::new(),
    };
    let (history, active_model) = match taken.session {
        Some(of) => (
            history(session, of).await?,
            active_model(session, of).await?,
        ),
        None => (Vec::new(), None),
    };
    Ok(Claim {
        log: entries(session, run).await?,
        mail: mail::read(session, run, MailNo::default()).await?,
        spec,
        history,
        active_model,
        lease: taken.lease,
        id: taken.id.clone(),
        workspace: taken.workspace,
        in_session: taken.session.is_some(),
        attempts: taken.attempts,
        taken_over: taken.taken_over,
        created_at: taken.created_at,
        started_at: taken.started_at,
    })
}

/// The workspaces that have runs which nobody holds are found one after the other in the index, and of each only the
/// first few runs: what this costs grows with the number of workspaces that wait, not with how much they have
/// waiting. Of those, the ones that were tried often are looked for among the oldest alone, where they come to stand.
const CLAIMABLE: &str = concat!(
    "WITH RECURSIVE waiting (workspace) AS (
         (SELECT workspace FROM runs WHERE completed_at IS NULL AND worker IS NULL AND NOT parked ORDER BY workspace LIMIT 1)
         UNION ALL
         SELECT (SELECT runs.workspace FROM runs
                 WHERE completed_at IS NULL AND worker IS NULL AND NOT parked AND runs.workspace > waiting.workspace
                 ORDER BY runs.workspace LIMIT 1)
         FROM waiting WHERE waiting.workspace IS NOT NULL
     ), found AS (
         SELECT unheld.no, unheld.workspace, unheld.attempts FROM waiting CROSS JOIN LATERAL (
             SELECT no, workspace, attempts FROM runs
             WHERE runs.workspace = waiting.workspace AND completed_at IS NULL AND worker IS NULL AND NOT parked
               AND attempts < $4 AND (cancel OR NOT ",
    blocked!(),
    ") ORDER BY no LIMIT $2) AS unheld
         UNION ALL
         SELECT oldest.no, oldest.workspace, oldest.attempts FROM waiting CROSS JOIN LATERAL (
             SELECT no, workspace, attempts FROM runs
             WHERE runs.workspace = waiting.workspace AND completed_at IS NULL AND worker IS NULL AND NOT parked
               AND (cancel OR NOT ",
    blocked!(),
    ") ORDER BY no LIMIT 64) AS oldest WHERE oldest.attempts >= $4
         UNION ALL
         SELECT no, workspace, attempts FROM runs WHERE wake_at IS NOT NULL AND wake_at <= $1 AND (cancel OR NOT ",
    blocked!(),
    ")
         UNION ALL
         SELECT no, workspace, attempts FROM runs WHERE worker IS NOT NULL AND worker NOT IN (
             SELECT id FROM workers
             WHERE heartbeat_at >= statement_timestamp() - $3::DOUBLE PRECISION * INTERVAL '1 millisecond')
           AND (cancel OR NOT ",
    blocked!(),
    ")
     )
     SELECT no, workspace, attempts FROM found
     ORDER BY row_number() OVER (PARTITION BY workspace, attempts >= $4 ORDER BY no), no LIMIT $2"
);

/// Runs that nobody alive holds and that have something to do; workspaces take turns, and in each those that were
/// tried often with the others.
pub(super) async fn claimable(
    session: &Session,
    now: Millis,
    (trusted, limit): (u32, usize),
    silence: f64,
) -> Result<Vec<Claimable>, Failure> {
    let limit = int(limit as u64);
    let rows = session
        .query(CLAIMABLE, &[&now.0, &limit, &silence, &i64::from(trusted)])
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Claimable {
                run: RunNo(row.try_get(0)?),
                workspace: WorkspaceNo(row.try_get(1)?),
                attempts: get_count(row, "attempts")?,
            })
        })
        .collect()
}

async fn history(session: &Session, of: SessionNo) -> Result<Vec<PromptMessage>, Failure> {
    let rows = session
        .query(
            "SELECT body FROM messages WHERE session = $1 ORDER BY n",
            &[&of.0],
        )
        .await?;
    rows.iter()
        .map(|row| Ok(row.try_get::<_, Json<PromptMessage>>(0)?.0))
        .collect()
}

async fn active_model(session: &Session, of: SessionNo) -> Result<Option<String>, Failure> {
    let sql = "SELECT active_model FROM sessions WHERE no = $1";
    match session.first(sql, &[&of.0]).await? {
        Some(row) => get_maybe_text(&row, "active_model"),
        None => Ok(None),
    }
}

async fn entries(session: &Session, run: RunNo) -> Result<Vec<LogEntry>, Failure> {
    let rows = session
        .query(
            "SELECT first_seq, last_seq, terminal, frames, notes, at FROM log WHERE run = $1 ORDER BY last_seq, no",
            &[&run.0],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(LogEntry {
                chunk: chunk(row)?,
                notes: row.try_get(4)?,
                at: Millis(row.try_get(5)?),
            })
        })
        .collect()
}

/// Reads `first_seq, last_seq, terminal, frames` from the first columns.
pub(super) fn chunk(row: &Row) -> Result<Chunk, Failure> {
    Ok(Chunk {
        first_seq: uint(row.try_get(0)?),
        last_seq: uint(row.try_get(1)?),
        terminal: row.try_get(2)?,
        frames: Bytes::from(row.try_get::<_, Vec<u8>>(3)?),
    })
}
