//! Inserting a run, with its idempotency key and, when asked, its first lease and event.

use runloom_ports::store::{
    Created, Earlier, Idempotency, Lease, Millis, NewRun, RunNo, WorkspaceNo,
};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::{RunStatus, SessionStatus};

use super::columns::{get_word, maybe_text, text, to_json};
use super::error::Failure;
use super::pool::Session;
use super::{filter, int, uint};

/// Epoch of the lease that comes with the run.
const FIRST_EPOCH: u64 = 1;

/// Inserts the run, or says why not.
#[expect(
    clippy::too_many_lines,
    reason = "one statement with all columns of a run"
)]
pub(super) async fn insert(session: &Session, new: &NewRun) -> Result<Created, Failure> {
    if let Some(key) = &new.idempotency {
        match earlier_use(session, new.workspace, key).await? {
            Earlier::None => {}
            Earlier::OtherBody(_) => return Ok(Created::KeyReused),
            Earlier::Same(answer) => {
                return Ok(RunId::parse(&answer).map_or(Created::KeyReused, Created::Replayed));
            }
        }
    }
    let of = match &new.session {
        None => None,
        Some(id) => match lock_session(session, new.workspace, id.as_str()).await? {
            None => return Ok(Created::NoSession),
            Some((_, SessionStatus::Ended, _)) => return Ok(Created::SessionEnded),
            Some((of, SessionStatus::Active, messages)) => Some((of, messages)),
        },
    };
    let said = of.map_or(0, |(_, messages)| messages);
    let of = of.map(|(of, _)| of);
    let blocked = match of {
        Some(of) => has_live_run(session, of).await?,
        None => false,
    };
    let start = new
        .start
        .as_ref()
        .filter(|start| !blocked && start.history == said);
    let run = insert_row(session, new, of, start.map(|start| start.worker.as_str())).await?;
    filter::label(
        session,
        filter::Kind::Run,
        new.workspace,
        run.0,
        &new.metadata,
    )
    .await?;
    if let Some(owner) = &new.private_to {
        session
            .execute(
                "UPDATE runs SET private_to = $2 WHERE no = $1",
                &[&run.0, &text(owner)],
            )
            .await?;
    }
    if let Some(of) = of {
        session
            .execute(
                "UPDATE sessions SET last_used_at = greatest(last_used_at, $2) WHERE no = $1",
                &[&of, &new.created_at.0],
            )
            .await?;
    }
    if let Some(key) = &new.idempotency {
        remember_use(session, new.workspace, key, new.id.as_str(), new.created_at).await?;
    }
    if let Some(start) = start {
        let chunk = &start.chunk;
        session
            .execute(
                "INSERT INTO log (run, first_seq, last_seq, terminal, at, notes, frames)
                 VALUES ($1, $2, $3, $4, $5, '', $6)",
                &[
                    &run.0,
                    &int(chunk.first_seq),
                    &int(chunk.last_seq),
                    &chunk.terminal,
                    &new.created_at.0,
                    &&chunk.frames[..],
                ],
            )
            .await?;
    }
    Ok(Created::New {
        run,
        lease: start.map(|_| Lease {
            run,
            epoch: FIRST_EPOCH,
        }),
        blocked,
    })
}

/// The run's row and its spec, in one statement.
async fn insert_row(
    session: &Session,
    new: &NewRun,
    of: Option<i64>,
    worker: Option<&str>,
) -> Result<RunNo, Failure> {
    let (status, epoch) = match worker {
        Some(_) => (RunStatus::Running, FIRST_EPOCH),
        None => (RunStatus::Queued, 0),
    };
    let rows = session
        .query(
            "WITH run AS (
                 INSERT INTO runs (epoch, attempts, worker, status, workspace, session, id, created_at, started_at,
                     credential, model_id, agent_id, spec_name, input_preview, metadata)
                 VALUES ($1, 0, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING no)
             INSERT INTO run_specs (run, spec, public_spec) SELECT no, $15, $16 FROM run RETURNING run",
            &[
                &int(epoch),
                &worker,
                &status.as_str(),
                &new.workspace.0,
                &of,
                &new.id.as_str(),
                &new.created_at.0,
                &worker.map(|_| new.created_at.0),
                &text(&new.credential),
                &text(&new.model_id),
                &maybe_text(new.agent_id.as_ref()),
                &maybe_text(new.spec_name.as_ref()),
                &text(&new.input_preview),
                &to_json(&new.metadata)?,
                &text(&new.spec),
                &text(&new.public_spec),
            ],
        )
        .await?;
    match rows.first() {
        Some(row) => Ok(RunNo(row.try_get(0)?)),
        None => Err(Failure::Late(0)),
    }
}

/// Looks for an earlier use of the key. Of two uses at once the second fails on the key's index when it is written; its
/// transaction is done again and then finds the first.
pub(super) async fn earlier_use(
    session: &Session,
    workspace: WorkspaceNo,
    key: &Idempotency,
) -> Result<Earlier, Failure> {
    let row = session
        .first(
            "SELECT fingerprint, answer FROM idempotency WHERE workspace = $1 AND key = $2",
            &[&workspace.0, &text(&key.key)],
        )
        .await?;
    let Some(row) = row else {
        return Ok(Earlier::None);
    };
    if row.try_get::<_, &[u8]>(0)? != key.fingerprint {
        return Ok(Earlier::OtherBody(row.try_get(1)?));
    }
    Ok(Earlier::Same(row.try_get(1)?))
}

/// Keeps the key with its first answer.
pub(super) async fn remember_use(
    session: &Session,
    workspace: WorkspaceNo,
    key: &Idempotency,
    answer: &str,
    now: Millis,
) -> Result<(), Failure> {
    session
        .execute(
            "INSERT INTO idempotency (workspace, key, fingerprint, answer, created_at) VALUES ($1, $2, $3, $4, $5)",
            &[
                &workspace.0,
                &text(&key.key),
                &&key.fingerprint[..],
                &answer,
                &now.0,
            ],
        )
        .await?;
    Ok(())
}

/// Number, status and count of messages of a session of the workspace. Locked: its runs come one after the other.
pub(super) async fn lock_session(
    session: &Session,
    workspace: WorkspaceNo,
    id: &str,
) -> Result<Option<(i64, SessionStatus, u64)>, Failure> {
    let row = session
        .first(
            "SELECT no, status, messages FROM sessions WHERE id = $1 AND workspace = $2 FOR NO KEY UPDATE",
            &[&id, &workspace.0],
        )
        .await?;
    match row {
        None => Ok(None),
        Some(row) => {
            let status = get_word(&row, "status")?;
            Ok(Some((row.try_get(0)?, status, uint(row.try_get(2)?))))
        }
    }
}

/// Whether a run of the session is alive.
pub(super) async fn has_live_run(session: &Session, of: i64) -> Result<bool, Failure> {
    let row = session
        .first(
            "SELECT 1 FROM runs WHERE session = $1 AND completed_at IS NULL LIMIT 1",
            &[&of],
        )
        .await?;
    Ok(row.is_some())
}
