//! A few read-only connections, used off the async threads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use runloom_ports::store::StoreResult;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::error::{broken, reading};

/// A pool of connections. Each read sees everything that was committed before it began.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    /// At most `count` reads at a time; connections are opened when they are first needed.
    pub(super) fn new(path: PathBuf, count: usize) -> Self {
        Self {
            path,
            idle: Arc::default(),
            turns: Arc::new(Semaphore::new(count.max(1))),
        }
    }

    /// Runs `work` with one of the connections.
    pub(super) async fn read<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(|_| broken("the store is closed"))?;
        let idle = Arc::clone(&self.idle);
        let path = self.path.clone();
        let reading_off_thread = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let waiting = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match waiting {
                Some(connection) => connection,
                None => connect(&path).map_err(reading)?,
            };
            let outcome = work(&connection).map_err(reading);
            // A connection that met a panic is dropped with it and never comes back here.
            idle.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
            outcome
        });
        match reading_off_thread.await {
            Ok(outcome) => outcome,
            Err(error) => Err(broken(format!("a read did not finish: {error}"))),
        }
    }
}

/// Opens a connection that cannot write.
pub(super) fn connect(path: &std::path::Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    super::steady_plans(&connection)?;
    // Waits only while the write-ahead log is being recovered or reset.
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -8192;")?;
    Ok(connection)
}
