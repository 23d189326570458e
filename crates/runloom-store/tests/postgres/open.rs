//! Opening, migrating and checking a PostgreSQL database.

use runloom_store::{DataLoss, Migrations, OpenError, OpenOptions, check, migrate, open};

use crate::database::Database;

async fn refusal(url: &str, options: OpenOptions) -> OpenError {
    match open(url, options).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// Pretends that a newer program has migrated the database.
async fn migrate_further(database: &Database, breaking: bool) {
    let client = database.client().await;
    client
        .execute(
            "INSERT INTO runloom_schema (version, name, breaking) VALUES (4711, 'from_the_future', $1)",
            &[&breaking],
        )
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_starts_migrate_once() {
    let database = Database::create().await;
    let url = database.url();
    let starts = (0..6).map(|_| open(&url, OpenOptions::default()));
    let started = futures_util::future::join_all(starts).await;
    for store in started {
        store.unwrap_or_else(|error| panic!("{error:?}"));
    }
    let rows = database
        .client()
        .await
        .query("SELECT version FROM runloom_schema", &[])
        .await
        .unwrap();
    let expected = check(&url).await.unwrap().expected;
    assert_eq!(rows.len(), expected as usize);
}

#[tokio::test]
async fn refuses_breaking_newer_schemas() {
    let database = Database::create().await;
    migrate(&database.url(), DataLoss::Refuse).await.unwrap();
    migrate_further(&database, false).await;
    open(&database.url(), OpenOptions::default()).await.unwrap();
    let health = check(&database.url()).await.unwrap();
    assert!(health.is_good(), "{health:?}");
    let client = database.client().await;
    client
        .batch_execute("UPDATE runloom_schema SET breaking = TRUE")
        .await
        .unwrap();
    let error = refusal(&database.url(), OpenOptions::default()).await;
    assert!(
        matches!(error, OpenError::TooNew { found: 4_711, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn migrations_wait_for_permission() {
    let database = Database::create().await;
    let careful = OpenOptions {
        migrations: Migrations::Refuse,
        ..OpenOptions::default()
    };
    let error = refusal(&database.url(), careful).await;
    assert!(
        matches!(error, OpenError::MigrationsPending { found: 0, .. }),
        "{error}"
    );
    let health = check(&database.url()).await.unwrap();
    assert!(!health.is_good());
    assert_eq!(health.pending[0], "0001_init");
    let done = migrate(&database.url(), DataLoss::Refuse).await.unwrap();
    assert_eq!(done.from, 0);
    assert_eq!(
        migrate(&database.url(), DataLoss::Refuse)
            .await
            .unwrap()
            .from,
        done.to
    );
    open(&database.url(), careful).await.unwrap();
    let health = check(&database.url()).await.unwrap();
    assert!(health.is_good(), "{health:?}");
    assert!(health.engine.starts_with("PostgreSQL 1"), "{health:?}");
}

#[tokio::test]
async fn refuses_databases_without_durable_commits() {
    let database = Database::create().await;
    let client = database.client().await;
    client
        .batch_execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$",
        )
        .await
        .unwrap();
    let error = refusal(&database.url(), OpenOptions::default()).await;
    let OpenError::Unsafe { setting, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(setting, "synchronous_commit");
    assert!(error.to_string().contains("ALTER ROLE"), "{error}");
    let health = check(&database.url()).await.unwrap();
    assert!(!health.is_good());
    assert!(health.problems[0].contains("synchronous_commit = off"));
}

#[tokio::test]
async fn names_a_missing_server_without_password() {
    // Port 1 of this machine: nobody listens there.
    let url = "postgres://user:hunter2@127.0.0.1:1/nothing";
    let error = refusal(url, OpenOptions::default()).await;
    assert!(error.to_string().contains("connecting"), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
}
