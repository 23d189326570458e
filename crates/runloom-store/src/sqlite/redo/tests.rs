//! Records that are whole, torn, old, and of another life.

use rusqlite::types::ToSqlOutput;

use super::*;

impl RedoFile {
    /// As a disk that writes everything and then says no.
    pub(in crate::sqlite) fn append_torn(&mut self, draft: &mut Draft) {
        let before = (self.end, self.last);
        self.append(draft).unwrap();
        (self.end, self.last) = before;
        self.torn = true;
    }
}

const LINEAGE: u64 = 42;

fn draft(file: &RedoFile, text: &str) -> Draft {
    let mut draft = Draft::default();
    draft.begin(file.room());
    draft.statement("INSERT", 1);
    draft.value(&ToSqlOutput::from(text));
    draft.executed(1);
    draft
}

/// A file with three records, of which the second takes two blocks.
fn written(path: &Path) -> RedoFile {
    let mut file = RedoFile::start(path, LINEAGE).unwrap();
    for text in ["one", &"two".repeat(2_000), "three"] {
        let mut draft = draft(&file, text);
        file.append(&mut draft).unwrap();
    }
    assert_eq!(file.last(), 3);
    assert_eq!(file.used(), 4 * BLOCK as u64);
    file
}

fn count(path: &Path, held: u64) -> usize {
    left_behind(path, LINEAGE, held).unwrap().len()
}

#[test]
fn records_after_the_last_that_is_held_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    assert_eq!(count(&path, 0), 0, "no file");
    let file = written(&path);
    let found: Vec<usize> = (0..4).map(|held| count(&path, held)).collect();
    assert_eq!(found, [3, 2, 1, 0]);
    assert_eq!(
        file.after(1).unwrap(),
        left_behind(&path, LINEAGE, 1).unwrap()
    );
    assert!(left_behind(&path, LINEAGE + 1, 0).unwrap().is_empty());
}

#[test]
fn a_record_that_is_not_whole_ends_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    drop(written(&path));
    let whole = std::fs::read(&path).unwrap();
    for (at, expected) in [
        (5, 0),                      // the first one's checksum
        (BLOCK + 20, 1),             // the second one's number
        (2 * BLOCK + 9, 1),          // its second block
        (3 * BLOCK, 2),              // the third one's first byte
        (3 * BLOCK + HEADER + 4, 2), // and what it says
        (4 * BLOCK, 3),              // behind the last
    ] {
        let mut torn = whole.clone();
        torn[at] ^= 0x10;
        std::fs::write(&path, &torn).unwrap();
        assert_eq!(count(&path, 0), expected, "byte {at}");
    }
    for length in [0, 10, BLOCK, BLOCK + 100, 2 * BLOCK] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(count(&path, 0) <= 1, "{length} bytes");
    }
}

#[test]
fn what_is_left_of_an_earlier_round_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    let mut file = written(&path);
    file.start_over();
    assert_eq!(count(&path, 3), 0, "all of it is held");
    // The fourth is a group that has no record.
    let mut next = draft(&file, "five");
    file.append(&mut next).unwrap();
    assert_eq!(count(&path, 4), 1);
    let missing = left_behind(&path, LINEAGE, 3).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidData);
}

#[test]
fn the_row_goes_on_from_one_half_to_the_other_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    let mut file = written(&path);
    file.turn();
    let mut next = draft(&file, "four");
    file.append(&mut next).unwrap();
    let found: Vec<usize> = (0..5).map(|held| count(&path, held)).collect();
    assert_eq!(found, [4, 3, 2, 1, 0]);
    file.turn();
    let mut next = draft(&file, "five");
    file.append(&mut next).unwrap();
    // The first is overwritten, so that the database must hold the first three.
    let found: Vec<usize> = (3..6).map(|held| count(&path, held)).collect();
    assert_eq!(found, [2, 1, 0]);
    assert!(left_behind(&path, LINEAGE, 2).is_err());
}

#[test]
fn a_draft_that_does_not_fit_says_so_and_keeps_nothing() {
    let mut draft = Draft::default();
    draft.begin(100);
    draft.statement("INSERT", 1);
    draft.value(&ToSqlOutput::from("x".repeat(200)));
    draft.executed(1);
    assert!(draft.is_too_large() && draft.changed());
    draft.begin(100);
    assert!(!draft.is_too_large() && !draft.changed());
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    drop(written(&path));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
