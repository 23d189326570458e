//! [`RunLog`]: claims, batches, reading.

use async_trait::async_trait;
use runloom_ports::store::{
    Batch, Chunk, ClaimOutcome, Claimable, CommitError, Committed, Lease, Mail, MailNo, Millis,
    RunLog, RunNo, StoreResult,
};

use super::claim::Taken;
use super::error::Failure;
use super::pool::Session;
use super::{PostgresStore, claim, int, leases, mail};

/// Rows of the log that one query brings at most, so that a reader with a small cap does not load a long log.
const PAGE: i64 = 256;

#[async_trait]
impl RunLog for PostgresStore {
    async fn claim(
        &self,
        run: RunNo,
        worker: &str,
        now: Millis,
        most: u32,
    ) -> StoreResult<ClaimOutcome> {
        let Some(taken) = self.take(run, worker, now, most).await? else {
            return Ok(ClaimOutcome::NotNow);
        };
        let loading = &taken;
        // Nobody but us can write the log now, so it is read outside the transaction.
        let loaded = self
            .pool
            .read(|session| async move { claim::load(&session, loading).await })
            .await;
        match loaded {
            Ok(claim) => Ok(ClaimOutcome::Claimed(Box::new(claim))),
            Err(error) => {
                self.writer.give_back(taken.lease);
                Err(error)
            }
        }
    }

    async fn commit(&self, lease: Lease, batch: Batch) -> Result<Committed, CommitError> {
        self.writer.commit(lease, batch).await
    }

    async fn mail(&self, run: RunNo, after: MailNo) -> StoreResult<Vec<Mail>> {
        self.pool
            .read(|session| async move { mail::read(&session, run, after).await })
            .await
    }

    async fn read_log(&self, run: RunNo, seq: u64, max_bytes: usize) -> StoreResult<Vec<Chunk>> {
        self.pool
            .read(|session| async move { read_chunks(&session, run, seq, max_bytes).await })
            .await
    }

    async fn claimable(
        &self,
        now: Millis,
        trusted: u32,
        limit: usize,
    ) -> StoreResult<Vec<Claimable>> {
        let (wanted, silence) = ((trusted, limit), self.workers.silence());
        self.pool
            .read(|session| async move { claim::claimable(&session, now, wanted, silence).await })
            .await
    }

    async fn next_timer(&self) -> StoreResult<Option<Millis>> {
        self.pool
            .read(|session| async move {
                let sql = "SELECT min(wake_at) FROM runs WHERE wake_at IS NOT NULL";
                match session.first(sql, &[]).await? {
                    Some(row) => Ok(row.try_get::<_, Option<i64>>(0)?.map(Millis)),
                    None => Ok(None),
                }
            })
            .await
    }

    async fn unheard(&self, worker: &str) -> StoreResult<Vec<RunNo>> {
        let worker = worker.to_owned();
        self.pool
            .read(|session| {
                let worker = worker.clone();
                async move {
                    let sql = "SELECT DISTINCT mail.run FROM mail JOIN runs ON runs.no = mail.run WHERE runs.worker = $1";
                    let rows = session.query(sql, &[&worker]).await?;
                    rows.iter().map(|row| Ok(RunNo(row.try_get(0)?))).collect()
                }
            })
            .await
    }

    /// The caller's time is not used: see `leases`.
    async fn heartbeat(&self, worker: &str, _now: Millis) -> StoreResult<()> {
        self.workers.tell(&self.pool, worker).await
    }
}

impl PostgresStore {
    async fn take(
        &self,
        run: RunNo,
        worker: &str,
        now: Millis,
        most: u32,
    ) -> StoreResult<Option<Taken>> {
        let limits = (most, self.workers.silence());
        let is_fresh = self.workers.is_fresh(worker);
        if !is_fresh {
            // Committed before the claim: a statement that waits for the row's lock sees an older snapshot of the
            // other tables, in which a worker that was introduced together with its claim does not exist.
            self.pool
                .read(|session| async move { leases::introduce(&session, worker).await })
                .await?;
        }
        let seen = std::sync::Mutex::new(None);
        let last = &seen;
        let taken = self
            .pool
            .transact("claim", |session| async move {
                let taken = claim::take(&session, run, worker, now, limits).await?;
                // After the judgement, or a worker that comes back would find its own old leases alive.
                if taken.is_some() && !is_fresh {
                    leases::hear(&session, worker).await?;
                }
                if let Ok(mut last) = last.lock() {
                    *last = taken.as_ref().map(|taken| taken.lease);
                }
                Ok(taken)
            })
            .await;
        match taken {
            Ok(taken) => {
                if taken.is_some() && !is_fresh {
                    self.workers.told(worker);
                }
                Ok(taken)
            }
            Err(failure) => {
                // We may hold a lease that we know nothing of; a living worker would keep it for ever.
                let lease = seen.into_inner().unwrap_or_default();
                if let (Failure::InDoubt, Some(lease)) = (&failure, lease) {
                    self.writer.give_back(lease);
                }
                Err(failure.into())
            }
        }
    }
}

async fn read_chunks(
    session: &Session,
    run: RunNo,
    seq: u64,
    max_bytes: usize,
) -> Result<Vec<Chunk>, Failure> {
    // Rows of notes alone have no events; they are the owner's business. The sum runs over what comes before a row,
    // so that the server sends no more than what fits, and always the first row.
    let sql = "SELECT first_seq, last_seq, terminal, frames FROM (
            SELECT first_seq, last_seq, terminal, frames, no,
                sum(length(frames)) OVER (ORDER BY last_seq, no) AS bytes, row_number() OVER (ORDER BY last_seq, no) AS nth
            FROM (SELECT * FROM log WHERE run = $1 AND last_seq > $2 AND last_seq >= first_seq
                ORDER BY last_seq, no LIMIT $4) AS page
        ) AS sized WHERE nth = 1 OR bytes <= $3 ORDER BY last_seq, no";
    let cap = int(max_bytes as u64);
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut after = int(seq);
    let mut room = cap;
    loop {
        let rows = session.query(sql, &[&run.0, &after, &room, &PAGE]).await?;
        for row in &rows {
            let chunk = claim::chunk(row)?;
            let bytes = int(chunk.frames.len() as u64);
            if bytes > room && !chunks.is_empty() {
                return Ok(chunks);
            }
            room = (room - bytes).max(0);
            after = int(chunk.last_seq);
            chunks.push(chunk);
        }
        if int(rows.len() as u64) < PAGE || room == 0 {
            return Ok(chunks);
        }
    }
}
