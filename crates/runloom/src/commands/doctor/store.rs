//! Checks of the SQLite database and its folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use runloom_service::error::Chain;
use runloom_store::{Health, OpenError, SideFile};

use super::{Finding, Verdict, finding};

/// Less free space is a failure, and less than ten times this a warning.
const MIN_FREE_BYTES: u64 = 100 * 1024 * 1024;

/// Checks a SQLite database, the files beside it and their folder.
pub(super) async fn check_sqlite(database: &Path) -> Vec<Finding> {
    let folder = database
        .parent()
        .filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut findings = vec![check_folder(folder), check_space(folder)];
    findings.extend(check_database(database).await);
    findings
}

fn check_folder(folder: &Path) -> Finding {
    let shown = folder.display();
    match fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => finding(
            "data",
            Verdict::Ok,
            format!("{shown} does not exist yet; the first start creates it"),
        ),
        Err(error) => finding("data", Verdict::Failure, format!("{shown}: {error}")),
        Ok(found) if !found.is_dir() => {
            finding("data", Verdict::Failure, format!("{shown} is not a folder"))
        }
        Ok(_) => {
            let probe = folder.join(".runloom-doctor");
            let written = fs::write(&probe, b"probe").and_then(|()| fs::remove_file(&probe));
            match written {
                Ok(()) => finding("data", Verdict::Ok, format!("{shown} can be written")),
                Err(error) => finding(
                    "data",
                    Verdict::Failure,
                    format!("{shown} cannot be written: {error}"),
                ),
            }
        }
    }
}

#[cfg(unix)]
fn check_space(folder: &Path) -> Finding {
    let existing = folder
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("."));
    match rustix::fs::statvfs(existing) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let verdict = match free {
                free if free < MIN_FREE_BYTES => Verdict::Failure,
                free if free < 10 * MIN_FREE_BYTES => Verdict::Warning,
                _ => Verdict::Ok,
            };
            finding(
                "disk",
                verdict,
                format!("{} MiB free", free / (1024 * 1024)),
            )
        }
        Err(error) => finding(
            "disk",
            Verdict::Warning,
            format!("free space is not known: {error}"),
        ),
    }
}

#[cfg(not(unix))]
fn check_space(_folder: &Path) -> Finding {
    finding(
        "disk",
        Verdict::Warning,
        format!(
            "free space is not known on this system; at least {MIN_FREE_BYTES} bytes are needed"
        ),
    )
}

async fn check_database(path: &Path) -> Vec<Finding> {
    let shown = path.display();
    match runloom_store::check(&format!("sqlite:{shown}")).await {
        Ok(health) => {
            let mut findings = vec![judge(&shown.to_string(), &health)];
            findings.extend(side_files(&health.side_files));
            findings
        }
        Err(OpenError::Missing { .. }) => {
            let detail = format!("{shown} does not exist yet; the first start creates it");
            vec![finding("store", Verdict::Ok, detail)]
        }
        Err(error) => {
            let detail = format!("{shown}: {}", Chain(&error));
            vec![finding("store", Verdict::Failure, detail)]
        }
    }
}

/// Names the files that belong to the database and must not be deleted or copied alone.
fn side_files(files: &[SideFile]) -> Option<Finding> {
    if files.is_empty() {
        return None;
    }
    let files: Vec<_> = files
        .iter()
        .map(|file| {
            let name = file.path.file_name().unwrap_or_default();
            format!("{} ({} bytes)", name.to_string_lossy(), file.bytes)
        })
        .collect();
    let detail = format!("beside the database: {}", files.join(", "));
    Some(finding("store", Verdict::Ok, detail))
}

/// The finding about the database at `place`.
pub(super) fn judge(place: &str, health: &Health) -> Finding {
    let Health {
        engine,
        version,
        expected,
        problems,
        notes,
        ..
    } = health;
    let (verdict, detail) = if !problems.is_empty() {
        let problems = problems.join("; ");
        (
            Verdict::Failure,
            format!("{place} cannot be used as it is: {problems}"),
        )
    } else if health.is_good() {
        (
            Verdict::Ok,
            format!("{place} is whole, version {version}, {engine}"),
        )
    } else if *version == 0 {
        let detail = format!("{place} is empty; the first start creates its tables, {engine}");
        (Verdict::Ok, detail)
    } else {
        let detail = format!(
            "{place} has version {version}; the next start migrates it to {expected}, {engine}"
        );
        (Verdict::Warning, detail)
    };
    if notes.is_empty() {
        return finding("store", verdict, detail);
    }
    let verdict = match verdict {
        Verdict::Ok => Verdict::Warning,
        other => other,
    };
    finding("store", verdict, format!("{detail}; {}", notes.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn verdict(path: &Path) -> Verdict {
        check_database(path).await[0].verdict
    }

    #[tokio::test]
    async fn finds_a_file_that_is_not_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        assert_eq!(verdict(&path).await, Verdict::Ok);
        fs::write(&path, "something else entirely").unwrap();
        assert_eq!(verdict(&path).await, Verdict::Failure);
    }

    #[tokio::test]
    async fn finds_side_files_without_a_database() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.db-wal"), "x").unwrap();
        let path = folder.path().join("x.db");
        assert_eq!(verdict(&path).await, Verdict::Failure);
    }

    #[tokio::test]
    async fn names_the_files_beside_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let url = format!("sqlite:{}", path.display());
        let _store = runloom_store::open(&url, runloom_store::OpenOptions::default())
            .await
            .unwrap();
        let findings = check_database(&path).await;
        assert!(findings.iter().all(|found| found.verdict == Verdict::Ok));
        assert!(findings[1].detail.contains("x.db-wal ("), "{findings:?}");
    }

    #[test]
    fn finds_a_folder_that_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check_folder(folder.path()).verdict, Verdict::Ok);
        let file = folder.path().join("f");
        fs::write(&file, "").unwrap();
        assert_eq!(check_folder(&file).verdict, Verdict::Failure);
    }
}
