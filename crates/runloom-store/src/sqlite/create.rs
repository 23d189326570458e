//! Inserting a run, with its idempotency key and, when asked, its first lease and event.

use runloom_ports::store::{
    Created, Earlier, Idempotency, Lease, Millis, NewRun, RunNo, WorkspaceNo,
};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::{RunStatus, SessionStatus};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{Json, Word};
use super::leases::{Plain, Standing};
use super::transaction::Tx;
use super::{commit, filter};

/// Epoch of the lease that comes with the run.
const FIRST_EPOCH: u64 = 1;

/// Inserts the run, or says why not.
#[expect(
    clippy::too_many_lines,
    reason = "one statement with all columns of a run"
)]
pub(super) fn insert(tx: &mut Tx<'_>, new: &NewRun) -> rusqlite::Result<Created> {
    if let Some(key) = &new.idempotency {
        match earlier_use(tx.connection, new.workspace, key)? {
            Earlier::None => {}
            Earlier::OtherBody(_) => return Ok(Created::KeyReused),
            Earlier::Same(answer) => {
                return Ok(RunId::parse(&answer).map_or(Created::KeyReused, Created::Replayed));
            }
        }
    }
    let session = match &new.session {
        None => None,
        Some(id) => match session(tx, new.workspace, id.as_str())? {
            None => return Ok(Created::NoSession),
            Some((_, SessionStatus::Ended)) => return Ok(Created::SessionEnded),
            Some((session, SessionStatus::Active)) => Some(session),
        },
    };
    let said = session.map_or(0, |session| session.messages);
    let blocked = match session {
        Some(session) => has_live_run(tx.connection, session.no)?,
        None => false,
    };
    let start = new
        .start
        .as_ref()
        .filter(|start| !blocked && start.history == said);
    tx.execute(
        "INSERT INTO runs (epoch, attempts, worker, status, workspace, session, id, created_at, started_at,
             credential, model_id, agent_id, spec_name, input_preview, metadata)
         VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            start.map_or(0, |_| super::int(FIRST_EPOCH)),
            start.map(|start| &start.worker),
            start.map_or(RunStatus::Queued, |_| RunStatus::Running).as_str(),
            new.workspace.0,
            session.map(|session| session.no),
            new.id.as_str(),
            new.created_at.0,
            start.map(|_| new.created_at.0),
            new.credential,
            new.model_id,
            new.agent_id,
            new.spec_name,
            new.input_preview,
            Json(&new.metadata),
        ],
    )?;
    let run = RunNo(tx.connection.last_insert_rowid());
    tx.execute(
        "INSERT INTO run_specs (run, spec, public_spec) VALUES (?1, ?2, ?3)",
        params![run.0, new.spec, new.public_spec],
    )?;
    filter::label(tx, filter::Kind::Run, new.workspace, run.0, &new.metadata)?;
    if let Some(owner) = &new.private_to {
        tx.execute(
            "UPDATE runs SET private_to = ?2 WHERE no = ?1",
            params![run.0, owner],
        )?;
    }
    if let Some(session) = session {
        tx.execute(
            "UPDATE sessions SET last_used_at = max(last_used_at, ?2) WHERE no = ?1",
            params![session.no, new.created_at.0],
        )?;
    }
    if let Some(key) = &new.idempotency {
        remember_use(tx, new.workspace, key, new.id.as_str(), new.created_at)?;
    }
    let lease = match start {
        None => None,
        Some(start) => {
            let epoch = FIRST_EPOCH;
            let lease = Lease { run, epoch };
            commit::append(tx, run, &start.chunk, "", new.created_at)?;
            tx.held.set(lease, false, 0);
            tx.held.set_plain(run, Some(Plain { session }));
            tx.workers.hear(&start.worker, new.created_at);
            Some(lease)
        }
    };
    Ok(Created::New {
        run,
        lease,
        blocked,
    })
}

/// Looks for an earlier use of the key.
pub(super) fn earlier_use(
    connection: &Connection,
    workspace: WorkspaceNo,
    key: &Idempotency,
) -> rusqlite::Result<Earlier> {
    let stored = connection
        .prepare_cached(
            "SELECT fingerprint, answer FROM idempotency WHERE workspace = ?1 AND key = ?2",
        )?
        .query_row(params![workspace.0, key.key], |row| {
            let same = row.get_ref(0)?.as_blob()? == key.fingerprint;
            Ok(if same {
                Earlier::Same(row.get(1)?)
            } else {
                Earlier::OtherBody(row.get(1)?)
            })
        })
        .optional()?;
    Ok(stored.unwrap_or(Earlier::None))
}

/// Keeps the key with its first answer.
pub(super) fn remember_use(
    tx: &Tx<'_>,
    workspace: WorkspaceNo,
    key: &Idempotency,
    answer: &str,
    now: Millis,
) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO idempotency (workspace, key, fingerprint, answer, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![workspace.0, key.key, &key.fingerprint[..], answer, now.0],
    )?;
    Ok(())
}

/// A session of the workspace, and its status.
pub(super) fn session(
    tx: &Tx<'_>,
    workspace: WorkspaceNo,
    id: &str,
) -> rusqlite::Result<Option<(Standing, SessionStatus)>> {
    tx.connection
        .prepare_cached(
            "SELECT no, status, messages FROM sessions WHERE id = ?1 AND workspace = ?2",
        )?
        .query_row(params![id, workspace.0], |row| {
            let status = row.get::<_, Word<SessionStatus>>(1)?.0;
            let standing = Standing {
                no: row.get(0)?,
                messages: super::uint(row.get(2)?),
            };
            Ok((standing, status))
        })
        .optional()
}

/// Whether a run of the session is alive.
pub(super) fn has_live_run(connection: &Connection, session: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM runs WHERE session = ?1 AND completed_at IS NULL)",
        )?
        .query_row([session], |row| row.get(0))
}
