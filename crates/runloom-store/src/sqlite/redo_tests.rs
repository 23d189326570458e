//! Conversion of redo files, which the former version's writer made: intact, incomplete, damaged, missing.

use std::path::PathBuf;

use rusqlite::types::Value;

use super::*;
use crate::DataLoss;

const LINEAGE: u64 = 42;
const INSERT: &str = "INSERT INTO t (n, body) VALUES (?1, ?2)";

/// The writer of the former version: its format, and what it needed of its behaviour.
struct FormerWriter {
    path: PathBuf,
    lineage: u64,
    last: u64,
    half: u64,
    end: u64,
    /// Numbers of the texts that are in records since the last commit to the database.
    texts: HashMap<String, u16>,
}

impl FormerWriter {
    fn start(path: PathBuf, lineage: u64) -> Self {
        Self {
            path,
            lineage,
            last: 0,
            half: 0,
            end: 0,
            texts: HashMap::new(),
        }
    }

    /// Appends one group of one statement that changed `rows` rows.
    fn append(&mut self, sql: &str, values: &[Value], rows: u64) {
        let mut bytes = vec![0; HEADER];
        let next = u16::try_from(self.texts.len()).unwrap();
        match self.texts.get(sql) {
            Some(number) => bytes.extend(number.to_le_bytes()),
            None => {
                self.texts.insert(sql.to_owned(), next);
                bytes.extend((next | TEXT_FOLLOWS).to_le_bytes());
                sized(&mut bytes, sql.as_bytes());
            }
        }
        bytes.push(u8::try_from(values.len()).unwrap());
        for value in values {
            encode(&mut bytes, value);
        }
        bytes.extend(rows.to_le_bytes());
        let length = (bytes.len() - HEADER) as u64;
        let header = [self.lineage, self.last + 1, length].map(u64::to_le_bytes);
        bytes[8..HEADER].copy_from_slice(header.as_flattened());
        let checksum = crc32fast::hash(&bytes[8..]);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        let start = usize::try_from(self.half + self.end).unwrap();
        let mut file = std::fs::read(&self.path).unwrap_or_default();
        file.resize(file.len().max(start + bytes.len()), 0);
        file[start..start + bytes.len()].copy_from_slice(&bytes);
        std::fs::write(&self.path, file).unwrap();
        self.end += bytes.len() as u64;
        self.last += 1;
    }

    /// Continues in the other half of the file.
    fn turn(&mut self) {
        self.half = HALF as u64 - self.half;
        self.end = 0;
    }

    /// A group that was committed to the database without a record.
    fn skip(&mut self) {
        self.last += 1;
        self.end = 0;
    }
}

fn sized(bytes: &mut Vec<u8>, content: &[u8]) {
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(content);
}

fn encode(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.push(NULL),
        Value::Integer(number) => {
            bytes.push(INTEGER);
            bytes.extend(number.to_le_bytes());
        }
        Value::Real(number) => {
            bytes.push(REAL);
            bytes.extend(number.to_le_bytes());
        }
        Value::Text(text) => {
            bytes.push(TEXT);
            sized(bytes, text.as_bytes());
        }
        Value::Blob(blob) => {
            bytes.push(BLOB);
            sized(bytes, blob);
        }
    }
}

/// A database of the former version, as a killed process left it.
struct Fixture {
    _folder: tempfile::TempDir,
    files: DatabaseFiles,
    connection: Connection,
    writer: FormerWriter,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = DatabaseFiles::at(&folder.path().join("t.db"));
        let connection = Connection::open(files.database()).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY, body)",
            )
            .unwrap();
        connection
            .execute_batch(include_str!("migrations/0005_redo.sql"))
            .unwrap();
        let fixture = Self {
            writer: FormerWriter::start(files.redo(), LINEAGE),
            _folder: folder,
            files,
            connection,
        };
        fixture.set_position(LINEAGE, 0);
        fixture
    }

    /// With three records, of which the second takes two blocks.
    fn with_three_records() -> Self {
        let mut fixture = Self::new();
        fixture.put(1, Value::Text("one".to_owned()));
        fixture.put(2, Value::Text("two".repeat(2_000)));
        fixture.put(3, Value::Text("three".to_owned()));
        assert_eq!(fixture.writer.end, 4 * BLOCK as u64);
        fixture
    }

    fn put(&mut self, n: i64, body: Value) {
        self.writer.append(INSERT, &[Value::Integer(n), body], 1);
    }

    fn set_position(&self, lineage: u64, held: u64) {
        self.connection
            .execute(
                "UPDATE redo SET lineage = ?1, held = ?2",
                [lineage.cast_signed(), held.cast_signed()],
            )
            .unwrap();
    }

    /// Commits the rows up to `held` to the database, as the former version did from time to time.
    fn hold(&self, held: i64) {
        for n in 1..=held {
            self.connection.execute(INSERT, (n, "held")).unwrap();
        }
        self.set_position(LINEAGE, held.cast_unsigned());
    }

    fn empty_wal(&self) {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
    }

    fn convert(&mut self) -> Result<(), OpenError> {
        convert(
            &mut self.connection,
            &self.files,
            &mut Losses::new(DataLoss::Refuse),
        )
    }

    /// Converts with losses accepted and returns them.
    fn convert_anyway(&mut self) -> Vec<String> {
        let mut losses = Losses::new(DataLoss::Accept);
        convert(&mut self.connection, &self.files, &mut losses).unwrap();
        losses.into_accepted()
    }

    fn rows(&self) -> Vec<i64> {
        let mut statement = self
            .connection
            .prepare("SELECT n FROM t ORDER BY n")
            .unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn flip(&self, byte: usize) {
        let mut bytes = std::fs::read(self.files.redo()).unwrap();
        bytes[byte] ^= 0x10;
        std::fs::write(self.files.redo(), bytes).unwrap();
    }

    /// Whether a damaged redo file was kept.
    fn kept_damaged(&self) -> bool {
        let folder = self.files.database().parent().unwrap();
        std::fs::read_dir(folder).unwrap().any(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.starts_with("t.db-redo.damaged-")
        })
    }
}

/// The message of a refusal, after which nothing may have changed.
fn refused(fixture: &mut Fixture) -> String {
    let before = (
        fixture.rows(),
        std::fs::read(fixture.files.redo()).unwrap_or_default(),
    );
    let error = fixture.convert().unwrap_err();
    assert!(matches!(error, OpenError::DataLoss { .. }), "{error}");
    let after = (
        fixture.rows(),
        std::fs::read(fixture.files.redo()).unwrap_or_default(),
    );
    assert!(before == after, "a refused start changed something");
    error.to_string()
}

#[test]
fn replays_what_the_database_lacks_and_removes_the_file() {
    for held in 0..=3 {
        let mut fixture = Fixture::with_three_records();
        // The text of the statement stands in the first record after a commit.
        fixture.writer = FormerWriter::start(fixture.files.redo(), LINEAGE);
        for n in 1..=3 {
            if n == held + 1 {
                fixture.writer.texts.clear();
            }
            fixture.put(n, Value::Integer(n));
        }
        fixture.hold(held);
        fixture.convert().unwrap();
        assert_eq!(fixture.rows(), [1, 2, 3], "held {held}");
        assert!(!fixture.files.redo().exists());
        fixture.convert().unwrap();
        assert_eq!(fixture.rows(), [1, 2, 3], "converted twice");
    }
}

#[test]
fn replays_every_kind_of_value() {
    let mut fixture = Fixture::new();
    let values = [
        Value::Null,
        Value::Integer(i64::MIN),
        Value::Real(-0.0),
        Value::Real(f64::MAX),
        Value::Text(String::new()),
        Value::Text("ü\0\u{1F9F5}".to_owned()),
        Value::Blob(vec![0, 255]),
        Value::Blob(Vec::new()),
    ];
    for (n, value) in (0..).zip(&values) {
        fixture.put(n, value.clone());
    }
    fixture.convert().unwrap();
    let mut statement = fixture
        .connection
        .prepare("SELECT body FROM t ORDER BY n")
        .unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    let found: Vec<Value> = rows.map(Result::unwrap).collect();
    assert_eq!(found, values);
}

#[test]
fn follows_the_records_from_one_half_to_the_other() {
    let mut fixture = Fixture::with_three_records();
    fixture.writer.turn();
    fixture.put(4, Value::Null);
    fixture.convert().unwrap();
    assert_eq!(fixture.rows(), [1, 2, 3, 4]);

    // The first record is overwritten by the fifth, so the database holds the first three.
    let mut fixture = Fixture::with_three_records();
    fixture.hold(3);
    fixture.writer.texts.clear();
    fixture.writer.turn();
    fixture.put(4, Value::Null);
    fixture.writer.turn();
    fixture.put(5, Value::Null);
    fixture.convert().unwrap();
    assert_eq!(fixture.rows(), [1, 2, 3, 4, 5]);
}

/// The former version drew a new lineage at each start, after it had replayed the records of the one before.
#[test]
fn ignores_records_of_an_earlier_lineage() {
    let mut fixture = Fixture::with_three_records();
    fixture.set_position(LINEAGE + 1, 0);
    fixture.convert().unwrap();
    assert!(fixture.rows().is_empty());
}

#[test]
fn refuses_records_whose_lineage_was_in_a_missing_log() {
    for lineage in [0, LINEAGE - 1] {
        let mut fixture = Fixture::with_three_records();
        fixture.set_position(lineage, 7);
        fixture.empty_wal();
        let message = refused(&mut fixture);
        assert!(message.contains("t.db-wal is missing"), "{message}");
        fixture.convert_anyway();
        assert!(fixture.kept_damaged());
    }
    let mut fixture = Fixture::with_three_records();
    fixture
        .connection
        .execute_batch("DROP TABLE redo; PRAGMA user_version = 4")
        .unwrap();
    let message = refused(&mut fixture);
    assert!(message.contains("t.db-wal is missing"), "{message}");
    fixture.convert_anyway();
    assert!(fixture.kept_damaged());
}

#[test]
fn removes_a_file_that_was_converted_before_a_crash() {
    let mut fixture = Fixture::with_three_records();
    fixture.set_position(0, 0);
    fixture.convert().unwrap();
    assert!(fixture.rows().is_empty());
    assert!(!fixture.files.redo().exists());
}

#[test]
fn ignores_an_incomplete_last_record() {
    let mut fixture = Fixture::with_three_records();
    fixture.flip(3 * BLOCK + HEADER + 4);
    fixture.convert().unwrap();
    assert_eq!(fixture.rows(), [1, 2]);
}

#[test]
fn refuses_a_damaged_record_before_others() {
    for byte in [
        2,             // the magic of the first record
        5,             // its checksum
        10,            // its lineage
        HEADER + 3,    // its content
        BLOCK + 20,    // the number of the second record
        2 * BLOCK + 9, // its second block
    ] {
        let mut fixture = Fixture::with_three_records();
        fixture.flip(byte);
        let message = refused(&mut fixture);
        assert!(message.contains("t.db-redo is damaged"), "{message}");
        assert!(message.contains("--accept-data-loss"), "{message}");
    }
}

#[test]
fn accepted_damage_keeps_the_intact_records_and_the_file() {
    let mut fixture = Fixture::with_three_records();
    fixture.flip(2 * BLOCK + 9);
    let lost = fixture.convert_anyway();
    assert!(lost[0].contains("those after 1 cannot be used"), "{lost:?}");
    assert_eq!(fixture.rows(), [1]);
    assert!(!fixture.files.redo().exists() && fixture.kept_damaged());
    fixture.convert().unwrap();
}

#[test]
fn refuses_a_file_of_another_moment() {
    let mut fixture = Fixture::with_three_records();
    fixture.writer.skip();
    fixture.put(5, Value::Null);
    // The database lacks the fourth group, which has no record.
    fixture.hold(3);
    let message = refused(&mut fixture);
    assert!(message.contains("of another moment"), "{message}");
    fixture.convert_anyway();
    assert_eq!(fixture.rows(), [1, 2, 3]);
}

#[test]
fn refuses_a_statement_with_another_effect() {
    let mut fixture = Fixture::new();
    fixture.put(1, Value::Null);
    fixture.writer.append("UPDATE t SET body = 0", &[], 1);
    fixture
        .connection
        .execute("INSERT INTO t (n) VALUES (99)", [])
        .unwrap();
    let message = refused(&mut fixture);
    assert!(
        message.contains("changed 2 rows where it had changed 1"),
        "{message}"
    );
    fixture.convert_anyway();
    assert_eq!(fixture.rows(), [99]);
    assert!(fixture.kept_damaged());
}

#[test]
fn refuses_a_missing_file_after_a_kill() {
    let mut fixture = Fixture::with_three_records();
    std::fs::remove_file(fixture.files.redo()).unwrap();
    let message = refused(&mut fixture);
    assert!(message.contains("t.db-redo is missing"), "{message}");
    assert_eq!(fixture.convert_anyway().len(), 1);
    fixture.convert().unwrap();
}

#[test]
fn a_missing_file_after_a_clean_stop_is_right() {
    let mut fixture = Fixture::with_three_records();
    fixture.hold(3);
    std::fs::remove_file(fixture.files.redo()).unwrap();
    fixture.empty_wal();
    fixture.convert().unwrap();
    // From here on the database has a log of this version.
    fixture.connection.execute(INSERT, (4, "x")).unwrap();
    fixture.convert().unwrap();
    assert_eq!(fixture.rows(), [1, 2, 3, 4]);
}
