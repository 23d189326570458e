//! PostgreSQL: any number of processes on one database.
//!
//! `writer` (with `commit`, `group`, `statements` and `doubt`) writes the log's batches, one transaction for whatever
//! waits; `pool` serves everything else, also [`crate::tables`]. `log`, `runs`, `sessions`, `retention`, `ledger` and
//! `approvals` implement one trait of the port each (`claim`, `create`, `mail` and `filter` are their larger parts);
//! `leases` says who is alive; `notify` tells other processes; `connect`, `settings` and `schema` stand at the door.
//!
//! Who writes to a run locks its row first: batches, claims, mail and ends of one run happen one after the other,
//! whichever process they come from. Rows are locked in one order everywhere: the session before its runs, runs by
//! their numbers. Reads go through no lock and, like everything here, run at `READ COMMITTED`.

mod approvals;
mod claim;
mod columns;
mod commit;
mod connect;
mod create;
mod doubt;
mod error;
mod filter;
mod group;
mod leases;
mod ledger;
mod log;
mod mail;
mod notify;
mod pool;
mod project;
mod retention;
mod runs;
mod schema;
mod sessions;
mod settings;
mod statements;
mod threads;
mod tree;
mod writer;

use runloom_ports::tasks::Tasks;
use tokio_postgres::Client;

pub use self::notify::{Notice, Notifications};

use self::connect::Endpoint;
pub(crate) use self::error::Failure;
use self::leases::Workers;
use self::pool::Pool;
pub(crate) use self::pool::Session;
use self::writer::Writer;
use crate::{Health, Migrated, Migrations, OpenError, OpenOptions};

/// A store in a PostgreSQL database.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    writer: Writer,
    pub(crate) pool: Pool,
    workers: Workers,
}

impl PostgresStore {
    /// Opens the database, making or migrating its tables when that is allowed.
    pub(crate) async fn open(url: &str, options: OpenOptions) -> Result<Self, OpenError> {
        let endpoint = Endpoint::of(url)?;
        let tasks = Tasks::default();
        let mut client = connect(&endpoint, &tasks).await?;
        refuse_unsafe(&client).await?;
        match options.migrations {
            Migrations::Apply => {
                schema::migrate(&mut client).await?;
            }
            Migrations::Refuse => {
                let found = schema::version(&client).await?;
                if found < schema::newest() {
                    return Err(OpenError::MigrationsPending {
                        found,
                        needed: schema::newest(),
                    });
                }
            }
        }
        Ok(Self {
            pool: Pool::new(&endpoint, options.connections)?,
            writer: Writer::start(endpoint, &tasks),
            workers: Workers::new(options.worker_silence_ms.unwrap_or(leases::SILENCE_MS)),
        })
    }

    /// Tells other processes that documents, keys or grants have changed.
    pub(crate) fn notify_registry(&self) {
        self.writer.notify(Notice::Registry);
    }
}

/// Brings the database up to date.
pub(crate) async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    let mut client = connect(&Endpoint::of(url)?, &Tasks::default()).await?;
    refuse_unsafe(&client).await?;
    let from = schema::migrate(&mut client).await?;
    Ok(Migrated {
        from,
        to: schema::newest().max(from),
        lost: Vec::new(),
    })
}

/// Looks at the URL alone.
pub(crate) fn check_url(url: &str) -> Result<(), OpenError> {
    Endpoint::of(url).map(drop)
}

/// Looks at the database without changing it.
pub(crate) async fn check(url: &str) -> Result<Health, OpenError> {
    let client = connect(&Endpoint::of(url)?, &Tasks::default()).await?;
    let settings = settings::read(&client).await.map_err(failed)?;
    let complaint = settings::complaint(&settings);
    let version = schema::version(&client).await?;
    let engine = client
        .query_one("SELECT current_setting('server_version')", &[])
        .await
        .and_then(|row| row.try_get::<_, String>(0))
        .map_err(|source| failed(source.into()))?;
    Ok(Health {
        engine: format!("PostgreSQL {engine}"),
        version,
        expected: schema::newest(),
        pending: schema::pending(version),
        problems: complaint.iter().map(ToString::to_string).collect(),
        notes: Vec::new(),
        side_files: Vec::new(),
    })
}

async fn connect(endpoint: &Endpoint, tasks: &Tasks) -> Result<Client, OpenError> {
    endpoint
        .connect(tasks, None)
        .await
        .map_err(|failure| OpenError::Database {
            doing: "connecting to the database",
            source: Box::new(failure),
        })
}

async fn refuse_unsafe(client: &Client) -> Result<(), OpenError> {
    let settings = settings::read(client).await.map_err(failed)?;
    match settings::complaint(&settings) {
        None => Ok(()),
        Some(complaint) => Err(OpenError::Unsafe {
            setting: complaint.setting,
            value: complaint.value,
            remedy: complaint.remedy,
        }),
    }
}

fn failed(failure: Failure) -> OpenError {
    OpenError::Database {
        doing: "looking at the database's settings",
        source: Box::new(failure),
    }
}

/// A number of the port as PostgreSQL keeps it. None comes near the end of `i64`.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of PostgreSQL as the port has it.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
