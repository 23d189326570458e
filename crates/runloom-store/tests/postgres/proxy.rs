//! A way to the server that swallows the answer to COMMIT, so that the server has written and nobody hears of it, or
//! loses the COMMIT itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runloom_ports::store::{
    ClaimOutcome, CommitError, Created, Next, StoreErrorKind, ToolDelivery,
};
use runloom_protocol::resource::RunStatus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::database::Database;
use crate::fixture::{Fixture, NOW, Place, batch, ending, finishing, start};

/// What the way does with those who use it.
#[derive(Default)]
pub(crate) struct Way {
    /// The next COMMIT is not passed on, the connection ends, and nobody is let in any more.
    lose: AtomicBool,
    /// One was lost.
    pub(crate) lost: tokio::sync::Notify,
    /// The next COMMIT is passed on, its answer is not, and the connection ends.
    swallow: AtomicBool,
    /// Nobody is let in after that.
    shut_then: AtomicBool,
    shut: AtomicBool,
}

impl Way {
    pub(crate) fn lose_next_commit(&self) {
        self.lose.store(true, Ordering::SeqCst);
    }

    fn swallow_next_commit(&self) {
        self.swallow.store(true, Ordering::SeqCst);
    }

    pub(crate) fn open(&self) {
        self.shut_then.store(false, Ordering::SeqCst);
        self.shut.store(false, Ordering::SeqCst);
    }

    async fn serve(self: Arc<Self>, listener: TcpListener, server: String) {
        let mut ways = tokio::task::JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            if !self.shut.load(Ordering::SeqCst) {
                let server = TcpStream::connect(&server).await.unwrap();
                ways.spawn(Arc::clone(&self).pass(client, server));
            }
        }
    }

    async fn pass(self: Arc<Self>, mut client: TcpStream, mut server: TcpStream) {
        let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                read = client.read(&mut up) => {
                    let Ok(length @ 1..) = read else { return };
                    let is_commit = contains(&up[..length], b"COMMIT\0");
                    if is_commit && self.lose.swap(false, Ordering::SeqCst) {
                        self.shut.store(true, Ordering::SeqCst);
                        self.lost.notify_one();
                        return;
                    }
                    let swallow = is_commit && self.swallow.swap(false, Ordering::SeqCst);
                    if server.write_all(&up[..length]).await.is_err() {
                        return;
                    }
                    if swallow {
                        self.shut.store(self.shut_then.load(Ordering::SeqCst), Ordering::SeqCst);
                        hear_commit(&mut server).await;
                        return;
                    }
                }
                read = server.read(&mut down) => {
                    let Ok(length @ 1..) = read else { return };
                    if client.write_all(&down[..length]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until the server says that it has committed.
async fn hear_commit(server: &mut TcpStream) {
    let mut heard = Vec::new();
    while !contains(&heard, b"COMMIT\0") {
        let read = server.read_buf(&mut heard).await;
        assert!(
            read.is_ok_and(|length| length > 0),
            "the server did not commit"
        );
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// A store at the end of such a way.
async fn far() -> (Fixture, Arc<Way>) {
    let database = Database::create().await;
    let url = database.url();
    at_the_end_of_a_way(&url, database).await
}

/// A store whose connections go over such a way.
pub(crate) async fn at_the_end_of_a_way(
    url: &str,
    place: impl Place + 'static,
) -> (Fixture, Arc<Way>) {
    let (_, after_scheme) = url.split_once("://").unwrap();
    let (authority, name) = after_scheme.split_once('/').unwrap();
    let (user, server) = authority.rsplit_once('@').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let way = Arc::new(Way::default());
    #[expect(
        clippy::disallowed_methods,
        reason = "the way ends with the test's runtime"
    )]
    tokio::spawn(Arc::clone(&way).serve(listener, server.to_owned()));
    let near = format!("postgres://{user}@127.0.0.1:{port}/{name}");
    (Fixture::at(near, place).await, way)
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_commit_is_written_once() {
    let (fixture, way) = far().await;
    let lease = fixture.started("a").await;
    for seq in 2..6 {
        way.swallow_next_commit();
        fixture.commit(lease, batch(seq, seq, Next::Keep)).await;
        assert!(
            !way.swallow.load(Ordering::SeqCst),
            "no COMMIT was swallowed"
        );
    }
    way.swallow_next_commit();
    fixture.finish(lease, 6, RunStatus::Succeeded).await;
    let expected: Vec<(u64, u64)> = (1..=6).map(|seq| (seq, seq)).collect();
    assert_eq!(fixture.seqs(lease.run).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_end_names_the_next_run() {
    let (fixture, way) = far().await;
    fixture.session("s").await;
    let first = fixture.message("s", "a").await;
    let second = fixture.message("s", "b").await;
    let lease = fixture.claim(first).await.lease;
    way.swallow_next_commit();
    let done = fixture
        .commit(lease, finishing(1, ending(RunStatus::Succeeded)))
        .await;
    assert_eq!(done.next_in_session, Some(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_in_doubt_is_not_repeated() {
    let (fixture, way) = far().await;
    let lease = fixture.started("a").await;
    way.shut_then.store(true, Ordering::SeqCst);
    way.swallow_next_commit();
    let refused = fixture.try_commit(lease, batch(2, 2, Next::Keep)).await;
    let Err(CommitError::Store(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    way.open();
    // As the driver does: the same batch again.
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    fixture.commit(lease, batch(3, 3, Next::Keep)).await;
    assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 2), (3, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_in_doubt_finds_a_worker() {
    let (fixture, way) = far().await;
    way.shut_then.store(true, Ordering::SeqCst);
    way.swallow_next_commit();
    let (mut run, start) = (fixture.new_run("a"), start());
    let worker = start.worker.clone();
    run.start = Some(start);
    let refused = fixture.store().create_run(run).await;
    assert_eq!(refused.unwrap_err().kind, StoreErrorKind::Unavailable);
    way.open();
    // The lease is given back although the worker lives, so that it, or another, takes the run up.
    let found = async {
        loop {
            let _ = fixture.store().heartbeat(&worker, NOW).await;
            let claimable = fixture.store().claimable(NOW, u32::MAX, 10).await;
            if claimable.is_ok_and(|found| !found.is_empty()) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(std::time::Duration::from_secs(60), found).await;
    assert!(found.is_ok(), "nobody may claim the run");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_true_outcomes_of_unanswered_commits() {
    let (fixture, way) = far().await;
    way.swallow_next_commit();
    let created = fixture.store().create_run(fixture.new_run("a")).await;
    let Created::New { run, .. } = created.unwrap() else {
        panic!("the run is new");
    };
    way.swallow_next_commit();
    let claimed = fixture
        .store()
        .claim(run, "w", NOW, u32::MAX)
        .await
        .unwrap();
    let ClaimOutcome::Claimed(claim) = claimed else {
        panic!("the run is to be had");
    };
    assert_eq!(claim.lease.epoch, 1, "claimed once");
    fixture.park_with_call(claim.lease, 1, "call").await;
    way.swallow_next_commit();
    let answered = fixture.answer("a", "call").await;
    assert!(
        matches!(answered, ToolDelivery::Accepted(_)),
        "{answered:?}"
    );
    assert!(
        !way.swallow.load(Ordering::SeqCst),
        "no COMMIT was swallowed"
    );
    assert_eq!(fixture.claim(run).await.mail.len(), 1);
}
