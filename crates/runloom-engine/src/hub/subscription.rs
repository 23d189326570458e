//! One subscriber's view of a run: replay, then the live tail, gapless and in order.

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
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tracing::{debug, warn};

use super::{Hub, LiveRun, Recent};
use crate::metrics::METRICS;
use runloom_ports::store::{Chunk, RunLog, StoreError, StoreErrorKind};

/// How much is read from the store at once.
const PAGE_BYTES: usize = 256 * 1024;

/// Pauses between attempts to read from a store that is unavailable.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// How long a stream stays open without being able to read on. Runs survive an outage of the store, so those who watch them do
/// as well: a client that is sent away comes back at once, is refused, and gives up.
const OUTAGE_BORNE: Duration = Duration::from_secs(15 * 60);

/// SSE frames, whole, as they are stored. Ends after the terminal event, or early when the server stops, its store is broken or
/// stays unavailable for too long; a client then resumes elsewhere.
pub type EventStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Streams a run's events after `after`.
#[must_use]
pub fn subscribe(
    hub: &Arc<Hub>,
    live: Arc<LiveRun>,
    store: Arc<dyn RunLog>,
    after: u64,
    stop: CancellationToken,
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
        stop: Box::pin(stop.cancelled_owned()),
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
    /// The last chunk came from memory, and nothing was asked since.
    kept_up: bool,
    /// Look into the store although nothing was announced.
    look: bool,
    /// The store cannot be read.
    outage: Option<Outage>,
    poll: Option<Duration>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    _count: Count,
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
            // Subscribed first, read second: whatever is committed after the read moves the head.
            let head = *self.head.borrow_and_update();
            if std::mem::take(&mut self.kept_up) && head == self.cursor {
                // Most events are waited for: nothing else has to be asked then.
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
                Recent::Unknown => self.read_store(ended).await,
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
            // Perhaps another process wrote it, and nobody has told those who watch from here.
            self.live.set_ended();
        }
        Some(skip_frames(chunk.frames, known))
    }

    /// `ended` was read before, so that an empty answer is the end and not the moment before the last event.
    async fn read_store(&mut self, ended: bool) {
        let read = self
            .store
            .read_log(self.live.no, self.cursor, PAGE_BYTES)
            .await;
        let chunks = match read {
            Ok(chunks) => chunks,
            Err(error) => return self.bear(&error).await,
        };
        self.outage = None;
        if !chunks.is_empty() {
            self.backlog = chunks.into();
        } else if ended {
            self.over = true;
        } else {
            self.wait().await;
        }
    }

    /// Waits for a store that is unavailable, and has it read again.
    async fn bear(&mut self, error: &StoreError) {
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: Instant::now(),
            delays: RETRY.delays(),
        });
        let hopeless = error.kind == StoreErrorKind::Broken;
        if hopeless || outage.since.elapsed() >= OUTAGE_BORNE {
            warn!(%error, "a stream ends early because the log cannot be read");
            self.over = true;
            return;
        }
        debug!(%error, "a stream waits because the log cannot be read");
        let pause = outage.delays.next_delay();
        // Not for the head: it may move all the time while another process can write.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut self.stop => self.over = true,
        }
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.head.changed() => {}
            () = &mut self.stop => self.over = true,
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
