//! Versions of the schema: hand-written migrations, one row of `runloom_schema` for each that was applied.
//!
//! Several replicas share a database, and while they are exchanged older ones still run: a migration only adds
//! (tables, columns with defaults, indexes), so that they can go on. One that cannot be so is marked `breaking`, and
//! only then does an older program refuse the database. Programs that start at once apply migrations one after the
//! other, under a lock.

use tokio_postgres::Client;

use super::error::Failure;
use crate::OpenError;

/// A step of the schema.
struct Migration {
    name: &'static str,
    sql: &'static str,
    /// Programs that do not know this step cannot work with it.
    breaking: bool,
}

/// The version of a database is how many of these it has seen. Only ever appended to.
const MIGRATIONS: &[Migration] = &[
    Migration {
        name: "0001_init",
        sql: include_str!("migrations/0001_init.sql"),
        breaking: true,
    },
    Migration {
        name: "0002_documents",
        sql: include_str!("migrations/0002_documents.sql"),
        breaking: false,
    },
    Migration {
        name: "0003_ledger",
        sql: include_str!("migrations/0003_ledger.sql"),
        breaking: false,
    },
    Migration {
        name: "0004_fair",
        sql: include_str!("migrations/0004_fair.sql"),
        breaking: false,
    },
    Migration {
        name: "0005_memories",
        sql: include_str!("migrations/0005_memories.sql"),
        breaking: false,
    },
    Migration {
        name: "0006_retention",
        sql: include_str!("migrations/0006_retention.sql"),
        breaking: false,
    },
    Migration {
        name: "0007_oauth",
        sql: include_str!("migrations/0007_oauth.sql"),
        breaking: false,
    },
    Migration {
        name: "0008_feedback",
        sql: include_str!("migrations/0008_feedback.sql"),
        breaking: false,
    },
    Migration {
        name: "0009_sub_runs",
        sql: include_str!("migrations/0009_sub_runs.sql"),
        breaking: false,
    },
    // A program that does not know approvals would execute calls that wait for one.
    Migration {
        name: "0010_approvals",
        sql: include_str!("migrations/0010_approvals.sql"),
        breaking: true,
    },
    Migration {
        name: "0011_threads",
        sql: include_str!("migrations/0011_threads.sql"),
        breaking: false,
    },
    Migration {
        name: "0012_project",
        sql: include_str!("migrations/0012_project.sql"),
        breaking: false,
    },
];

/// Number of the advisory lock under which migrations are applied: "runloom" in ASCII.
const LOCK: i64 = 0x72_75_6e_6c_6f_6f_6d;

/// The version this program reads and writes.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// The version of a database; one from the future is refused when a step this program does not know is breaking.
pub(super) async fn version(client: &Client) -> Result<u32, OpenError> {
    let there = client
        .query_one("SELECT to_regclass('runloom_schema') IS NOT NULL", &[])
        .await
        .and_then(|row| row.try_get::<_, bool>(0))
        .map_err(failed)?;
    if !there {
        return Ok(0);
    }
    stored_version(client).await
}

/// The version that the table says.
async fn stored_version(client: &Client) -> Result<u32, OpenError> {
    let row = client
        .query_one(
            "SELECT coalesce(max(version), 0), coalesce(bool_or(breaking) FILTER (WHERE version > $1), FALSE)
             FROM runloom_schema",
            &[&i64::from(newest())],
        )
        .await
        .map_err(failed)?;
    let found: i64 = row.try_get(0).map_err(failed)?;
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if row.try_get(1).map_err(failed)? {
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
        .map(|migration| migration.name.to_owned())
        .collect()
}

/// Applies what is missing, all of it in one transaction. Returns the version from before.
pub(super) async fn migrate(client: &mut Client) -> Result<u32, OpenError> {
    let from = version(client).await?;
    if from >= newest() {
        return Ok(from);
    }
    let transaction = client.transaction().await.map_err(failed)?;
    // Another replica may be at it, and it may take its time.
    transaction
        .batch_execute("SET LOCAL lock_timeout = '10min'; SET LOCAL statement_timeout = '10min'")
        .await
        .map_err(failed)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await
        .map_err(failed)?;
    // The table is made before it is asked for: within a transaction the server may still believe that it is not there.
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS runloom_schema (
                 version    BIGINT  PRIMARY KEY,
                 name       TEXT    NOT NULL,
                 breaking   BOOLEAN NOT NULL,
                 applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
             )",
        )
        .await
        .map_err(failed)?;
    let from = stored_version(transaction.client()).await?;
    for (version, migration) in (1_i64..).zip(MIGRATIONS).skip(from as usize) {
        transaction
            .batch_execute(migration.sql)
            .await
            .map_err(failed)?;
        transaction
            .execute(
                "INSERT INTO runloom_schema (version, name, breaking) VALUES ($1, $2, $3)",
                &[&version, &migration.name, &migration.breaking],
            )
            .await
            .map_err(failed)?;
        tracing::info!(migration = migration.name, "schema migrated");
    }
    transaction.commit().await.map_err(failed)?;
    Ok(from)
}

fn failed(source: tokio_postgres::Error) -> OpenError {
    OpenError::Database {
        doing: "migrating the database",
        source: Box::new(Failure::from(source)),
    }
}
