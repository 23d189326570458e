//! Files beside a SQLite database that are missing, damaged, or there without it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runloom_ports::store::Store;
use runloom_store::{DataLoss, OpenError, OpenOptions, check, migrate, open};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::fixture::put_workspace;

/// A database in a folder of its own.
struct Database {
    folder: TempDir,
}

impl Database {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// With two checkpointed workspaces and two that are only in the log, as a killed process leaves it.
    async fn killed() -> Self {
        let live = Self::new();
        let store = live.open().await;
        put_workspace(&*store, "a").await;
        put_workspace(&*store, "b").await;
        drop(store);
        let store = live.open().await;
        put_workspace(&*store, "c").await;
        put_workspace(&*store, "d").await;
        let copy = Self::new();
        for suffix in ["", "-wal", "-shm", ".lock"] {
            std::fs::copy(live.file(suffix), copy.file(suffix)).unwrap();
        }
        drop(store);
        copy
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("runs.db{suffix}"))
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.file("").display())
    }

    async fn open(&self) -> Arc<dyn Store> {
        open(&self.url(), OpenOptions::default()).await.unwrap()
    }

    /// Workspaces that a start finds.
    async fn workspaces(&self) -> Vec<String> {
        let store = self.open().await;
        let rows = store.workspaces().await.unwrap();
        rows.into_iter().map(|row| row.slug).collect()
    }

    /// The error of a start and of a check, which leave the files as they are.
    async fn refusal(&self) -> OpenError {
        let before = self.content();
        let mut errors = Vec::new();
        for _ in 0..2 {
            errors.push(check(&self.url()).await.unwrap_err().to_string());
            match open(&self.url(), OpenOptions::default()).await {
                Ok(_) => panic!("opened"),
                Err(error) => errors.push(error.to_string()),
            }
        }
        errors.dedup();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            before == self.content(),
            "a refused start changed something"
        );
        check(&self.url()).await.unwrap_err()
    }

    /// The files with acknowledged writes.
    fn content(&self) -> Vec<Option<Vec<u8>>> {
        let read = |suffix| std::fs::read(self.file(suffix)).ok();
        ["", "-wal", "-redo"].map(read).to_vec()
    }

    fn change(&self, suffix: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.file(suffix)).unwrap();
        change(&mut bytes);
        std::fs::write(self.file(suffix), bytes).unwrap();
    }

    /// The first page of a table, counted from zero. Leaves the files as they are.
    fn root_page(&self, table: &str) -> usize {
        let uri = format!("file:{}?immutable=1", self.file("").display());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri, flags).unwrap();
        let sql = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = ?1";
        let page: u16 = connection
            .query_row(sql, [table], |row| row.get(0))
            .unwrap();
        page.into()
    }

    /// Goes on in spite of a loss, and returns what is lost.
    async fn accept_loss(&self) -> Vec<String> {
        migrate(&self.url(), DataLoss::Accept).await.unwrap().lost
    }
}

fn remove(path: &Path) {
    let removed = std::fs::remove_file(path);
    assert!(removed.is_ok() || !path.exists(), "{removed:?}");
}

#[tokio::test]
async fn recovers_the_log_of_a_killed_process() {
    let database = Database::killed().await;
    assert_eq!(database.workspaces().await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn clean_stop_leaves_everything_in_the_database_file() {
    let database = Database::killed().await;
    drop(database.open().await);
    assert!(!database.file("-wal").exists());
    for suffix in ["-wal", "-shm", ".lock"] {
        remove(&database.file(suffix));
    }
    assert_eq!(database.workspaces().await, ["a", "b", "c", "d"]);
}

/// A reader that is still there keeps SQLite from removing the log.
#[tokio::test]
async fn clean_stop_beside_a_reader_leaves_everything_in_the_database_file() {
    let database = Database::killed().await;
    let store = database.open().await;
    let reader = Connection::open(database.file("")).unwrap();
    let count = || -> i64 {
        let sql = "SELECT count(*) FROM workspaces";
        reader.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(), 4);
    drop(store);
    let log = std::fs::metadata(database.file("-wal")).unwrap();
    assert_eq!(log.len(), 0);
    std::fs::remove_file(database.file("-wal")).unwrap();
    drop(reader);
    assert_eq!(database.workspaces().await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn refuses_a_missing_log_after_a_kill() {
    let database = Database::killed().await;
    remove(&database.file("-wal"));
    let error = database.refusal().await;
    assert!(matches!(error, OpenError::DataLoss { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("runs.db-wal is missing"), "{message}");
    assert!(message.contains("--accept-data-loss"), "{message}");
    assert_eq!(database.accept_loss().await.len(), 1);
    assert_eq!(database.workspaces().await, ["a", "b"]);
}

#[tokio::test]
async fn refuses_missing_log_and_index_after_a_kill() {
    let database = Database::killed().await;
    remove(&database.file("-wal"));
    remove(&database.file("-shm"));
    let error = database.refusal().await;
    assert!(matches!(error, OpenError::DataLoss { .. }), "{error}");
}

#[tokio::test]
async fn refuses_an_emptied_log_after_a_kill() {
    let database = Database::killed().await;
    database.change("-wal", Vec::clear);
    let error = database.refusal().await;
    assert!(matches!(error, OpenError::DataLoss { .. }), "{error}");
}

#[tokio::test]
async fn refuses_a_damaged_log_and_keeps_a_copy_when_the_loss_is_accepted() {
    let database = Database::killed().await;
    let mut damaged = Vec::new();
    database.change("-wal", |bytes| {
        let last = bytes.len() - 100;
        bytes[last] ^= 1;
        damaged.clone_from(bytes);
    });
    let error = database.refusal().await;
    let message = error.to_string();
    assert!(message.contains("runs.db-wal is damaged"), "{message}");
    assert!(message.contains("at least 1 acknowledged"), "{message}");
    assert_eq!(database.accept_loss().await.len(), 1);
    assert_eq!(database.workspaces().await, ["a", "b", "c"]);
    let kept = std::fs::read_dir(database.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("-wal.damaged-"))
        .unwrap();
    assert!(std::fs::read(kept).unwrap() == damaged);
}

#[tokio::test]
async fn refuses_side_files_without_a_database() {
    for suffix in ["-wal", "-shm", "-redo", ".lock"] {
        let database = Database::new();
        std::fs::write(database.file(suffix), "x").unwrap();
        let error = database.refusal().await;
        assert!(matches!(error, OpenError::Orphaned { .. }), "{error}");
        assert!(error.to_string().contains(suffix), "{error}");
        let migrated = migrate(&database.url(), DataLoss::Accept).await;
        assert!(migrated.is_err(), "{migrated:?}");
        assert!(!database.file("").exists());
        remove(&database.file(suffix));
        assert!(database.workspaces().await.is_empty());
    }
}

#[tokio::test]
async fn refuses_an_emptied_database_beside_its_side_files() {
    let database = Database::killed().await;
    database.change("", Vec::clear);
    let error = database.refusal().await;
    assert!(matches!(error, OpenError::Orphaned { .. }), "{error}");
}

#[tokio::test]
async fn refuses_damaged_pages_after_a_kill() {
    let database = Database::killed().await;
    // A table that is not in the log, which would hide the damage.
    let page = database.root_page("runs");
    database.change("", |bytes| bytes[page * 4_096..][..4_096].fill(0x5a));
    let opened = open(&database.url(), OpenOptions::default()).await;
    let Err(error) = opened else {
        panic!("opened");
    };
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    let health = check(&database.url()).await.unwrap();
    assert!(!health.problems.is_empty());
}

#[tokio::test]
async fn check_reports_side_files() {
    let database = Database::killed().await;
    let health = check(&database.url()).await.unwrap();
    assert!(health.is_good(), "{health:?}");
    let names: Vec<_> = health
        .side_files
        .iter()
        .map(|file| file.path.file_name().unwrap().to_string_lossy())
        .collect();
    assert_eq!(names, ["runs.db-wal", "runs.db-shm", "runs.db.lock"]);
    assert!(health.side_files[0].bytes > 0);
}

#[tokio::test]
async fn online_backup_has_every_acknowledged_write() {
    let database = Database::killed().await;
    let store = database.open().await;
    put_workspace(&*store, "e").await;
    let backup = Database::new();
    let copy = backup.file("").display().to_string();
    Connection::open(database.file(""))
        .unwrap()
        .execute("VACUUM INTO ?1", [copy])
        .unwrap();
    assert_eq!(backup.workspaces().await, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn restores_a_backup_after_a_kill_when_the_side_files_are_removed() {
    let database = Database::killed().await;
    let backup = Database::killed().await;
    drop(backup.open().await);
    for suffix in ["-wal", "-shm", ".lock"] {
        remove(&database.file(suffix));
    }
    std::fs::copy(backup.file(""), database.file("")).unwrap();
    assert_eq!(database.workspaces().await, ["a", "b", "c", "d"]);
}
