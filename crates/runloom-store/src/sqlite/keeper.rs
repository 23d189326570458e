//! The transaction that stays open, and what makes it durable meanwhile.
//!
//! Groups of jobs are executed one after the other in one transaction. Each is durable when its statements stand in the redo file; the
//! transaction is *settled*, that is committed without a sync, when it has gathered enough, when somebody wants to read, and when
//! nothing else is to be done. So a page that a hundred groups touch is written once. SQLite keeps its own log consistent
//! without a sync, it only may lose the end of it in a power cut, and that is what the redo file still has: nothing of it is overwritten
//! before SQLite's log was synced.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

use super::error::Reason;
use super::redo::{self, Draft, RedoFile};
use super::sync::LogSync;
use super::{failed, schema};
use crate::OpenError;

/// Bytes of the redo file after which the transaction is settled: large enough that pages are shared, small enough that nobody
/// notices the wait.
const SETTLE_AT: u64 = 1 << 20;

/// How old the transaction becomes under a trickle of work. Who looks at the file from outside sees nothing newer.
const SETTLE_AFTER: Duration = Duration::from_millis(500);

/// With less room than that the other half of the redo file is begun before the next group needs it.
const LITTLE_ROOM: usize = 1 << 20;

/// Writes what a former process promised and the database has lost. Before anything else is done with the database, because the
/// statements are of the schema that it has.
pub(super) fn recover(connection: &mut Connection, database: &Path) -> Result<(), OpenError> {
    let doing = "writing what the redo file of the database still has";
    schema::version(connection)?;
    let broken = |source| failed(doing, source);
    let known: bool = connection
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'redo')",
            [],
            |row| row.get(0),
        )
        .map_err(broken)?;
    if !known {
        return Ok(());
    }
    let (lineage, held): (i64, i64) = connection
        .query_row("SELECT lineage, held FROM redo", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .map_err(broken)?;
    let path = RedoFile::path_beside(database);
    let left = redo::left_behind(&path, lineage.cast_unsigned(), held.cast_unsigned());
    let records = left.map_err(|source| OpenError::File {
        doing: "reading the redo file",
        path,
        source,
    })?;
    if records.is_empty() {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(broken)?;
    redo::replay(&transaction, &records).map_err(|misfit| OpenError::Database {
        doing,
        source: Box::new(misfit),
    })?;
    let held = held.saturating_add_unsigned(records.len() as u64);
    transaction
        .execute("UPDATE redo SET held = ?1", [held])
        .map_err(broken)?;
    transaction.commit().map_err(broken)?;
    tracing::info!(
        groups = records.len(),
        "the database lacked what stood in its redo file; it is written"
    );
    Ok(())
}

/// The connection that writes, with its open transaction.
pub(super) struct Keeper {
    connection: Connection,
    /// What the group under way has executed.
    draft: RefCell<Draft>,
    redo: Redo,
    /// True while readers would miss something that was promised.
    behind: Arc<AtomicBool>,
    /// When the open transaction began.
    opened: Instant,
    /// SQLite is set to sync its own commits.
    alone: bool,
}

/// What became of a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is durable.
    Durably,
    /// It is too large for the redo file, and must be executed once more by itself.
    TooLarge,
}

struct Redo {
    file: RedoFile,
    /// SQLite's own log.
    log: LogSync,
    /// The last record that the database holds, at least as far as this process is concerned.
    held: u64,
    /// Bytes that were in the file then.
    held_bytes: u64,
    /// Syncing SQLite's log failed.
    lost: bool,
}

impl Keeper {
    /// Begins to use the redo file of the database, which was recovered.
    pub(super) fn start(connection: Connection, database: &Path) -> Result<Self, OpenError> {
        let path = RedoFile::path_beside(database);
        let wrong = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::File {
                doing,
                path,
                source,
            }
        };
        let lineage = getrandom::u64()
            .map_err(std::io::Error::other)
            .map_err(wrong("drawing a random number for", &path))?;
        let file =
            RedoFile::start(&path, lineage).map_err(wrong("opening the redo file", &path))?;
        let starting = |source| failed("starting the redo file", source);
        connection
            .execute(
                "UPDATE redo SET lineage = ?1, held = 0",
                [lineage.cast_signed()],
            )
            .map_err(starting)?;
        // From here on a commit alone is not durable.
        connection
            .execute_batch("PRAGMA synchronous = NORMAL")
            .map_err(starting)?;
        let log = LogSync::beside(database).map_err(wrong("opening SQLite's log of", database))?;
        Ok(Self {
            connection,
            draft: RefCell::default(),
            redo: Redo {
                file,
                log,
                held: 0,
                held_bytes: 0,
                lost: false,
            },
            behind: Arc::default(),
            opened: Instant::now(),
            alone: false,
        })
    }

    /// The connection. What is written goes through the draft as well.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The connection, to have it set up.
    pub(super) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// What the group under way has executed.
    pub(super) fn draft(&self) -> &RefCell<Draft> {
        &self.draft
    }

    /// True while readers would miss something that was promised.
    pub(super) fn behind(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.behind)
    }

    /// A group begins.
    pub(super) fn begin(&mut self) -> Result<(), Reason> {
        self.redo.file.mend()?;
        self.open()?;
        self.draft.get_mut().begin(self.redo.file.room());
        Ok(())
    }

    /// Opens the transaction. After a failure the promised groups are executed again first.
    fn open(&mut self) -> Result<(), Reason> {
        if self.redo.lost {
            return Err(Reason::unavailable(
                "SQLite's log could not be synced; nothing is written until the server is started again",
            ));
        }
        if self.connection.is_autocommit() {
            if std::mem::take(&mut self.alone) {
                self.statement("PRAGMA synchronous = NORMAL")?;
            }
            self.statement("BEGIN IMMEDIATE")?;
            self.opened = Instant::now();
            if self.redo.is_ahead() {
                let records = self.redo.file.after(self.redo.held)?;
                redo::replay(&self.connection, &records)?;
            }
        }
        Ok(())
    }

    /// The group is over: when this is [`Kept::Durably`] it is durable.
    pub(super) fn keep(&mut self) -> Result<Kept, Reason> {
        let draft = self.draft.get_mut();
        draft.check()?;
        if !draft.changed() {
            // The texts that it noted are nowhere.
            draft.forget_texts();
            if !self.redo.is_ahead() {
                self.statement("COMMIT")?;
            }
            return Ok(Kept::Durably);
        }
        if draft.is_too_large() {
            return Ok(Kept::TooLarge);
        }
        self.redo.file.append(draft)?;
        self.behind.store(true, Ordering::Release);
        Ok(Kept::Durably)
    }

    /// A group begins that is too large for the redo file: SQLite itself makes it durable, before anybody can see it. Nothing may be open.
    pub(super) fn begin_alone(&mut self) -> Result<(), Reason> {
        self.redo.file.mend()?;
        self.settle()?;
        self.alone = true;
        self.statement("PRAGMA synchronous = FULL")?;
        self.statement("BEGIN IMMEDIATE")?;
        self.draft.get_mut().begin(0);
        Ok(())
    }

    /// Such a group is over: when this is `Ok` it is durable, and so is everything before it.
    pub(super) fn keep_alone(&mut self) -> Result<(), Reason> {
        self.draft.get_mut().check()?;
        if let Err(reason) = self.commit(self.redo.file.last() + 1) {
            // If it was the sync that failed, it failed for everything that was settled before, too; then this one will not succeed.
            let synced = self.redo.log.now();
            self.durably(synced)?;
            return Err(reason);
        }
        self.redo.file.start_over();
        self.redo.held_bytes = 0;
        Ok(())
    }

    /// Takes back whatever the group did, and with it what is not settled: that is executed again when the next group begins.
    pub(super) fn take_back(&mut self) {
        self.draft.get_mut().forget_texts();
        // Before anybody is told that the group was refused.
        if let Err(error) = self.redo.file.mend() {
            tracing::error!(%error, "a record that was refused could not be taken back; nothing is written until it can");
        }
        // Some errors (disk full) have rolled back already.
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(reason) = self.statement("ROLLBACK") {
            tracing::error!(
                error = reason.text,
                "a failed transaction could not be rolled back"
            );
        }
        if !self.connection.is_autocommit() {
            self.lose();
        }
    }

    /// True when something is not settled.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Between two groups, when the callers were told: settles when it is time. True when it did.
    pub(super) fn look(&mut self) -> Result<bool, Reason> {
        let redo = &self.redo;
        let full = redo.file.room() < LITTLE_ROOM;
        let much = redo.file.used() >= redo.held_bytes + SETTLE_AT;
        let old = redo.is_ahead() && self.opened.elapsed() >= SETTLE_AFTER;
        if full {
            self.turn()?;
        } else if much || old {
            self.settle()?;
        }
        Ok(full || much || old)
    }

    /// Begins the other half of the redo file.
    fn turn(&mut self) -> Result<(), Reason> {
        // A record that was refused must not stay behind: its number will be another's, in the other half.
        self.redo.file.mend()?;
        self.settle()?;
        // What stands in the other half was settled before the last turn, which ordered a sync.
        let synced = self.redo.log.finish();
        self.durably(synced)?;
        let ordered = self.redo.log.order();
        self.durably(ordered)?;
        self.redo.file.turn();
        self.redo.held_bytes = 0;
        Ok(())
    }

    fn durably(&mut self, synced: std::io::Result<()>) -> Result<(), Reason> {
        if synced.is_err() {
            self.lose();
        }
        Ok(synced?)
    }

    /// Nobody knows what of SQLite's log or of the database is on the disk after a sync that failed, and asking again would not tell. So nothing is made of it any more:
    /// the next start takes what is whole of it, and the rest from the redo file.
    pub(super) fn lose(&mut self) {
        self.redo.lost = true;
        let kept = self
            .connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        if let Err(error) = kept {
            tracing::error!(%error, "SQLite's log may be folded although it is not whole");
        }
    }

    /// True when SQLite's log must be left alone.
    pub(super) fn is_lost(&self) -> bool {
        self.redo.lost
    }

    /// Commits what is promised, so that readers see it.
    pub(super) fn settle(&mut self) -> Result<(), Reason> {
        if self.redo.is_ahead() {
            self.open()?;
            self.commit(self.redo.file.last())?;
        }
        Ok(())
    }

    /// The last thing that is done: folds SQLite's log into the database. A redo file with nothing to redo goes, so that nobody who
    /// restores a backup finds one of another moment beside it.
    pub(super) fn close(&mut self) -> Result<(), Reason> {
        self.redo.file.mend()?;
        self.settle()?;
        if self.redo.lost {
            return Ok(());
        }
        let folded = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        if folded.is_err() {
            // SQLite would try again when the connection is closed.
            self.lose();
        }
        let busy: bool = folded?;
        if !busy {
            self.redo.file.remove()?;
        }
        Ok(())
    }

    /// Commits what is promised, up to the number `last`.
    fn commit(&mut self, last: u64) -> Result<(), Reason> {
        self.connection
            .prepare_cached("UPDATE redo SET held = ?1")?
            .execute([last.cast_signed()])?;
        self.statement("COMMIT")?;
        self.redo.held = last;
        self.redo.held_bytes = self.redo.file.used();
        self.draft.get_mut().forget_texts();
        self.behind.store(false, Ordering::Release);
        Ok(())
    }

    fn statement(&self, sql: &str) -> Result<(), Reason> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

impl Redo {
    /// True when the file has what the database has not.
    fn is_ahead(&self) -> bool {
        self.file.last() > self.held
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
