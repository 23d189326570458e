//! [`Retention`]: deleting what need not be kept any longer, a little at a time.
//!
//! Several processes purge at once: each takes what the others have not.

use async_trait::async_trait;
use runloom_ports::store::{Cutoffs, Millis, Purged, Retention, StoreResult};
use runloom_protocol::resource::SessionStatus;
use tokio_postgres::Row;

use super::error::Failure;
use super::pool::Session;
use super::{PostgresStore, int};

#[async_trait]
impl Retention for PostgresStore {
    async fn purge(&self, old: Cutoffs, limit: usize) -> StoreResult<Purged> {
        let keys = self
            .pool
            .transact("purge", |session| async move {
                forget_keys(&session, old.keys, limit).await
            })
            .await?;
        let mut purged = Purged {
            more: keys >= limit,
            ..Purged::default()
        };
        if let Some(before) = old.ended {
            purged.runs = self
                .pool
                .transact("purge", |session| async move {
                    purge_runs(&session, before, limit).await
                })
                .await?;
            purged.more |= purged.runs >= limit;
        }
        for (sql, before) in [(ENDED, old.ended), (UNUSED, old.unused)] {
            let Some(before) = before else { continue };
            let swept = self
                .pool
                .transact("purge", |session| async move {
                    purge_sessions(&session, sql, before, limit).await
                })
                .await?;
            purged.sessions += swept.sessions;
            purged.more |= swept.more;
        }
        Ok(purged)
    }
}

/// Keys that went. Workers of long ago, who hold nothing any more, go with them.
async fn forget_keys(session: &Session, before: Millis, limit: usize) -> Result<usize, Failure> {
    let keys = session
        .execute(
            "DELETE FROM idempotency WHERE (workspace, key) IN (SELECT workspace, key FROM idempotency
                 WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
            &[&before.0, &int(limit as u64)],
        )
        .await?;
    session
        .execute(
            "DELETE FROM workers WHERE heartbeat_at < statement_timestamp() - INTERVAL '1 day'
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.worker = workers.id)",
            &[],
        )
        .await?;
    Ok(usize::try_from(keys).unwrap_or(usize::MAX))
}

async fn purge_runs(session: &Session, before: Millis, limit: usize) -> Result<usize, Failure> {
    let rows = session
        .query(
            "SELECT no FROM runs WHERE completed_at IS NOT NULL AND completed_at < $1 AND parent IS NULL
                 AND NOT EXISTS (SELECT 1 FROM runs AS below WHERE below.root = runs.no AND below.completed_at IS NULL)
             ORDER BY completed_at LIMIT $2 FOR UPDATE SKIP LOCKED",
            &[&before.0, &int(limit as u64)],
        )
        .await?;
    let roots = numbers(&rows)?;
    if roots.is_empty() {
        return Ok(0);
    }
    // Children go with their root.
    let below = session
        .query(
            "SELECT no FROM runs WHERE root = ANY($1) ORDER BY no FOR UPDATE",
            &[&roots],
        )
        .await?;
    let mut runs = numbers(&below)?;
    runs.extend(&roots);
    for sql in [
        "DELETE FROM labels WHERE owner = ANY($1) AND kind = 'run'",
        "DELETE FROM log WHERE run = ANY($1)",
        "DELETE FROM run_specs WHERE run = ANY($1)",
        "DELETE FROM purses WHERE scope IN (SELECT 'run:' || id FROM runs WHERE no = ANY($1))",
        "DELETE FROM runs WHERE no = ANY($1)",
    ] {
        session.execute(sql, &[&runs]).await?;
    }
    Ok(roots.len())
}

const ENDED: &str = "SELECT no FROM sessions WHERE ended_at IS NOT NULL AND ended_at < $1
        AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.no AND runs.completed_at IS NULL)
    ORDER BY ended_at LIMIT $2 FOR UPDATE OF sessions SKIP LOCKED";

const UNUSED: &str = "SELECT no FROM sessions WHERE last_used_at < $1
        AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.no AND runs.completed_at IS NULL)
    ORDER BY no LIMIT $2 FOR UPDATE OF sessions SKIP LOCKED";

/// A separate statement after the lock: its previous holder may have created a run. Later callers wait for the lock
/// and find no session.
const STILL: &str = "SELECT no FROM unnest($1::BIGINT[]) AS old (no)
    WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = old.no AND runs.completed_at IS NULL)";

/// Deletes sessions that `sql` finds and what was said in them, at most `limit` messages.
async fn purge_sessions(
    session: &Session,
    sql: &str,
    before: Millis,
    limit: usize,
) -> Result<Purged, Failure> {
    let most = int(limit as u64);
    let found = session.query(sql, &[&before.0, &most]).await?;
    let locked = numbers(&found)?;
    if locked.is_empty() {
        return Ok(Purged::default());
    }
    let old = numbers(&session.query(STILL, &[&locked]).await?)?;
    session
        .execute(
            "DELETE FROM messages WHERE (session, n) IN
                 (SELECT session, n FROM messages WHERE session = ANY($1) ORDER BY session, n LIMIT $2)",
            &[&old, &most],
        )
        .await?;
    let gone = session
        .query(
            "DELETE FROM sessions WHERE no = ANY($1)
                 AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.session = sessions.no) RETURNING no",
            &[&old],
        )
        .await?;
    let gone = numbers(&gone)?;
    for sql in [
        "DELETE FROM labels WHERE owner = ANY($1) AND kind = 'session'",
        "DELETE FROM session_specs WHERE session = ANY($1)",
    ] {
        session.execute(sql, &[&gone]).await?;
    }
    // Nobody may continue a conversation whose beginning is missing.
    session
        .execute(
            "UPDATE sessions SET status = $2, ended_at = coalesce(ended_at, last_used_at)
             WHERE no = ANY($1) AND NOT EXISTS (SELECT 1 FROM messages WHERE session = sessions.no AND n = 1)",
            &[&old, &SessionStatus::Ended.as_str()],
        )
        .await?;
    Ok(Purged {
        runs: 0,
        sessions: gone.len(),
        more: found.len() >= limit || gone.len() < old.len(),
    })
}

fn numbers(rows: &[Row]) -> Result<Vec<i64>, Failure> {
    let numbers = rows.iter().map(|row| row.try_get(0));
    Ok(numbers.collect::<Result<_, _>>()?)
}
