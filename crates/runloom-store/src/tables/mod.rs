//! Tables whose SQL is written once for both databases: everything but the log, the runs and the sessions, whose
//! statements are tuned for each database.
//!
//! One file per trait of the port. Its functions are generic over [`crate::sql::Statements`]; `on_both!` implements
//! the trait for both stores, and `work!` instantiates a function for each of them. On SQLite the futures never wait:
//! statements run on the calling thread.

mod feedback;
mod memories;
mod memory_words;
mod oauth;
mod registry;
mod sealed_texts;
mod tenancy;
mod users;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use runloom_ports::store::StoreResult;

use crate::postgres::{Failure, PostgresStore, Session};
use crate::sql::Malformed;
use crate::sqlite::{SqliteStatements, SqliteStore};

/// A function on tables, instantiated for each database.
pub(crate) struct Work<A, T> {
    sqlite: fn(&SqliteStatements<'_>, &A) -> rusqlite::Result<T>,
    postgres: for<'a> fn(&'a Session, &'a A) -> PostgresFuture<'a, T>,
}

type PostgresFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

impl<A, T> Clone for Work<A, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, T> Copy for Work<A, T> {}

/// Instantiates `async fn work<S: Statements>(statements: &S, input: &A) -> Result<T, S::Error>` for both databases.
macro_rules! work {
    ($work:path) => {
        $crate::tables::Work {
            sqlite: |statements, input| $crate::tables::complete($work(statements, input)),
            postgres: |statements, input| Box::pin($work(statements, input)),
        }
    };
}

/// Implements a trait of the port for both stores with the same body.
macro_rules! on_both {
    (impl $port:ident { $($body:tt)* }) => {
        #[async_trait::async_trait]
        impl $port for $crate::sqlite::SqliteStore { $($body)* }

        #[async_trait::async_trait]
        impl $port for $crate::postgres::PostgresStore { $($body)* }
    };
}

use {on_both, work};

/// The result of a future that never waits.
fn complete<T, E: From<Malformed>>(future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(Malformed::new("a statement", "it did not complete").into()),
    }
}

impl SqliteStore {
    /// Runs `work` on a connection that only reads.
    async fn read_tables<A, T>(&self, input: A, work: Work<A, T>) -> StoreResult<T>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        self.read(move |connection| (work.sqlite)(&SqliteStatements(connection), &input))
            .await
    }

    /// Runs `work` in a transaction. `kind` names it for crash tests.
    async fn write_tables<A, T>(
        &self,
        kind: &'static str,
        input: A,
        work: Work<A, T>,
    ) -> StoreResult<T>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        self.writer
            .run(kind, move |tx| {
                (work.sqlite)(&SqliteStatements(tx.connection), &input)
            })
            .await
    }

    /// Runs `work` in a transaction that changes what processes cache. There is no other process.
    async fn write_cached<A, T>(
        &self,
        kind: &'static str,
        input: A,
        work: Work<A, T>,
    ) -> StoreResult<T>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        self.write_tables(kind, input, work).await
    }
}

impl PostgresStore {
    /// Runs `work` outside a transaction; it only reads.
    async fn read_tables<A: Sync, T>(&self, input: A, work: Work<A, T>) -> StoreResult<T> {
        let input = &input;
        self.pool
            .read(|session| async move { (work.postgres)(&session, input).await })
            .await
    }

    /// Runs `work` in a transaction. `kind` names it for crash tests.
    async fn write_tables<A: Sync, T>(
        &self,
        kind: &'static str,
        input: A,
        work: Work<A, T>,
    ) -> StoreResult<T> {
        let input = &input;
        let outcome = self
            .pool
            .transact(kind, |session| async move {
                (work.postgres)(&session, input).await
            })
            .await?;
        Ok(outcome)
    }

    /// Runs `work` in a transaction that changes what processes cache, and notifies them.
    async fn write_cached<A: Sync, T>(
        &self,
        kind: &'static str,
        input: A,
        work: Work<A, T>,
    ) -> StoreResult<T> {
        let outcome = self.write_tables(kind, input, work).await?;
        self.notify_registry();
        Ok(outcome)
    }
}
