//! What was promised is there: after a failure, after a crash, and after a power cut that takes the end of SQLite's log.

use std::fs::File;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rusqlite::params;

use super::*;
use crate::sqlite::desk::Tx;
use crate::sqlite::leases::{Held, Workers};

const INSERT: &str = "INSERT INTO t (n, body) VALUES (?1, ?2)";

/// A database in a folder of its own.
struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let connection = Connection::open(ground.path()).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY, body ANY)",
            )
            .unwrap();
        connection
            .execute_batch(include_str!("migrations/0005_redo.sql"))
            .unwrap();
        ground
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("t.db")
    }

    /// As a process does at its start.
    fn keeper(&self) -> Keeper {
        let path = self.path();
        let mut connection = Connection::open(&path).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
            .execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0")
            .unwrap();
        recover(&mut connection, &path).unwrap();
        Keeper::start(connection, &path).unwrap()
    }

    /// The files as they are now, as a crash leaves them.
    fn crashed(&self) -> Self {
        let copy = tempfile::tempdir().unwrap();
        for name in ["t.db", "t.db-wal", "t.db-redo"] {
            let from = self.folder.path().join(name);
            if from.exists() {
                std::fs::copy(from, copy.path().join(name)).unwrap();
            }
        }
        Self { folder: copy }
    }

    /// What is in the table when a process has started on it.
    fn rows(&self) -> Vec<i64> {
        drop(self.keeper());
        let connection = Connection::open(self.path()).unwrap();
        rows(&connection)
    }
}

fn rows(connection: &Connection) -> Vec<i64> {
    let mut statement = connection.prepare("SELECT n FROM t ORDER BY n").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Executes in a group of its own; it is not kept yet.
fn execute(keeper: &mut Keeper, work: impl FnOnce(&mut Tx<'_>) -> rusqlite::Result<usize>) {
    keeper.begin().unwrap();
    in_group(keeper, work);
}

fn in_group(keeper: &mut Keeper, work: impl FnOnce(&mut Tx<'_>) -> rusqlite::Result<usize>) {
    let mut tx = Tx {
        connection: &keeper.connection,
        draft: &keeper.draft,
        held: &mut Held::default(),
        workers: &Workers::new(1),
    };
    work(&mut tx).unwrap();
}

fn put(keeper: &mut Keeper, n: i64, size: usize) {
    execute(keeper, |tx| {
        tx.execute(INSERT, params![n, vec![7_u8; size]])
    });
    if keeper.keep().unwrap() == Kept::TooLarge {
        keeper.take_back();
        put_alone(keeper, n, size);
    }
}

fn put_alone(keeper: &mut Keeper, n: i64, size: usize) {
    keeper.begin_alone().unwrap();
    in_group(keeper, |tx| {
        tx.execute(INSERT, params![n, vec![7_u8; size]])
    });
    keeper.keep_alone().unwrap();
}

#[test]
fn a_crash_takes_nothing_that_was_promised() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    put(&mut keeper, 2, 9_000);
    assert!(rows(&Connection::open(ground.path()).unwrap()).is_empty());
    assert_eq!(ground.crashed().rows(), [1, 2]);
    keeper.settle().unwrap();
    assert_eq!(rows(&Connection::open(ground.path()).unwrap()), [1, 2]);
    put(&mut keeper, 3, 10);
    let crashed = ground.crashed();
    assert_eq!(crashed.rows(), [1, 2, 3]);
    assert_eq!(crashed.rows(), [1, 2, 3], "and again");
}

#[test]
fn a_group_that_was_not_kept_is_not_there_after_a_crash() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    execute(&mut keeper, |tx| tx.execute(INSERT, params![2, "x"]));
    assert_eq!(ground.crashed().rows(), [1]);
}

#[test]
fn a_failed_group_takes_nothing_of_the_others_with_it() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    execute(&mut keeper, |tx| tx.execute(INSERT, params![2, "x"]));
    keeper.take_back();
    put(&mut keeper, 3, 10);
    assert_eq!(ground.crashed().rows(), [1, 3]);
    keeper.settle().unwrap();
    assert_eq!(rows(&keeper.connection), [1, 3]);
}

/// SQLite may lose what it wrote since its log was last synced; what was written there before that is safe.
#[test]
fn a_power_cut_that_takes_the_end_of_sqlites_log_takes_nothing_that_was_promised() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put_alone(&mut keeper, 1, 10);
    let synced = ground.crashed();
    for n in 2..6 {
        put(&mut keeper, n, 10);
        keeper.settle().unwrap();
    }
    put(&mut keeper, 6, 10);
    // Both halves are needed: the turn has ordered a sync and nobody knows whether it came to it.
    keeper.turn().unwrap();
    put(&mut keeper, 7, 10);
    let redo = RedoFile::path_beside(&ground.path());
    std::fs::copy(redo, RedoFile::path_beside(&synced.path())).unwrap();
    assert_eq!(synced.rows(), [1, 2, 3, 4, 5, 6, 7]);
}

/// A record of which nobody knows whether it came to the disk was refused, so it must not come back.
#[test]
fn a_record_that_could_not_be_written_is_not_found_again() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    execute(&mut keeper, |tx| tx.execute(INSERT, params![2, "x"]));
    // All of it came to the disk, and then the disk said no.
    keeper.redo.file.append_torn(keeper.draft.get_mut());
    keeper.take_back();
    assert_eq!(ground.crashed().rows(), [1], "not after a crash");
    keeper.settle().unwrap();
    assert_eq!(rows(&keeper.connection), [1], "not in this process");
    put(&mut keeper, 3, 10);
    assert_eq!(ground.crashed().rows(), [1, 3], "nor in the next");
    execute(&mut keeper, |tx| tx.execute(INSERT, params![4, "x"]));
    keeper.redo.file.append_torn(keeper.draft.get_mut());
    keeper.take_back();
    put_alone(&mut keeper, 5, 10);
    assert_eq!(ground.crashed().rows(), [1, 3, 5]);
    execute(&mut keeper, |tx| tx.execute(INSERT, params![6, "x"]));
    keeper.redo.file.append_torn(keeper.draft.get_mut());
    keeper.take_back();
    keeper.turn().unwrap();
    put(&mut keeper, 7, 10);
    assert_eq!(ground.crashed().rows(), [1, 3, 5, 7]);
}

#[test]
fn records_that_are_gone_are_missed() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    put(&mut keeper, 2, 10);
    keeper.take_back();
    let redo = File::options()
        .write(true)
        .open(RedoFile::path_beside(&ground.path()))
        .unwrap();
    redo.set_len(4_096).unwrap();
    let reason = keeper.settle().unwrap_err();
    assert!(reason.text.contains("1 of 2 records"), "{reason:?}");
}

#[test]
fn a_job_that_goes_on_after_a_failed_statement_is_refused() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    execute(&mut keeper, |tx| {
        tx.execute(INSERT, params![1, "x"])?;
        assert!(tx.execute(INSERT, params![1, "x"]).is_err());
        tx.execute(INSERT, params![2, "x"])
    });
    assert!(keeper.keep().is_err());
    keeper.take_back();
    assert!(ground.crashed().rows().is_empty());
}

/// After a sync that failed nothing is made of SQLite's log any more; the next start takes what is whole of it.
#[test]
fn after_a_failed_sync_nothing_is_written_until_the_next_start() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    keeper.settle().unwrap();
    put(&mut keeper, 2, 10);
    assert!(
        keeper
            .durably(Err(std::io::Error::other("broken")))
            .is_err()
    );
    assert!(keeper.begin().is_err());
    keeper.take_back();
    assert!(keeper.settle().is_err());
    assert!(keeper.close().is_err());
    drop(keeper);
    assert_eq!(ground.rows(), [1, 2]);
}

#[test]
fn every_kind_of_value_is_written_again_as_it_was() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    let values: [&dyn rusqlite::ToSql; 8] = [
        &rusqlite::types::Null,
        &i64::MIN,
        &-0.0_f64,
        &f64::MAX,
        &"",
        &"ü\0\u{1F9F5}",
        &vec![0_u8, 255],
        &Vec::<u8>::new(),
    ];
    for (n, value) in (0_i64..).zip(values) {
        execute(&mut keeper, |tx| tx.execute(INSERT, &[&n, value]));
        keeper.keep().unwrap();
    }
    let crashed = ground.crashed();
    drop(crashed.keeper());
    keeper.settle().unwrap();
    let all = |path: &Path| -> Vec<(i64, String, rusqlite::types::Value)> {
        let connection = Connection::open(path).unwrap();
        let mut statement = connection
            .prepare("SELECT n, typeof(body), body FROM t ORDER BY n")
            .unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(all(&crashed.path()), all(&ground.path()));
    assert_eq!(all(&ground.path()).len(), values.len());
}

#[test]
fn a_group_that_changed_nothing_leaves_no_trace_that_later_ones_rest_on() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    let delete = "DELETE FROM t WHERE n = ?1";
    for round in 0..2 {
        execute(&mut keeper, |tx| tx.execute(delete, params![7]));
        keeper.keep().unwrap();
        put(&mut keeper, 7 + round, 10);
    }
    execute(&mut keeper, |tx| tx.execute(delete, params![7]));
    keeper.keep().unwrap();
    assert_eq!(ground.crashed().rows(), [8]);
}

#[test]
fn a_group_larger_than_the_file_is_durable_when_it_is_kept() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    put(&mut keeper, 2, 9 << 20);
    assert!(!keeper.is_behind());
    put(&mut keeper, 3, 10);
    assert_eq!(ground.crashed().rows(), [1, 2, 3]);
}

#[test]
fn a_redo_file_of_another_life_of_the_database_is_left_alone() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    let earlier = ground.crashed();
    drop(keeper);
    assert_eq!(ground.rows(), [1]);
    // The file of the first life beside the database of the second.
    let file = RedoFile::path_beside(&earlier.path());
    std::fs::copy(file, RedoFile::path_beside(&ground.path())).unwrap();
    assert_eq!(ground.rows(), [1]);
}

#[test]
fn an_orderly_end_leaves_nothing_to_redo_and_no_file() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    keeper.close().unwrap();
    drop(keeper);
    assert!(!RedoFile::path_beside(&ground.path()).exists());
    assert_eq!(ground.rows(), [1]);
}

#[test]
fn a_redo_file_that_goes_on_after_another_moment_is_refused() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    let before = ground.crashed();
    keeper.settle().unwrap();
    let settled = ground.crashed();
    put_alone(&mut keeper, 2, 10);
    put(&mut keeper, 3, 10);
    let file = RedoFile::path_beside(&ground.path());
    for before in [before, settled] {
        std::fs::copy(&file, RedoFile::path_beside(&before.path())).unwrap();
        let mut connection = Connection::open(before.path()).unwrap();
        let refused = recover(&mut connection, &before.path()).unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains("not of the same moment"), "{cause}");
    }
}

#[test]
fn a_statement_that_does_something_else_the_second_time_is_not_believed() {
    let ground = Ground::new();
    let mut keeper = ground.keeper();
    put(&mut keeper, 1, 10);
    execute(&mut keeper, |tx| tx.execute("UPDATE t SET body = 0", &[]));
    keeper.keep().unwrap();
    let crashed = ground.crashed();
    Connection::open(crashed.path())
        .unwrap()
        .execute("INSERT INTO t (n) VALUES (99)", [])
        .unwrap();
    let mut connection = Connection::open(crashed.path()).unwrap();
    let refused = recover(&mut connection, &crashed.path()).unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(
        cause.contains("changed 2 rows where it had changed 1"),
        "{cause}"
    );
    assert_eq!(rows(&connection), [99], "nothing was changed");
}

#[derive(Debug, Clone)]
enum Act {
    Put(usize),
    Fail,
    Settle,
    Look,
    Turn,
    PutAlone,
    Restart,
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0_usize..20_000).prop_map(Act::Put),
        2 => Just(Act::Put(1 << 20)),
        1 => Just(Act::Fail),
        2 => Just(Act::Settle),
        2 => Just(Act::Look),
        2 => Just(Act::Turn),
        1 => Just(Act::PutAlone),
        1 => Just(Act::Restart),
        2 => Just(Act::Crash),
    ]
}

/// Whatever happens in whatever order, a crash finds all that was kept and nothing else.
#[test]
fn nothing_that_was_promised_is_ever_missing() {
    let config = Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    };
    let acts = prop::collection::vec(act(), 1..40);
    TestRunner::new(config)
        .run(&acts, |acts| {
            let ground = Ground::new();
            let mut keeper = ground.keeper();
            let mut kept: Vec<i64> = Vec::new();
            for (n, act) in (0..).zip(acts) {
                match act {
                    Act::Put(size) => {
                        put(&mut keeper, n, size);
                        kept.push(n);
                    }
                    Act::Fail => {
                        execute(&mut keeper, |tx| tx.execute(INSERT, params![n, "x"]));
                        keeper.take_back();
                    }
                    Act::Settle => {
                        keeper.settle().unwrap();
                        prop_assert_eq!(&rows(&keeper.connection), &kept);
                    }
                    Act::Look => drop(keeper.look().unwrap()),
                    Act::Turn => keeper.turn().unwrap(),
                    Act::PutAlone => {
                        keeper.settle().unwrap();
                        put_alone(&mut keeper, n, 100);
                        kept.push(n);
                    }
                    Act::Restart => {
                        drop(keeper);
                        keeper = ground.keeper();
                    }
                    Act::Crash => prop_assert_eq!(&ground.crashed().rows(), &kept),
                }
            }
            prop_assert_eq!(&ground.crashed().rows(), &kept);
            Ok(())
        })
        .unwrap();
}
