//! Logs that are intact, cut, flipped and gone, with and without the index.

use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rusqlite::Connection;

use super::*;

const TRANSACTIONS: u32 = 12;

/// The files of a database as a killed process leaves them.
struct Crashed {
    folder: tempfile::TempDir,
}

impl Crashed {
    fn new() -> Self {
        let live = tempfile::tempdir().unwrap();
        let connection = Connection::open(live.path().join("t.db")).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;
                 CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB);
                 PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .unwrap();
        for n in 1..=TRANSACTIONS {
            connection
                .execute("INSERT INTO t VALUES (?1, zeroblob(5000))", [n])
                .unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["t.db", "t.db-wal", "t.db-shm"] {
            std::fs::copy(live.path().join(name), folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn without_index() -> Self {
        let crashed = Self::new();
        std::fs::remove_file(crashed.index()).unwrap();
        crashed
    }

    fn wal(&self) -> PathBuf {
        self.folder.path().join("t.db-wal")
    }

    fn index(&self) -> PathBuf {
        self.folder.path().join("t.db-shm")
    }

    fn state(&self) -> WalState {
        examine(&self.wal(), &self.index()).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.wal()).unwrap();
        change(&mut bytes);
        std::fs::write(self.wal(), bytes).unwrap();
    }

    /// Rows that SQLite recovers.
    fn recovered(&self) -> u32 {
        let connection = Connection::open(self.folder.path().join("t.db")).unwrap();
        connection
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    }
}

/// Where the last frame begins.
fn last_frame(bytes: &[u8]) -> usize {
    bytes.len() - FRAME_HEADER - 4_096
}

#[test]
fn accepts_an_intact_log() {
    assert_eq!(Crashed::new().state(), WalState::Intact);
    assert_eq!(Crashed::without_index().state(), WalState::Intact);
}

#[test]
fn accepts_a_log_that_started_over() {
    let live = tempfile::tempdir().unwrap();
    let path = live.path().join("t.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (body BLOB);
             INSERT INTO t VALUES (zeroblob(50000)); INSERT INTO t VALUES (zeroblob(50000));
             PRAGMA wal_checkpoint(RESTART);
             INSERT INTO t VALUES (zeroblob(5000));",
        )
        .unwrap();
    let [wal, index] = ["t.db-wal", "t.db-shm"].map(|name| live.path().join(name));
    assert_eq!(examine(&wal, &index).unwrap(), WalState::Intact);
}

#[test]
fn notices_a_missing_or_empty_log() {
    let crashed = Crashed::new();
    crashed.change(|bytes| bytes.truncate(31));
    assert_eq!(crashed.state(), WalState::Missing);
    std::fs::remove_file(crashed.wal()).unwrap();
    assert_eq!(crashed.state(), WalState::Missing);
}

#[test]
fn notices_a_damaged_header() {
    for byte in 0..WAL_HEADER {
        let crashed = Crashed::new();
        crashed.change(|bytes| bytes[byte] ^= 1);
        assert_eq!(crashed.state(), WalState::Unreadable, "byte {byte}");
    }
}

#[test]
fn counts_the_transactions_after_a_damaged_frame() {
    for crashed in [Crashed::new(), Crashed::without_index()] {
        crashed.change(|bytes| bytes[WAL_HEADER + FRAME_HEADER + 100] ^= 1);
        let damage = Damage {
            intact_frames: 0,
            lost_transactions: TRANSACTIONS,
        };
        assert_eq!(crashed.state(), WalState::Damaged(damage));
    }
}

#[test]
fn tells_an_incomplete_last_transaction_from_a_damaged_one_by_the_index() {
    let damage_last = |bytes: &mut Vec<u8>| {
        let byte = last_frame(bytes) + FRAME_HEADER + 100;
        bytes[byte] ^= 1;
    };
    let crashed = Crashed::without_index();
    crashed.change(damage_last);
    assert_eq!(crashed.state(), WalState::Incomplete);
    let crashed = Crashed::new();
    crashed.change(damage_last);
    assert!(matches!(
        crashed.state(),
        WalState::Damaged(Damage {
            lost_transactions: 1,
            ..
        })
    ));
}

#[test]
fn notices_a_cut_log_by_the_index() {
    let crashed = Crashed::new();
    crashed.change(|bytes| bytes.truncate(last_frame(bytes)));
    assert!(matches!(crashed.state(), WalState::Damaged(_)));
}

#[test]
fn ignores_a_damaged_index() {
    let crashed = Crashed::new();
    let mut index = std::fs::read(crashed.index()).unwrap();
    index[17] ^= 1;
    std::fs::write(crashed.index(), &index).unwrap();
    assert_eq!(crashed.state(), WalState::Intact);
    std::fs::write(crashed.index(), &index[..20]).unwrap();
    assert_eq!(crashed.state(), WalState::Intact);
}

/// Whatever bit flips: either everything is recovered, or the damage is noticed.
#[test]
fn notices_every_flipped_bit_that_loses_a_transaction() {
    let config = Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&(any::<prop::sample::Index>(), 0_u8..8), |(byte, bit)| {
            let crashed = Crashed::new();
            crashed.change(|bytes| {
                let byte = byte.index(bytes.len());
                bytes[byte] ^= 1 << bit;
            });
            let state = crashed.state();
            let noticed = matches!(state, WalState::Damaged(_) | WalState::Unreadable);
            prop_assert_eq!(noticed, crashed.recovered() < TRANSACTIONS, "{:?}", state);
            Ok(())
        })
        .unwrap();
}
