//! Mail: what others tell a run, and who has to be woken for it.

use runloom_ports::store::{Delivery, Mail, MailBody, MailNo, Millis, RunNo, WorkspaceNo};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::RunStatus;
use tokio_postgres::Row;

use super::columns::{Json, get_word, to_json};
use super::error::Failure;
use super::leases::alive;
use super::notify::Notice;
use super::pool::Session;

/// What the senders of mail have to know of a run. Its row is locked.
pub(super) struct Addressee {
    pub(super) run: RunNo,
    pub(super) status: RunStatus,
    pub(super) cancel: bool,
    held: bool,
    alive: bool,
}

const FIND: &str = concat!(
    "SELECT no, status, cancel, worker IS NOT NULL AS held, ",
    alive!("runs.worker", "$3"),
    " AS alive FROM runs WHERE id = $1 AND workspace = $2 FOR NO KEY UPDATE"
);

const LIVE_IN_SESSION: &str = concat!(
    "SELECT no, status, cancel, worker IS NOT NULL AS held, ",
    alive!("runs.worker", "$2"),
    " AS alive FROM runs WHERE session = $1 AND completed_at IS NULL ORDER BY no FOR NO KEY UPDATE"
);

fn addressee(row: &Row) -> Result<Addressee, Failure> {
    Ok(Addressee {
        run: RunNo(row.try_get("no")?),
        status: get_word(row, "status")?,
        cancel: row.try_get("cancel")?,
        held: row.try_get("held")?,
        alive: row.try_get("alive")?,
    })
}

/// Finds a run by its public id and locks it.
pub(super) async fn find(
    session: &Session,
    workspace: WorkspaceNo,
    id: &RunId,
    silence: f64,
) -> Result<Option<Addressee>, Failure> {
    let row = session
        .first(FIND, &[&id.as_str(), &workspace.0, &silence])
        .await?;
    row.as_ref().map(addressee).transpose()
}

/// Live runs of a session, oldest first, locked.
pub(super) async fn live_in_session(
    session: &Session,
    of: i64,
    silence: f64,
) -> Result<Vec<Addressee>, Failure> {
    let rows = session.query(LIVE_IN_SESSION, &[&of, &silence]).await?;
    rows.iter().map(addressee).collect()
}

/// Writes mail to a live run. A parked one wants a worker from now on.
pub(super) async fn send(
    session: &Session,
    to: &Addressee,
    body: &MailBody,
    now: Millis,
) -> Result<Delivery, Failure> {
    let json = to_json(body)?;
    session
        .execute(
            "INSERT INTO mail (run, at, body) VALUES ($1, $2, $3)",
            &[&to.run.0, &now.0, &json],
        )
        .await?;
    if matches!(body, MailBody::Cancel { .. }) {
        session
            .execute(
                "UPDATE runs SET cancel = TRUE, parked = FALSE, wake_at = NULL WHERE no = $1",
                &[&to.run.0],
            )
            .await?;
    } else if !to.held {
        session
            .execute(
                "UPDATE runs SET parked = FALSE, wake_at = NULL WHERE no = $1 AND parked",
                &[&to.run.0],
            )
            .await?;
    }
    Ok(if to.held && to.alive {
        Delivery::Owner(to.run)
    } else {
        Delivery::Queue(to.run)
    })
}

/// What other processes are told of a delivery.
pub(super) fn notice(delivery: Delivery) -> Notice {
    match delivery {
        Delivery::Owner(run) => Notice::Mail(run),
        Delivery::Queue(_) => Notice::Queue,
    }
}

/// Mail after `after`, oldest first.
pub(super) async fn read(
    session: &Session,
    run: RunNo,
    after: MailNo,
) -> Result<Vec<Mail>, Failure> {
    let rows = session
        .query(
            "SELECT no, at, body FROM mail WHERE run = $1 AND no > $2 ORDER BY no",
            &[&run.0, &after.0],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Mail {
                no: MailNo(row.try_get(0)?),
                at: Millis(row.try_get(1)?),
                body: row.try_get::<_, Json<MailBody>>(2)?.0,
            })
        })
        .collect()
}
