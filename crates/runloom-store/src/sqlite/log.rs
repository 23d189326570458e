//! [`RunLog`]: claims, batches, reading.

use async_trait::async_trait;
use runloom_ports::store::{
    Batch, Chunk, ClaimOutcome, Claimable, CommitError, Committed, Lease, Mail, MailNo, Millis,
    RunLog, RunNo, StoreResult,
};
use rusqlite::{Connection, params};

use super::{SqliteStore, claim, commit, int, mail};

#[async_trait]
impl RunLog for SqliteStore {
    async fn claim(
        &self,
        run: RunNo,
        worker: &str,
        now: Millis,
        most: u32,
    ) -> StoreResult<ClaimOutcome> {
        let worker = worker.to_owned();
        let taken = self
            .writer
            .run("claim", move |tx| claim::take(tx, run, &worker, now, most))
            .await?;
        let Some(taken) = taken else {
            return Ok(ClaimOutcome::NotNow);
        };
        let lease = taken.lease();
        // The writer must not wait for a long log to be read, and nobody but us can write it now.
        let loaded = self
            .read(move |connection| claim::load(connection, taken))
            .await;
        match loaded {
            Ok(claim) => Ok(ClaimOutcome::Claimed(Box::new(claim))),
            Err(error) => {
                self.writer
                    .run("unclaim", move |tx| claim::give_back(tx, lease))
                    .await?;
                Err(error)
            }
        }
    }

    async fn commit(&self, lease: Lease, batch: Batch) -> Result<Committed, CommitError> {
        let outcome = self
            .writer
            .run(commit::kind(&batch), move |tx| {
                commit::write(tx, lease, &batch)
            })
            .await?;
        Ok(outcome?)
    }

    async fn mail(&self, run: RunNo, after: MailNo) -> StoreResult<Vec<Mail>> {
        self.read(move |connection| mail::read(connection, run, after))
            .await
    }

    async fn read_log(&self, run: RunNo, seq: u64, max_bytes: usize) -> StoreResult<Vec<Chunk>> {
        self.read(move |connection| read_chunks(connection, run, seq, max_bytes))
            .await
    }

    async fn claimable(
        &self,
        now: Millis,
        trusted: u32,
        limit: usize,
    ) -> StoreResult<Vec<Claimable>> {
        let alive = self.workers.alive(now);
        self.read(move |connection| claim::claimable(connection, now, (trusted, limit), &alive))
            .await
    }

    async fn next_timer(&self) -> StoreResult<Option<Millis>> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT min(wake_at) FROM runs WHERE wake_at IS NOT NULL")?
                .query_row([], |row| Ok(row.get::<_, Option<i64>>(0)?.map(Millis)))
        })
        .await
    }

    async fn unheard(&self, worker: &str) -> StoreResult<Vec<RunNo>> {
        let worker = worker.to_owned();
        self.read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT DISTINCT mail.run FROM mail JOIN runs ON runs.no = mail.run WHERE runs.worker = ?1",
                    )?
                    .query_map([&worker], |row| row.get(0).map(RunNo))?
                    .collect()
            })
            .await
    }

    async fn heartbeat(&self, worker: &str, now: Millis) -> StoreResult<()> {
        self.workers.hear(worker, now);
        Ok(())
    }
}

fn read_chunks(
    connection: &Connection,
    run: RunNo,
    seq: u64,
    max_bytes: usize,
) -> rusqlite::Result<Vec<Chunk>> {
    // Rows of notes alone have no events; they are the owner's business.
    let mut statement = connection.prepare_cached(
        "SELECT first_seq, last_seq, terminal, frames FROM log
         WHERE run = ?1 AND last_seq > ?2 AND last_seq >= first_seq ORDER BY last_seq, no",
    )?;
    let mut rows = statement.query(params![run.0, int(seq)])?;
    let mut chunks = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let chunk = claim::chunk(row)?;
        bytes += chunk.frames.len();
        if !chunks.is_empty() && bytes > max_bytes {
            break;
        }
        chunks.push(chunk);
        if bytes >= max_bytes {
            break;
        }
    }
    Ok(chunks)
}
