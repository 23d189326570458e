//! SQLite's own checks of a database, in bounded time.

use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

/// Problems that are reported at most.
const MAX_PROBLEMS: usize = 20;

/// Steps of SQLite's virtual machine between two looks at the clock.
const STEPS: i32 = 10_000;

/// What is checked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Depth {
    /// The structure of pages and tables.
    Quick,
    /// Also indexes and foreign keys.
    Full,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Integrity {
    Sound,
    /// What SQLite complains about.
    Damaged(Vec<String>),
    /// The time was up and nothing was found so far.
    Unfinished,
}

/// Checks the database for at most about `limit`.
pub(super) fn check(
    connection: &mut Connection,
    depth: Depth,
    limit: Duration,
) -> rusqlite::Result<Integrity> {
    let deadline = Instant::now() + limit;
    connection.progress_handler(STEPS, Some(move || Instant::now() >= deadline))?;
    let problems = match depth {
        Depth::Quick => structure(connection, "quick_check"),
        Depth::Full => structure(connection, "integrity_check").and_then(|mut problems| {
            problems.extend(foreign_keys(connection)?);
            Ok(problems)
        }),
    };
    connection.progress_handler(0, None::<fn() -> bool>)?;
    match problems {
        Ok(problems) if problems.is_empty() => Ok(Integrity::Sound),
        Ok(problems) => Ok(Integrity::Damaged(problems)),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Ok(Integrity::Unfinished),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Ok(Integrity::Damaged(vec![error.to_string()]))
            }
            _ => Err(error),
        },
    }
}

fn structure(connection: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA {pragma}({MAX_PROBLEMS})"))?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut problems: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
    problems.retain(|line| line != "ok");
    Ok(problems)
}

fn foreign_keys(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let rows = statement.query_map([], |row| {
        let table: String = row.get(0)?;
        let row_id: Option<i64> = row.get(1)?;
        let parent: String = row.get(2)?;
        let row_id = row_id.map_or(String::new(), |id| format!(" {id}"));
        Ok(format!(
            "row{row_id} of {table} refers to a row of {parent} that does not exist"
        ))
    })?;
    rows.take(MAX_PROBLEMS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn finds_rows_without_their_parent() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE parent (no INTEGER PRIMARY KEY);
                 CREATE TABLE child (parent INTEGER REFERENCES parent);
                 PRAGMA foreign_keys = OFF;
                 INSERT INTO child VALUES (7);",
            )
            .unwrap();
        assert_eq!(
            check(&mut connection, Depth::Quick, LIMIT).unwrap(),
            Integrity::Sound
        );
        let problem = "row 1 of child refers to a row of parent that does not exist".to_owned();
        assert_eq!(
            check(&mut connection, Depth::Full, LIMIT).unwrap(),
            Integrity::Damaged(vec![problem])
        );
    }

    #[test]
    fn stops_when_the_time_is_up() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE t AS
                     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT i FROM n;
                 CREATE INDEX i ON t (i);",
            )
            .unwrap();
        assert_eq!(
            check(&mut connection, Depth::Full, Duration::ZERO).unwrap(),
            Integrity::Unfinished
        );
        assert_eq!(
            check(&mut connection, Depth::Full, LIMIT).unwrap(),
            Integrity::Sound
        );
    }
}
