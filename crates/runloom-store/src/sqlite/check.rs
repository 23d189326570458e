//! The check of a database and its side files for `runloom doctor`. It changes nothing, and a server may be running.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::files::DatabaseFiles;
use super::integrity::{self, Depth, Integrity};
use super::lock::{DatabaseLock, LastStop, Usage};
use super::loss::Losses;
use super::redo::{self, Conversion};
use super::{failed, readers, refuse_old_library, schema, wal};
use crate::{DataLoss, Health, OpenError};

/// How long a database is examined at most.
const LIMIT: Duration = Duration::from_secs(60);

/// Checks the database and its side files.
pub(crate) fn check(path: &Path) -> Result<Health, OpenError> {
    refuse_old_library()?;
    let files = DatabaseFiles::at(path);
    files.refuse_orphans()?;
    if !files.database().exists() {
        return Err(OpenError::Missing {
            path: path.to_owned(),
        });
    }
    let side_files = files.side_files();
    let usage = DatabaseLock::inspect(&files)?;
    if usage == Usage::Unused(LastStop::Unclean) {
        wal::check(&files, &mut Losses::new(DataLoss::Refuse))?;
    }
    let mut connection = readers::connect(files.database())
        .map_err(|source| failed("opening the database", source))?;
    let version = schema::version(&connection)?;
    let mut health = Health {
        engine: format!("SQLite {}", rusqlite::version()),
        version,
        expected: schema::newest(),
        pending: schema::pending(version),
        problems: Vec::new(),
        notes: Vec::new(),
        side_files,
    };
    check_integrity(&mut connection, &mut health)?;
    // A running server has converted its redo file.
    if usage != Usage::InUse {
        check_redo(&connection, &files, &mut health)?;
    }
    Ok(health)
}

fn check_integrity(connection: &mut Connection, health: &mut Health) -> Result<(), OpenError> {
    let integrity = integrity::check(connection, Depth::Full, LIMIT)
        .map_err(|source| failed("checking the database for damage", source))?;
    match integrity {
        Integrity::Sound => {}
        Integrity::Damaged(problems) => health.problems.extend(problems),
        Integrity::Unfinished => health.notes.push(format!(
            "the integrity check was stopped after {} s and had found nothing",
            LIMIT.as_secs()
        )),
    }
    Ok(())
}

fn check_redo(
    connection: &Connection,
    files: &DatabaseFiles,
    health: &mut Health,
) -> Result<(), OpenError> {
    let path = files.redo();
    let path = path.display();
    match redo::examine(connection, files)? {
        Conversion::None | Conversion::Finish => {}
        Conversion::Missing => health
            .problems
            .push(format!("{path} is missing although the server was killed")),
        Conversion::Replay { records, damage } => {
            if !records.is_empty() {
                health.notes.push(format!(
                    "{path} has {} groups of writes, which the next start adds to the database",
                    records.len()
                ));
            }
            let problem = damage.map(|damage| format!("{path} {damage}"));
            health.problems.extend(problem);
        }
    }
    Ok(())
}
