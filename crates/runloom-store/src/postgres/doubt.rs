//! What became of a transaction whose COMMIT was sent and not answered.
//!
//! A connection can break after the server has committed and before it says so. Whoever then writes again would write twice;
//! whoever gives up would forget what is there. So every transaction learns its number before it commits, and when the answer
//! is lost the server is asked on another connection what became of that number. (After a failover to a replica that had not
//! received everything, acknowledged commits can be gone altogether: that is for the operator's replication to prevent.)

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Client;

use super::error::Failure;

/// How long an unanswered COMMIT is asked after.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two questions.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Number of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Xid(pub(super) String);

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    Aborted,
}

/// Asks the server until it knows, or until the deadline. A transaction that is still open has lost its client: its session is
/// ended.
pub(super) async fn fate(client: &Client, xid: &Xid, until: Instant) -> Result<Fate, Failure> {
    loop {
        let row = client
            .query_one("SELECT pg_xact_status($1::text::xid8)", &[&xid.0])
            .await?;
        match row.try_get::<_, Option<&str>>(0)? {
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
                &[&xid.0],
            )
            .await?;
        tokio::time::sleep(PAUSE).await;
    }
}
