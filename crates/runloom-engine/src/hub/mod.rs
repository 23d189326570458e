//! The hub: live runs of this process and their subscribers.
//!
//! A driver publishes each chunk after it is durable. A subscriber reads by `seq`: recent chunks from the ring, older
//! ones from the store. Then it waits for the head to move. A slow subscriber costs no memory: it reads from the
//! store.

mod subscription;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use runloom_protocol::id::RunId;
use tokio::sync::watch;

use runloom_ports::bus::{Bus, NoBus, Signal};
use runloom_ports::store::{Chunk, RunNo, WorkspaceNo};

pub use subscription::{EventStream, subscribe};

/// Bytes of recent frames that a live run keeps in memory. A reconnecting client usually misses less than this.
const RING_BYTES: usize = 8 * 1024;

/// Ended runs that stay in the hub for a while, because clients often open the stream of a short run after its end.
const ENDED_KEPT: usize = 128;

/// The live runs of this process.
pub struct Hub {
    runs: Mutex<Register>,
    /// The runs that ended here last.
    ended: Mutex<VecDeque<Arc<LiveRun>>>,
    subscribers: AtomicUsize,
    /// Interval at which a stream reads the store without a wake-up, because another process may drive its run.
    poll: Option<Duration>,
    /// Announces to other processes that events were written here.
    bus: Arc<dyn Bus>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            runs: Mutex::default(),
            ended: Mutex::default(),
            subscribers: AtomicUsize::new(0),
            poll: None,
            bus: Arc::new(NoBus),
        }
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("poll", &self.poll)
            .finish_non_exhaustive()
    }
}

/// The same runs by public id and by row number.
#[derive(Debug, Default)]
struct Register {
    by_id: HashMap<RunId, Weak<LiveRun>>,
    by_no: HashMap<RunNo, Weak<LiveRun>>,
}

/// A run that is driven or watched in this process.
#[derive(Debug)]
pub struct LiveRun {
    /// Its row number.
    pub no: RunNo,
    /// Its owner.
    pub workspace: WorkspaceNo,
    id: RunId,
    hub: Weak<Hub>,
    ring: Mutex<Ring>,
    head: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// The run has ended: no event follows those that are stored.
    ended: bool,
}

/// The ring's answer to a read of the events after a number.
enum Recent {
    /// The next of them.
    Chunk(Chunk),
    /// No event after the number exists yet.
    Nothing,
    /// The ring does not reach back that far.
    Unknown,
}

impl Hub {
    /// A hub whose runs may be driven by other processes.
    #[must_use]
    pub fn shared(bus: Arc<dyn Bus>, poll: Duration) -> Self {
        Self {
            poll: Some(poll),
            bus,
            ..Self::default()
        }
    }

    /// Another process has written events of a run: its subscribers read again.
    pub fn nudge(&self, run: RunNo, last_seq: u64) {
        let live = lock(&self.runs).by_no.get(&run).and_then(Weak::upgrade);
        if let Some(live) = live {
            live.head.send_if_modified(|head| {
                let news = last_seq > *head;
                *head = last_seq.max(*head);
                news
            });
        }
    }

    /// Announcements were lost: all subscribers read again.
    pub fn nudge_all(&self) {
        let live: Vec<_> = lock(&self.runs)
            .by_id
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        live.iter().for_each(|run| run.head.send_modify(|_| ()));
    }

    /// The live run with this id, created if it is missing.
    #[must_use]
    pub fn open(self: &Arc<Self>, id: &RunId, no: RunNo, workspace: WorkspaceNo) -> Arc<LiveRun> {
        let mut runs = lock(&self.runs);
        if let Some(live) = runs.by_id.get(id).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(LiveRun {
            no,
            workspace,
            id: id.clone(),
            hub: Arc::downgrade(self),
            ring: Mutex::default(),
            head: watch::Sender::new(0),
        });
        runs.by_id.insert(id.clone(), Arc::downgrade(&live));
        runs.by_no.insert(no, Arc::downgrade(&live));
        live
    }

    /// The live run with this id, if it is driven or watched here.
    #[must_use]
    pub fn find(&self, id: &RunId) -> Option<Arc<LiveRun>> {
        lock(&self.runs).by_id.get(id).and_then(Weak::upgrade)
    }

    /// How many runs are driven or watched now.
    #[must_use]
    pub fn live_runs(&self) -> usize {
        let kept = lock(&self.ended).len();
        lock(&self.runs).by_id.len().saturating_sub(kept)
    }

    /// How many streams are open now.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Relaxed)
    }
}

impl LiveRun {
    /// Shows a durable chunk to the subscribers.
    pub fn publish(&self, chunk: Chunk) {
        let last_seq = chunk.last_seq;
        {
            let mut ring = lock(&self.ring);
            // Chunks that another worker wrote meanwhile are missing in the ring; subscribers read them from the
            // store.
            let follows = |last: &Chunk| last.last_seq + 1 == chunk.first_seq;
            if !ring.chunks.back().is_some_and(follows) {
                ring.chunks.clear();
                ring.bytes = 0;
            }
            ring.ended |= chunk.terminal;
            ring.bytes += chunk.frames.len();
            ring.chunks.push_back(chunk);
            while ring.bytes > RING_BYTES && ring.chunks.len() > 1 {
                if let Some(old) = ring.chunks.pop_front() {
                    ring.bytes -= old.frames.len();
                }
            }
        }
        self.head.send_replace(last_seq);
        if let Some(hub) = self.hub.upgrade() {
            hub.bus.announce(Signal::Events {
                run: self.no,
                last_seq,
            });
        }
    }

    /// The run is over and shown. Its last events stay in memory until other runs have ended, unless they are many.
    pub(crate) fn keep_for_latecomers(self: &Arc<Self>) {
        let Some(hub) = self.hub.upgrade() else {
            return;
        };
        if lock(&self.ring).bytes > RING_BYTES {
            return;
        }
        let mut ended = lock(&hub.ended);
        ended.push_back(Arc::clone(self));
        let oldest = if ended.len() > ENDED_KEPT {
            ended.pop_front()
        } else {
            None
        };
        drop(ended);
        // Its drop takes the register's lock.
        drop(oldest);
    }

    /// Records that the run's row has a terminal status.
    pub fn set_ended(&self) {
        lock(&self.ring).ended = true;
    }

    /// Once true, the store holds the whole log.
    fn has_ended(&self) -> bool {
        lock(&self.ring).ended
    }

    /// The events after a number, and whether the run had ended. Called by every subscriber for every chunk.
    fn recent(&self, after: u64) -> (Recent, bool) {
        let ring = lock(&self.ring);
        (self.recent_in(&ring, after), ring.ended)
    }

    fn recent_in(&self, ring: &Ring, after: u64) -> Recent {
        let (Some(first), Some(last)) = (ring.chunks.front(), ring.chunks.back()) else {
            return Recent::Unknown;
        };
        if after.saturating_add(1) < first.first_seq || after > last.last_seq {
            return Recent::Unknown;
        }
        if after == last.last_seq {
            // When the head is further, or the run has ended with a later event, another process has written the next
            // one.
            let elsewhere = ring.ended && !last.terminal;
            return if elsewhere || *self.head.borrow() > after {
                Recent::Unknown
            } else {
                Recent::Nothing
            };
        }
        // A subscriber that keeps up needs the last chunk.
        let next = if last.first_seq <= after + 1 {
            Some(last)
        } else {
            let place = ring.chunks.partition_point(|chunk| chunk.last_seq <= after);
            ring.chunks.get(place)
        };
        next.cloned().map_or(Recent::Unknown, Recent::Chunk)
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            let mut runs = lock(&hub.runs);
            // Another live run may have been opened between the last owner's end and this lock.
            let gone =
                |live: Option<&Weak<Self>>| live.is_some_and(|live| live.strong_count() == 0);
            if gone(runs.by_id.get(&self.id)) {
                runs.by_id.remove(&self.id);
            }
            if gone(runs.by_no.get(&self.no)) {
                runs.by_no.remove(&self.no);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded sections only move whole values, so a panic elsewhere leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
