//! The writer alone: groups, poisoned jobs, panics, the end.

use std::path::Path;
use std::sync::{Arc, mpsc};

use runloom_ports::store::{Lease, RunNo, StoreErrorKind, StoreResult};
use rusqlite::{Connection, params};
use tokio::task::JoinSet;

use super::{Tx, Writer};
use crate::DataLoss;
use crate::sqlite::database::Database;
use crate::sqlite::files::DatabaseFiles;
use crate::sqlite::leases::Workers;

fn writer(path: &Path) -> Arc<Writer> {
    let (database, _) = Database::open(&DatabaseFiles::at(path), DataLoss::Refuse).unwrap();
    database
        .connection()
        .execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        .unwrap();
    Arc::new(Writer::start(database, Arc::new(Workers::new(1))).unwrap())
}

fn insert(tx: &Tx<'_>, n: i64) -> rusqlite::Result<i64> {
    tx.execute("INSERT INTO t (n) VALUES (?1)", params![n])?;
    Ok(n)
}

fn stored(path: &Path) -> Vec<i64> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT n FROM t ORDER BY n").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Holds the writer inside a transaction of its own until the returned end is dropped, so that what is sent meanwhile
/// makes one group.
async fn hold(writer: &Arc<Writer>, jobs: &mut JoinSet<StoreResult<i64>>) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let writer = Arc::clone(writer);
    jobs.spawn(async move {
        writer
            .run("hold", move |_| {
                if let Some(entered) = entered.take() {
                    entered.send(()).unwrap();
                }
                let _ = released.recv();
                Ok(0)
            })
            .await
    });
    inside.await.unwrap();
    release
}

/// Sends jobs that all wait when the writer is let go; answers in the order of sending.
async fn in_one_group<F>(writer: &Arc<Writer>, works: Vec<F>) -> Vec<StoreResult<i64>>
where
    F: FnMut(&mut Tx<'_>) -> rusqlite::Result<i64> + Send + 'static,
{
    let mut holding = JoinSet::new();
    let release = hold(writer, &mut holding).await;
    let mut sending: Vec<_> = works
        .into_iter()
        .map(|work| Box::pin(writer.run("job", work)))
        .collect();
    for job in &mut sending {
        // The first poll sends; the answer cannot be there yet.
        let pending =
            std::future::poll_fn(|cx| std::task::Poll::Ready(job.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
    }
    drop(release);
    let mut answers = Vec::new();
    for job in sending {
        answers.push(job.await);
    }
    holding.join_next().await.unwrap().unwrap().unwrap();
    answers
}

#[tokio::test]
async fn failing_job_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let writer = writer(&path);
    let works: Vec<_> = [1, 2, 2, 3]
        .into_iter()
        .map(|n| move |tx: &mut Tx<'_>| insert(tx, n))
        .collect();
    let answers = in_one_group(&writer, works).await;
    let kept: Vec<Option<i64>> = answers
        .iter()
        .map(|answer| answer.as_ref().ok().copied())
        .collect();
    assert_eq!(kept, [Some(1), Some(2), None, Some(3)]);
    let error = answers[2].as_ref().unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Broken);
    assert_eq!(stored(&path), [1, 2, 3]);
}

#[tokio::test]
async fn panic_fails_one_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let writer = writer(&path);
    let works: Vec<_> = [1, 2, 3]
        .into_iter()
        .map(|n| {
            move |tx: &mut Tx<'_>| {
                let written = insert(tx, n);
                assert!(n != 2, "poison");
                written
            }
        })
        .collect();
    let answers = in_one_group(&writer, works).await;
    assert!(answers[0].is_ok() && answers[1].is_err() && answers[2].is_ok());
    assert_eq!(stored(&path), [1, 3], "nothing of the panicked job is kept");
    writer.run("job", |tx| insert(tx, 4)).await.unwrap();
    assert_eq!(stored(&path), [1, 3, 4]);
}

#[tokio::test]
async fn waiting_jobs_share_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let writer = writer(&path);
    let works: Vec<_> = (1..=100)
        .map(|n| {
            let path = path.clone();
            move |tx: &mut Tx<'_>| {
                insert(tx, n)?;
                // Others see nothing of the group before its end.
                Ok(i64::try_from(stored(&path).len()).unwrap())
            }
        })
        .collect();
    let answers = in_one_group(&writer, works).await;
    let during: Vec<i64> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(during, [0; 100]);
    assert_eq!(stored(&path), (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn rollback_resets_cached_state() {
    let folder = tempfile::tempdir().unwrap();
    let writer = writer(&folder.path().join("t.db"));
    let run = RunNo(1);
    let refused = writer
        .run("job", move |tx| {
            tx.held.set(Lease { run, epoch: 9 }, false, 0);
            insert(tx, 1)?;
            insert(tx, 1)
        })
        .await;
    assert!(refused.is_err());
    let remembered = writer
        .run("job", move |tx| Ok(tx.held.get(run).is_some()))
        .await;
    assert!(!remembered.unwrap());
}

#[tokio::test]
async fn drop_finishes_waiting_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let writer = writer(&path);
    let mut holding = JoinSet::new();
    let release = hold(&writer, &mut holding).await;
    for n in 1..=3 {
        let mut job = Box::pin(writer.run("job", move |tx| insert(tx, n)));
        let pending =
            std::future::poll_fn(|cx| std::task::Poll::Ready(job.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
    }
    drop(release);
    holding.join_next().await.unwrap().unwrap().unwrap();
    drop(writer);
    assert_eq!(stored(&path), [1, 2, 3]);
}

#[tokio::test]
async fn full_disk_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let writer = writer(&path);
    writer.run("job", |tx| insert(tx, 1)).await.unwrap();
    let refused = writer
        .run("job", |tx| {
            insert(tx, 2)?;
            tx.connection
                .query_row("PRAGMA max_page_count = 1", [], |_| Ok(()))?;
            tx.connection
                .execute_batch("CREATE TABLE big AS SELECT zeroblob(1000000) AS bytes")
        })
        .await;
    assert_eq!(refused.unwrap_err().kind, StoreErrorKind::Unavailable);
    assert_eq!(stored(&path), [1]);
}
