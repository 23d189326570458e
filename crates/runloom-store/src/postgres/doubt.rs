//! The outcome of a transaction whose COMMIT was sent but not answered.
//!
//! A connection can break after the server committed and before it says so. Writing again could write twice; giving
//! up could lose a committed write. So every transaction learns its id before it commits, and when the response is
//! lost the server is asked on another connection for the status of that id. (After a failover to a replica that had
//! not received everything, acknowledged commits can be gone; the operator's replication must prevent that.)
//!
//! A crashed server forgets ids of transactions that had not reached its disk, and gives them to others. "Committed"
//! may then describe another transaction, so it is trusted only when the server has not crashed since ours began;
//! otherwise the rows themselves are read.

use std::time::Duration;

use runloom_ports::store::{Batch, Lease};
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use super::error::Failure;
use super::int;

/// How long an unanswered COMMIT is asked after.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two questions.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// SQL: begins to tell a transaction what it is known by.
pub(super) const IDENTIFY: &str =
    "SELECT pg_current_xact_id()::text, transaction_timestamp()::text";

/// What a transaction is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Xid {
    /// Its number.
    pub(super) number: String,
    /// When it began, by the server's clock.
    pub(super) begun: String,
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    Aborted,
    /// The number is committed, but since a crash it may be another transaction's.
    Disputed,
}

/// The number's state, and whether the server may have crashed since the transaction began: a crash throws the
/// statistics away, and also a restart of the server's processes behind the same postmaster does.
const FATE: &str = "SELECT pg_xact_status($1::text::xid8), greatest(pg_postmaster_start_time(),
    coalesce((SELECT stats_reset FROM pg_stat_bgwriter), '-infinity')) >= $2::text::timestamptz";

/// Asks the server until it knows, or until the deadline. A transaction that is still open has lost its client: its
/// session is ended.
pub(super) async fn fate(client: &Client, xid: &Xid, until: Instant) -> Result<Fate, Failure> {
    loop {
        let row: Row = match client.query_one(FATE, &[&xid.number, &xid.begun]).await {
            Ok(row) => row,
            // A number that was never given: the server has forgotten ours in a crash.
            Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {
                return Ok(Fate::Aborted);
            }
            Err(error) => return Err(error.into()),
        };
        let may_have_crashed: bool = row.try_get(1)?;
        match row.try_get::<_, Option<&str>>(0)? {
            Some("committed") if may_have_crashed => return Ok(Fate::Disputed),
            Some("committed") => return Ok(Fate::Committed),
            Some("in progress") => {}
            // So old that it is forgotten cannot be: we just had it. Every other answer is "aborted".
            _ => return Ok(Fate::Aborted),
        }
        if Instant::now() >= until {
            return Err(Failure::InDoubt);
        }
        client
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = ($1::text::xid8)::xid",
                &[&xid.number],
            )
            .await?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether the records of this batch are there, written by this very transaction: another worker may have written
/// events of the same numbers since.
pub(super) async fn is_in_log(
    client: &Client,
    xid: &Xid,
    lease: Lease,
    batch: &Batch,
) -> Result<bool, Failure> {
    let found = client
        .query_opt(
            "SELECT 1 FROM log WHERE run = $1 AND last_seq = $2 AND first_seq = $3 AND at = $4
                 AND xmin = ($5::text::xid8)::xid LIMIT 1",
            &[
                &lease.run.0,
                &int(batch.chunk.last_seq),
                &int(batch.chunk.first_seq),
                &batch.at.0,
                &xid.number,
            ],
        )
        .await?;
    Ok(found.is_some())
}
