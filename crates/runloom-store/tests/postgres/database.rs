//! A database for one test.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls};

use crate::fixture::{Fixture, Place};

const VARIABLE: &str = "RUNLOOM_TEST_POSTGRES";
const USUAL: &str = "postgres://postgres@127.0.0.1:5432/postgres";

/// A database that is dropped with this value.
pub(crate) struct Database {
    name: String,
    server: String,
}

impl Database {
    pub(crate) async fn create() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = std::env::var(VARIABLE).unwrap_or_else(|_| USUAL.to_owned());
        let name = format!(
            "runloom_test_{}_{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let client = connect(&server).await;
        // A killed test of a process with the same id may have left its own behind.
        for sql in [
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"),
        ] {
            client.batch_execute(&sql).await.unwrap();
        }
        Self { name, server }
    }

    pub(crate) fn url(&self) -> String {
        let (address, rest) = match self.server.split_once('?') {
            Some((address, rest)) => (address, format!("?{rest}")),
            None => (self.server.as_str(), String::new()),
        };
        let authority = address.rfind('/').unwrap();
        format!("{}/{}{rest}", &address[..authority], self.name)
    }

    /// A connection beside the store.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// Ends every connection to the database but those of `but`; returns how many.
    pub(crate) async fn cut(&self, but: &Client) -> usize {
        let cut = but
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
                &[],
            )
            .await
            .unwrap();
        cut.len()
    }
}

pub(crate) async fn fixture() -> Fixture {
    let database = Database::create().await;
    Fixture::at(database.url(), database).await
}

pub(crate) async fn connect(url: &str) -> Client {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.unwrap_or_else(|error| {
        panic!("no PostgreSQL for the tests ({error}): start one, or name it in {VARIABLE}")
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection of a test ends with its client"
    )]
    tokio::spawn(connection);
    client
}

#[async_trait]
impl Place for Database {
    async fn silence_workers(&self) {
        let aged = "UPDATE workers SET heartbeat_at = heartbeat_at - INTERVAL '1 hour'";
        self.client().await.batch_execute(aged).await.unwrap();
    }

    async fn rows(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.client()
            .await
            .query_one(&sql, &[])
            .await
            .unwrap()
            .get(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let sql = format!("DROP DATABASE {name} WITH (FORCE)");
                connect(&server).await.batch_execute(&sql).await.unwrap();
            });
        });
        assert!(dropping.join().is_ok() || std::thread::panicking());
    }
}
