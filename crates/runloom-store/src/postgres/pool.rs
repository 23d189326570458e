//! The connections that everything but the log's batches uses: a bounded pool, reads, and transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Object, Runtime, Timeouts};
use runloom_ports::crash;
use runloom_ports::store::StoreResult;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage};

use super::connect::{Endpoint, SESSION};
use super::doubt::{self, Fate, IDENTIFY, PATIENCE, PAUSE, Xid};
use super::error::Failure;
use crate::OpenError;
use crate::sql::{self, Dialect, Statements, Value};

/// Longest wait for a free connection, and for a new one to be made.
const WAIT: Duration = Duration::from_secs(5);

/// Longest time for one piece of work; the server's own limits come first unless the way to it is broken.
const WORK: Duration = Duration::from_secs(30);

/// How often a piece of work that lost its connection or collided with another is done again.
const ATTEMPTS: u32 = 4;

/// A bounded set of connections; broken ones are replaced when they are asked for.
#[derive(Debug)]
pub(crate) struct Pool(deadpool_postgres::Pool);

impl Pool {
    /// At most `size` connections, made when they are first needed.
    pub(super) fn new(endpoint: &Endpoint, size: usize) -> Result<Self, OpenError> {
        let told = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
            Box::pin(async move {
                client
                    .batch_execute(SESSION)
                    .await
                    .map_err(HookError::Backend)
            })
        });
        deadpool_postgres::Pool::builder(endpoint.manager())
            .max_size(size.max(2))
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(WAIT),
                create: Some(WAIT),
                recycle: Some(WAIT),
            })
            .post_create(told)
            .build()
            .map(Self)
            .map_err(|source| OpenError::Database {
                doing: "setting up the pool of connections",
                source: Box::new(source),
            })
    }

    /// Runs `work` outside a transaction: it may only read, or write with one statement that does no harm when it is
    /// done twice. Done again when the connection breaks.
    pub(crate) async fn read<T, F, W>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(Arc<Session>) -> W,
        W: Future<Output = Result<T, Failure>>,
    {
        let mut attempt = 1;
        loop {
            match self.try_read(&work).await {
                Ok(value) => return Ok(value),
                Err(failure) if attempt < ATTEMPTS && worth_another(&failure) => {
                    attempt += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn try_read<T, F, W>(&self, work: &F) -> Result<T, Failure>
    where
        F: Fn(Arc<Session>) -> W,
        W: Future<Output = Result<T, Failure>>,
    {
        let session = Arc::new(Session {
            connection: Some(self.0.get().await?),
            settled: AtomicBool::new(true),
        });
        within(work(session)).await
    }

    /// Runs `work` in a transaction and answers when it is durable. It may run more than once; only what the last
    /// time wrote is kept. `kind` names it for crash tests. An `Err` changed nothing, except [`Failure::InDoubt`],
    /// which nobody knows.
    pub(crate) async fn transact<T, F, W>(&self, kind: &'static str, work: F) -> Result<T, Failure>
    where
        F: Fn(Arc<Session>) -> W,
        W: Future<Output = Result<T, Failure>>,
    {
        let mut attempt = 1;
        loop {
            match self.try_transact(kind, &work).await {
                Ok(value) => return Ok(value),
                Err(failure)
                    if attempt < ATTEMPTS
                        && (worth_another(&failure) || failure.is_duplicate()) =>
                {
                    attempt += 1;
                    if !failure.is_duplicate() {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn try_transact<T, F, W>(&self, kind: &'static str, work: &F) -> Result<T, Failure>
    where
        F: Fn(Arc<Session>) -> W,
        W: Future<Output = Result<T, Failure>>,
    {
        let session = Arc::new(Session {
            connection: Some(self.0.get().await?),
            settled: AtomicBool::new(false),
        });
        let xid = within(session.begin()).await?;
        let value = match within(work(Arc::clone(&session))).await {
            Ok(value) => value,
            Err(failure) => {
                if !failure.is_lost() {
                    session.end("ROLLBACK").await?;
                }
                return Err(failure);
            }
        };
        if crash::is_armed() {
            crash::point("before_commit");
            crash::point_of("before_commit", kind);
        }
        match within(session.end("COMMIT")).await {
            Ok(()) => {}
            Err(failure) if failure.is_lost() => {
                drop(session);
                match self.fate(&xid).await? {
                    Fate::Committed => {}
                    Fate::Aborted => return Err(failure),
                    Fate::Disputed => return Err(Failure::InDoubt),
                }
            }
            Err(failure) => return Err(failure),
        }
        if crash::is_armed() {
            crash::point("after_commit");
            crash::point_of("after_commit", kind);
        }
        Ok(value)
    }

    async fn fate(&self, xid: &Xid) -> Result<Fate, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let asked = async {
                let client = self.0.get().await?;
                doubt::fate(&client, xid, until).await
            };
            match asked.await {
                Ok(fate) => return Ok(fate),
                Err(_) if Instant::now() < until => tokio::time::sleep(PAUSE).await,
                Err(_) => return Err(Failure::InDoubt),
            }
        }
    }
}

fn worth_another(failure: &Failure) -> bool {
    match failure {
        // The server does not respond, and the caller has waited long enough.
        Failure::Pool(error) => matches!(error, deadpool_postgres::PoolError::Backend(_)),
        Failure::Late(_) => false,
        other => other.is_lost() || other.is_collision(),
    }
}

/// No work without an end, even when the way to the server swallows everything.
pub(super) async fn within<T, E: Into<Failure>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(WORK, work).await {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err(Failure::Late(WORK.as_secs())),
    }
}

/// A connection while somebody works with it. One that is dropped inside a transaction is closed and not used again.
pub(crate) struct Session {
    connection: Option<Object>,
    settled: AtomicBool,
}

impl Session {
    async fn begin(&self) -> Result<Xid, Failure> {
        let said = self
            .connection()?
            .simple_query(&format!("BEGIN; {IDENTIFY}"))
            .await?;
        let xid = said.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(Xid {
                number: row.get(0)?.to_owned(),
                begun: row.get(1)?.to_owned(),
            }),
            _ => None,
        });
        xid.ok_or(Failure::InDoubt)
    }

    async fn end(&self, how: &str) -> Result<(), Failure> {
        self.connection()?.batch_execute(how).await?;
        self.settled.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn connection(&self) -> Result<&Object, Failure> {
        self.connection.as_ref().ok_or(Failure::Late(0))
    }

    /// Runs a statement that is prepared once for each connection.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let connection = self.connection()?;
        let statement = connection.prepare_cached(sql).await?;
        Ok(connection.query(&statement, values).await?)
    }

    /// The first row of a statement, if there is one.
    pub(super) async fn first(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// How many rows a statement touched.
    pub(super) async fn execute(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Failure> {
        let connection = self.connection()?;
        let statement = connection.prepare_cached(sql).await?;
        Ok(connection.execute(&statement, values).await?)
    }

    /// A statement that is not worth preparing: its text depends on what is asked.
    pub(super) async fn query_once(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        Ok(self.connection()?.query(sql, values).await?)
    }
}

impl Statements for Session {
    type Error = Failure;

    const DIALECT: Dialect = Dialect::Postgres;

    async fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<sql::Row>, Failure> {
        let rows = Self::query(self, sql, &parameters(values)).await?;
        let Some(first) = rows.first() else {
            return Ok(Vec::new());
        };
        let columns: Arc<[String]> = first
            .columns()
            .iter()
            .map(|column| column.name().to_owned())
            .collect();
        let mut read = Vec::with_capacity(rows.len());
        for row in &rows {
            let values = (0..columns.len())
                .map(|place| row.try_get(place))
                .collect::<Result<_, _>>()?;
            read.push(sql::Row::new(Arc::clone(&columns), values));
        }
        Ok(read)
    }

    async fn execute(&self, sql: &str, values: &[Value]) -> Result<u64, Failure> {
        Self::execute(self, sql, &parameters(values)).await
    }
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !self.settled.load(Ordering::Relaxed)
        {
            // The server rolls back when the connection closes.
            drop(Object::take(connection));
        }
    }
}
