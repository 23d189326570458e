//! Opening, migrating and checking a SQLite file.

use runloom_ports::store::{CommitError, Next};
use runloom_store::{DataLoss, Migrations, OpenError, OpenOptions, check, migrate, open};
use tempfile::TempDir;

use crate::fixture::{Fixture, batch};

fn place() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("deep/er/runs.db").display());
    (folder, url)
}

/// Pretends that another version of this program wrote the file.
fn set_version(url: &str, version: u32) {
    let connection = rusqlite::Connection::open(url.trim_start_matches("sqlite:")).unwrap();
    connection
        .pragma_update(None, "user_version", version)
        .unwrap();
}

async fn refusal(url: &str, options: OpenOptions) -> OpenError {
    match open(url, options).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn refuses_a_second_process() {
    let (_folder, url) = place();
    let first = open(&url, OpenOptions::default()).await.unwrap();
    let error = refusal(&url, OpenOptions::default()).await;
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("runs.db.lock"), "{error}");
    drop(first);
    open(&url, OpenOptions::default()).await.unwrap();
}

/// SQLite follows the link and puts its log beside the file; whatever else belongs to the database must be there, too.
#[cfg(unix)]
#[tokio::test]
async fn follows_symbolic_links() {
    let folder = tempfile::tempdir().unwrap();
    let (link, elsewhere) = (folder.path().join("runs.db"), folder.path().join("disk"));
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink("disk/real.db", &link).unwrap();
    let url = format!("sqlite:{}", link.display());
    let mut fixture = Fixture::at(url, folder).await;
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    let names: Vec<_> = std::fs::read_dir(&elsewhere)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in ["real.db", "real.db-wal", "real.db.lock"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    fixture.reopen().await;
    let stale = fixture.try_commit(lease, batch(3, 3, Next::Keep)).await;
    assert!(matches!(stale, Err(CommitError::Fenced)), "{stale:?}");
}

#[tokio::test]
async fn new_process_voids_old_leases() {
    let (folder, url) = place();
    let mut fixture = Fixture::at(url, folder).await;
    let lease = fixture.started("a").await;
    fixture.reopen().await;
    let stale = fixture.try_commit(lease, batch(2, 2, Next::Keep)).await;
    assert!(matches!(stale, Err(CommitError::Fenced)), "{stale:?}");
}

#[tokio::test]
async fn refuses_newer_databases() {
    let (_folder, url) = place();
    migrate(&url, DataLoss::Refuse).await.unwrap();
    set_version(&url, 4_711);
    let error = refusal(&url, OpenOptions::default()).await;
    assert!(
        matches!(error, OpenError::TooNew { found: 4_711, .. }),
        "{error}"
    );
    assert!(migrate(&url, DataLoss::Refuse).await.is_err());
    assert!(check(&url).await.is_err());
}

#[tokio::test]
async fn migrations_wait_for_permission() {
    let (_folder, url) = place();
    let careful = OpenOptions {
        migrations: Migrations::Refuse,
        ..OpenOptions::default()
    };
    let error = refusal(&url, careful).await;
    assert!(
        matches!(error, OpenError::MigrationsPending { found: 0, .. }),
        "{error}"
    );
    let done = migrate(&url, DataLoss::Refuse).await.unwrap();
    assert_eq!(done.from, 0);
    assert!(done.to > 0);
    assert_eq!(
        migrate(&url, DataLoss::Refuse).await.unwrap().from,
        done.to,
        "nothing to do"
    );
    open(&url, careful).await.unwrap();
}

#[tokio::test]
async fn check_accepts_a_healthy_database() {
    let (_folder, url) = place();
    let _store = open(&url, OpenOptions::default()).await.unwrap();
    let health = check(&url).await.unwrap();
    assert!(health.is_good(), "{health:?}");
    assert!(health.engine.starts_with("SQLite 3."));
    assert!(health.pending.is_empty());
}

#[tokio::test]
async fn check_reports_migrations_and_damage() {
    let (_folder, url) = place();
    let error = check(&url).await.unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    migrate(&url, DataLoss::Refuse).await.unwrap();
    set_version(&url, 0);
    let health = check(&url).await.unwrap();
    assert!(!health.is_good());
    assert_eq!(health.pending[0], "0001_init");
    damage(&url);
    let broken = check(&url).await;
    assert!(
        broken.as_ref().is_err() || broken.is_ok_and(|health| !health.problems.is_empty()),
        "damage goes unnoticed"
    );
}

/// Overwrites the second half of the file.
fn damage(url: &str) {
    let path = url.trim_start_matches("sqlite:");
    let mut bytes = std::fs::read(path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn explains_invalid_urls() {
    for (url, hint) in [
        ("postgres://localhost/runs?sslmode=maybe", "verify-full"),
        ("mysql://localhost/runs", "sqlite:"),
        ("runs.db", "sqlite:"),
        ("sqlite:", "sqlite:PATH"),
        ("sqlite::memory:", "sqlite:PATH"),
    ] {
        let error = refusal(url, OpenOptions::default()).await.to_string();
        assert!(error.contains(hint), "{url}: {error}");
    }
    let secret = refusal("mysql://user:hunter2@host/db", OpenOptions::default()).await;
    assert!(!format!("{secret} {secret:?}").contains("hunter2"));
}

#[cfg(unix)]
#[tokio::test]
async fn new_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, url) = place();
    let _open = open(&url, OpenOptions::default()).await.unwrap();
    let path = url.trim_start_matches("sqlite:");
    for beside in ["", "-wal", "-shm"] {
        let kept = std::fs::metadata(format!("{path}{beside}")).unwrap();
        let mode = kept.permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{path}{beside}: {mode:o}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn removes_access_of_others() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, url) = place();
    drop(open(&url, OpenOptions::default()).await.unwrap());
    let path = url.trim_start_matches("sqlite:");
    for (before, after) in [(0o644, 0o640), (0o666, 0o660), (0o600, 0o600)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(before)).unwrap();
        let _open = open(&url, OpenOptions::default()).await.unwrap();
        for beside in ["", "-wal", "-shm"] {
            let kept = std::fs::metadata(format!("{path}{beside}")).unwrap();
            let mode = kept.permissions().mode() & 0o777;
            assert_eq!(mode, after, "{path}{beside}: {mode:o}");
        }
    }
}
