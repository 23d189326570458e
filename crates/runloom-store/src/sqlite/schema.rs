//! Versions of the schema: hand-written migrations, counted in `user_version`.

use rusqlite::{Connection, TransactionBehavior};

use crate::OpenError;

/// Name and text of each migration; the version of a database is how many of them it has seen. Only ever appended to.
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_init", include_str!("migrations/0001_init.sql")),
    (
        "0002_documents",
        include_str!("migrations/0002_documents.sql"),
    ),
    ("0003_ledger", include_str!("migrations/0003_ledger.sql")),
    (
        "0004_memories",
        include_str!("migrations/0004_memories.sql"),
    ),
    ("0005_redo", include_str!("migrations/0005_redo.sql")),
    (
        "0006_retention",
        include_str!("migrations/0006_retention.sql"),
    ),
    ("0007_oauth", include_str!("migrations/0007_oauth.sql")),
    (
        "0008_feedback",
        include_str!("migrations/0008_feedback.sql"),
    ),
    (
        "0009_drop_redo",
        include_str!("migrations/0009_drop_redo.sql"),
    ),
    (
        "0010_sub_runs",
        include_str!("migrations/0010_sub_runs.sql"),
    ),
    (
        "0011_approvals",
        include_str!("migrations/0011_approvals.sql"),
    ),
    ("0012_threads", include_str!("migrations/0012_threads.sql")),
    ("0013_project", include_str!("migrations/0013_project.sql")),
];

/// The version this program reads and writes.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// The version of a database; one from the future is refused.
pub(super) fn version(connection: &Connection) -> Result<u32, OpenError> {
    let found: u32 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(failed)?;
    if found > newest() {
        return Err(OpenError::TooNew {
            found,
            known: newest(),
        });
    }
    Ok(found)
}

/// Names of the migrations that a database of this version has not seen.
pub(super) fn pending(version: u32) -> Vec<String> {
    MIGRATIONS
        .iter()
        .skip(version as usize)
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

/// Applies what is missing, each migration with its version in one transaction. Returns the version from before.
pub(super) fn migrate(connection: &mut Connection) -> Result<u32, OpenError> {
    let from = version(connection)?;
    for (version, (name, sql)) in (1_u32..).zip(MIGRATIONS).skip(from as usize) {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction
            .pragma_update(None, "user_version", version)
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
        tracing::info!(migration = name, "schema migrated");
    }
    Ok(from)
}

fn failed(source: rusqlite::Error) -> OpenError {
    OpenError::Database {
        doing: "migrating the database",
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{MIGRATIONS, migrate};

    #[test]
    fn migration_keeps_sessions() {
        let mut connection = Connection::open_in_memory().unwrap();
        for (version, (_, sql)) in (1_u32..).zip(MIGRATIONS).take(5) {
            connection.execute_batch(sql).unwrap();
            connection
                .pragma_update(None, "user_version", version)
                .unwrap();
        }
        connection
            .execute_batch(
                "INSERT INTO workspaces VALUES (1, 'acme', 'Acme', '[]', 1, 1);
                 INSERT INTO sessions VALUES (3, 'ses_a', 1, 'active', 2, 'a', '{}', 1, 2, NULL);
                 INSERT INTO sessions VALUES (7, 'ses_b', 1, 'ended', 0, NULL, '{}', 3, 4, 5);",
            )
            .unwrap();
        let rows = |connection: &Connection| -> Vec<String> {
            let sql = "SELECT concat_ws(',', no, id, workspace, status, messages, name, metadata, created_at, last_used_at, ended_at)
                       FROM sessions ORDER BY no";
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        let before = rows(&connection);
        assert_eq!(migrate(&mut connection).unwrap(), 5);
        assert_eq!(rows(&connection), before);
        connection
            .execute_batch(
                "DELETE FROM sessions WHERE no = 7;
                 INSERT INTO sessions (id, workspace, status, metadata, created_at, last_used_at)
                     VALUES ('ses_c', 1, 'active', '{}', 6, 6);",
            )
            .unwrap();
        assert_eq!(connection.last_insert_rowid(), 8);
    }
}
