//! The stream of one subscriber: replay, then the live tail, gapless and in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use memchr::memmem;
use runloom_protocol::backoff::{Backoff, Delays};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tracing::{debug, warn};

use super::{Hub, LiveRun, Recent};
use crate::metrics::METRICS;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{Chunk, RunLog, StoreError, StoreErrorKind};

/// Maximum bytes of one read of the store.
const PAGE_BYTES: usize = 256 * 1024;

/// Pauses between attempts to read from a store that is unavailable.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Time for which a stream stays open while the store is unavailable. Runs survive an outage, and a client that was
/// disconnected would be refused and give up.
const MAX_OUTAGE: Duration = Duration::from_secs(15 * 60);

/// SSE frames, whole, as they are stored. Ends after the terminal event, or early when the server stops or its store is
/// broken or unavailable for too long; clients then resume elsewhere.
pub type EventStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Streams a run's events after `after`.
#[must_use]
pub fn subscribe(
    hub: &Arc<Hub>,
    live: Arc<LiveRun>,
    store: Arc<dyn RunLog>,
    after: u64,
    shutdown: &Shutdown,
) -> EventStream {
    hub.subscribers.fetch_add(1, Ordering::Relaxed);
    METRICS.subscribers.add(1);
    let head = live.head.subscribe();
    let subscription = Subscription {
        head,
        live,
        store,
        cursor: after,
        backlog: VecDeque::new(),
        over: false,
        kept_up: false,
        look: false,
        outage: None,
        poll: hub.poll,
        streams_ended: Box::pin(shutdown.streams_ended()),
        _count: Count(Arc::clone(hub)),
    };
    Box::pin(stream::unfold(
        subscription,
        |mut subscription| async move {
            let frames = subscription.next().await?;
            Some((frames, subscription))
        },
    ))
}

struct Subscription {
    live: Arc<LiveRun>,
    head: watch::Receiver<u64>,
    store: Arc<dyn RunLog>,
    cursor: u64,
    backlog: VecDeque<Chunk>,
    over: bool,
    /// The last chunk came from the ring, and the head was not compared since.
    kept_up: bool,
    /// Read the store without an announcement.
    look: bool,
    /// The store cannot be read.
    outage: Option<Outage>,
    poll: Option<Duration>,
    streams_ended: Pin<Box<WaitForCancellationFutureOwned>>,
    _count: Count,
}

/// Outcome of a read of the store.
enum StoreRead {
    Found,
    Empty,
    Failed,
}

struct Outage {
    since: Instant,
    delays: Delays,
}

struct Count(Arc<Hub>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.subscribers.fetch_sub(1, Ordering::Relaxed);
        METRICS.subscribers.add(-1);
    }
}

impl Subscription {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.over {
            if let Some(chunk) = self.backlog.pop_front() {
                if let Some(frames) = self.take(chunk) {
                    return Some(frames);
                }
                continue;
            }
            // The head is read before the store, so that a later commit is noticed by the head.
            let head = *self.head.borrow_and_update();
            if std::mem::take(&mut self.kept_up) && head == self.cursor {
                // The usual case: the subscriber is up to date.
                self.wait().await;
                continue;
            }
            let (recent, ended) = if std::mem::take(&mut self.look) {
                (Recent::Unknown, self.live.has_ended())
            } else {
                self.live.recent(self.cursor)
            };
            match recent {
                Recent::Chunk(chunk) => {
                    self.kept_up = true;
                    if let Some(frames) = self.take(chunk) {
                        return Some(frames);
                    }
                }
                Recent::Nothing if ended => self.over = true,
                Recent::Nothing => self.wait().await,
                // `ended` was read before the store, so an empty page is the end and not the moment before the last
                // event.
                Recent::Unknown => match self.read_store().await {
                    StoreRead::Empty if ended => self.over = true,
                    StoreRead::Empty => self.wait().await,
                    StoreRead::Found | StoreRead::Failed => {}
                },
            }
        }
        None
    }

    /// The part of a chunk that is new to this subscriber.
    fn take(&mut self, chunk: Chunk) -> Option<Bytes> {
        if chunk.last_seq <= self.cursor {
            return None;
        }
        let known = self
            .cursor
            .saturating_sub(chunk.first_seq.saturating_sub(1));
        self.cursor = chunk.last_seq;
        self.outage = None;
        self.over = chunk.terminal;
        if chunk.terminal {
            // Another process may have written it without an announcement.
            self.live.set_ended();
        }
        Some(skip_frames(chunk.frames, known))
    }

    /// Reads the next page of the log. After a failure it waits before it returns.
    async fn read_store(&mut self) -> StoreRead {
        let read = self
            .store
            .read_log(self.live.no, self.cursor, PAGE_BYTES)
            .await;
        let chunks = match read {
            Ok(chunks) => chunks,
            Err(error) => {
                self.pause_after(&error).await;
                return StoreRead::Failed;
            }
        };
        self.outage = None;
        if chunks.is_empty() {
            return StoreRead::Empty;
        }
        self.backlog = chunks.into();
        StoreRead::Found
    }

    /// Waits before the store is read again, or ends the stream when it is broken or unavailable for too long.
    async fn pause_after(&mut self, error: &StoreError) {
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: Instant::now(),
            delays: RETRY.delays(),
        });
        let hopeless = error.kind == StoreErrorKind::Broken;
        if hopeless || outage.since.elapsed() >= MAX_OUTAGE {
            warn!(%error, "stream ended early: log cannot be read");
            self.over = true;
            return;
        }
        debug!(%error, "stream waits: log cannot be read");
        let pause = outage.delays.next_delay();
        // The head is not awaited: another process may still write and move it continuously.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut self.streams_ended => self.over = true,
        }
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.head.changed() => {}
            () = &mut self.streams_ended => self.over = true,
            () = poll(self.poll) => self.look = true,
        }
    }
}

async fn poll(every: Option<Duration>) {
    match every {
        Some(every) => tokio::time::sleep(every).await,
        None => std::future::pending().await,
    }
}

fn skip_frames(frames: Bytes, count: u64) -> Bytes {
    let mut start = 0;
    for _ in 0..count {
        match memmem::find(&frames[start..], b"\n\n") {
            Some(end) => start += end + 2,
            None => return Bytes::new(),
        }
    }
    frames.slice(start..)
}

#[cfg(test)]
#[path = "subscription_tests.rs"]
mod tests;
