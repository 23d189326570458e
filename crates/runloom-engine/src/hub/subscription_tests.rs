//! Streams while the store cannot be read. The clock is the test's: it goes on whenever everybody waits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use runloom_protocol::id::RunId;
use tokio::time::Instant;

use super::{EventStream, MAX_OUTAGE, subscribe};
use crate::hub::{Hub, LiveRun};
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{
    Batch, Chunk, ClaimOutcome, Claimable, CommitError, Committed, Lease, Mail, MailNo, Millis,
    RunLog, RunNo, StoreError, StoreErrorKind, StoreResult, WorkspaceNo,
};

const RUN: RunNo = RunNo(7);

/// A store that holds the whole log of a run, and fails for so long.
struct Away {
    kind: StoreErrorKind,
    back: Instant,
}

impl Away {
    fn since_now(kind: StoreErrorKind, time: Duration) -> Arc<Self> {
        let back = Instant::now() + time;
        Arc::new(Self { kind, back })
    }
}

#[async_trait]
impl RunLog for Away {
    async fn read_log(&self, _: RunNo, seq: u64, _: usize) -> StoreResult<Vec<Chunk>> {
        if Instant::now() < self.back {
            return Err(StoreError {
                kind: self.kind,
                message: "the database is away".to_owned(),
                source: None,
            });
        }
        Ok(vec![chunk(1, false), chunk(2, true)].split_off(usize::try_from(seq).unwrap()))
    }

    async fn claim(&self, _: RunNo, _: &str, _: Millis, _: u32) -> StoreResult<ClaimOutcome> {
        unreachable!("no worker")
    }

    async fn commit(&self, _: Lease, _: Batch) -> Result<Committed, CommitError> {
        unreachable!("no worker")
    }

    async fn mail(&self, _: RunNo, _: MailNo) -> StoreResult<Vec<Mail>> {
        unreachable!("no worker")
    }

    async fn claimable(&self, _: Millis, _: u32, _: usize) -> StoreResult<Vec<Claimable>> {
        unreachable!("no worker")
    }

    async fn next_timer(&self) -> StoreResult<Option<Millis>> {
        unreachable!("no worker")
    }

    async fn unheard(&self, _: &str) -> StoreResult<Vec<RunNo>> {
        unreachable!("no worker")
    }

    async fn heartbeat(&self, _: &str, _: Millis) -> StoreResult<()> {
        unreachable!("no worker")
    }
}

fn chunk(seq: u64, terminal: bool) -> Chunk {
    Chunk {
        first_seq: seq,
        last_seq: seq,
        terminal,
        frames: Bytes::from(format!("id: {seq}\n\n")),
    }
}

/// A stream of a run of which this process has seen nothing.
fn watch(store: Arc<Away>) -> (EventStream, Shutdown, Arc<LiveRun>) {
    let hub = Arc::new(Hub::default());
    let live = hub.open(&RunId::from_suffix("7"), RUN, WorkspaceNo(1));
    let shutdown = Shutdown::default();
    let stream = subscribe(&hub, Arc::clone(&live), store, 0, &shutdown);
    (stream, shutdown, live)
}

#[tokio::test(start_paused = true)]
async fn stream_survives_an_outage_of_the_store() {
    let minutes = Duration::from_secs(5 * 60);
    let (stream, _shutdown, _live) = watch(Away::since_now(StoreErrorKind::Unavailable, minutes));
    let frames: Vec<Bytes> = stream.collect().await;
    assert_eq!(frames.concat(), b"id: 1\n\nid: 2\n\n");
}

#[tokio::test(start_paused = true)]
async fn ring_is_served_during_an_outage() {
    let (mut stream, _shutdown, live) =
        watch(Away::since_now(StoreErrorKind::Unavailable, MAX_OUTAGE));
    assert!(stream.next().now_or_never().is_none());
    live.publish(chunk(1, false));
    live.publish(chunk(2, true));
    let began = Instant::now();
    let frames: Vec<Bytes> = stream.collect().await;
    assert_eq!(frames.concat(), b"id: 1\n\nid: 2\n\n");
    assert!(began.elapsed() < MAX_OUTAGE);
}

#[tokio::test(start_paused = true)]
async fn stream_ends_after_a_long_outage() {
    let forever = Duration::from_secs(1_000_000);
    let (mut stream, _shutdown, _live) =
        watch(Away::since_now(StoreErrorKind::Unavailable, forever));
    let began = Instant::now();
    assert_eq!(stream.next().await, None);
    assert!(began.elapsed() >= MAX_OUTAGE);
}

#[tokio::test(start_paused = true)]
async fn stream_ends_when_the_store_is_broken() {
    let forever = Duration::from_secs(1_000_000);
    let (mut stream, _shutdown, _live) = watch(Away::since_now(StoreErrorKind::Broken, forever));
    assert_eq!(stream.next().now_or_never(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn waiting_stream_ends_with_the_shutdown() {
    let forever = Duration::from_secs(1_000_000);
    let (mut stream, shutdown, _live) =
        watch(Away::since_now(StoreErrorKind::Unavailable, forever));
    assert!(stream.next().now_or_never().is_none());
    shutdown.end_streams();
    assert_eq!(stream.next().now_or_never(), Some(None));
}
