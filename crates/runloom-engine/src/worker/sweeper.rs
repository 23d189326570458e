//! The sweeper: the periodic search for runs that no worker holds, after a start, a timer or a lost message.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::warn;

use super::Worker;
use super::crash_suspects::TRUSTED;
use runloom_ports::planted::{self, Bug};
use runloom_ports::queue::Job;
use runloom_ports::store::{Claimable, Millis};

/// Longest time between two sweeps, which bounds the delay after a lost message.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// The same where other processes share the store.
const SWEEP_SHARED: Duration = Duration::from_secs(2);
/// Time between two heartbeats. Several must fit into the silence after which other workers may take over.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);
/// Shortest time between two sweeps while due runs find no free slot.
const SWEEP_ON: Duration = Duration::from_millis(50);
/// Smallest and largest number of runs of one sweep; between them, twice the number of slots. The store lists
/// workspaces in rotation, so that one with many runs does not hide the others.
const PAGE: (usize, usize) = (64, 2_000);

impl Worker {
    pub(super) async fn sweep_runs(self: Arc<Self>) {
        let shutdown = self.parts.tasks.shutdown.clone();
        while !shutdown.is_draining() {
            self.sweep_once().await;
            let pause = self.until_next_timer().await;
            if *self.slots.watch().borrow() == 0 {
                // No run could start now.
                let pause = tokio::time::sleep(SWEEP_ON);
                shutdown.until_draining(pause).await;
            }
            tokio::select! {
                () = shutdown.draining() => {}
                () = self.sweep.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Sends heartbeats, in a task of its own, so that a slow sweep does not delay them. During shutdown it continues
    /// as long as runs are held.
    pub(super) async fn heartbeat_loop(self: Arc<Self>) {
        let shutdown = &self.parts.tasks.shutdown;
        let mut due = tokio::time::Instant::now();
        while !(shutdown.is_interrupted() || shutdown.is_draining() && self.busy() == 0) {
            if tokio::time::Instant::now() >= due {
                due = tokio::time::Instant::now() + HEARTBEAT_EVERY;
                if let Err(error) = self.parts.store.heartbeat(&self.id, self.clock.now()).await {
                    warn!(%error, "heartbeat failed");
                }
            }
            let next = if shutdown.is_draining() {
                tokio::time::Instant::now() + SWEEP_ON
            } else {
                due
            };
            tokio::select! {
                () = shutdown.interrupted() => {}
                () = shutdown.draining(), if !shutdown.is_draining() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Triggers the next sweep when the queue runs low and the last sweep found more.
    pub(super) fn sweep_on(&self) {
        let few = self.parts.queue.depth() < self.page() / 4;
        if few && self.more.swap(false, Ordering::Relaxed) {
            self.sweep.notify_one();
        }
    }

    fn page(&self) -> usize {
        (self.slots.total() * 2).clamp(PAGE.0, PAGE.1)
    }

    async fn sweep_once(self: &Arc<Self>) {
        if planted::is_planted(Bug::NoSweep) {
            return;
        }
        let now = self.clock.now();
        // A run that is parked from here on may be missed by this sweep, so it triggers the next one.
        self.next_sweep.store(i64::MAX, Ordering::SeqCst);
        if self.parts.bus.is_shared() {
            self.ring_unheard().await;
        }
        let found = self.parts.store.claimable(now, TRUSTED, self.page()).await;
        match found {
            Ok(runs) => self.offer(&self.deferred_runs.without(&runs, now)),
            Err(error) => warn!(%error, "sweep failed"),
        }
    }

    fn offer(self: &Arc<Self>, found: &[Claimable]) {
        // A page of crash suspects only does not trigger another sweep. Set before anything is offered, because the
        // claim of the last job reads it.
        let ordinary = found.iter().any(|one| one.attempts < TRUSTED);
        let more = ordinary && found.len() >= self.page();
        self.more.store(more, Ordering::Relaxed);
        let undriven = found.iter();
        for one in undriven.filter(|one| !self.notifiers.is_driven(one.run)) {
            let job = Job {
                run: one.run,
                workspace: Some(one.workspace),
            };
            if one.attempts < TRUSTED {
                self.parts.queue.push_here(job);
            } else {
                self.suspect(job, one.attempts.saturating_add(1));
            }
        }
    }

    /// Notifies drivers of mail that other processes delivered, in case the wake-up was lost.
    async fn ring_unheard(&self) {
        match self.parts.store.unheard(&self.id).await {
            Ok(runs) => runs.into_iter().for_each(|run| self.ring(run)),
            Err(error) => warn!(%error, "search for mail failed"),
        }
    }

    async fn until_next_timer(&self) -> Duration {
        let every = if self.parts.bus.is_shared() {
            SWEEP_SHARED
        } else {
            SWEEP_EVERY
        };
        let now = self.clock.now();
        let latest = later(now, every);
        let timer = self.parts.store.next_timer().await.ok().flatten();
        // A due run that is left to other processes does not trigger a sweep.
        let timer = timer.filter(|timer| *timer > now || self.deferred_runs.is_empty());
        let next = timer.map_or(latest, |timer| timer.min(latest));
        self.next_sweep.store(next.0, Ordering::SeqCst);
        // One millisecond more, so that the timer is due when the sweep reads it.
        (self.clock.until(next) + Duration::from_millis(1)).max(SWEEP_ON)
    }
}

fn later(at: Millis, by: Duration) -> Millis {
    Millis(at.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
