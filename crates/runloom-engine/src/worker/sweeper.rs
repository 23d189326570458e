//! The sweeper: finds runs that want a worker and that no message announced — after a start, a timer, or a lost message.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::warn;

use super::Worker;
use super::crash_suspects::TRUSTED;
use runloom_ports::planted::{self, Bug};
use runloom_ports::queue::Job;
use runloom_ports::store::{Claimable, Millis};

/// Longest time between two sweeps: what a lost message can cost.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// The same where other processes deliver mail and offer runs.
const SWEEP_SHARED: Duration = Duration::from_secs(2);
/// How often the worker says that it lives. Stores that are shared by several processes hand a worker's runs to others after
/// some seconds of silence: several signs must fit in.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);
/// Shortest time between two sweeps while a due run finds no free place, or there are no places at all.
const SWEEP_ON: Duration = Duration::from_millis(50);
/// Fewest and most runs that one sweep offers; between them, twice as many as there are places. Workspaces take turns in what a
/// sweep finds, so the runs that it leaves for the next one are those whose turn has not come.
const PAGE: (usize, usize) = (64, 2_000);

impl Worker {
    pub(super) async fn sweep_runs(self: Arc<Self>) {
        let stop = self.parts.tasks.stop.clone();
        while !stop.is_cancelled() {
            self.sweep_once().await;
            let pause = self.until_next_timer().await;
            if *self.places.watch().borrow() == 0 {
                // What is announced now cannot begin anyway.
                stop.run_until_cancelled(tokio::time::sleep(SWEEP_ON)).await;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.sweep.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Says that this worker lives, in a task of its own: a slow sweep must not make it look dead. It goes on while the worker
    /// stops, for as long as runs are still held.
    pub(super) async fn heartbeat_loop(self: Arc<Self>) {
        let (stop, kill) = (&self.parts.tasks.stop, &self.parts.tasks.kill);
        let mut due = tokio::time::Instant::now();
        while !(kill.is_cancelled() || stop.is_cancelled() && self.busy() == 0) {
            if tokio::time::Instant::now() >= due {
                due = tokio::time::Instant::now() + HEARTBEAT_EVERY;
                if let Err(error) = self.parts.store.heartbeat(&self.id, self.clock.now()).await {
                    warn!(%error, "cannot tell that this worker lives");
                }
            }
            let next = if stop.is_cancelled() {
                tokio::time::Instant::now() + SWEEP_ON
            } else {
                due
            };
            tokio::select! {
                () = kill.cancelled() => {}
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Calls for the next sweep when what the last one offered runs out and there was more.
    pub(super) fn sweep_on(&self) {
        let few = self.parts.queue.depth() < self.page() / 4;
        if few && self.more.swap(false, Ordering::Relaxed) {
            self.sweep.notify_one();
        }
    }

    fn page(&self) -> usize {
        (self.places.total() * 2).clamp(PAGE.0, PAGE.1)
    }

    async fn sweep_once(self: &Arc<Self>) {
        if planted::is_planted(Bug::NoSweep) {
            return;
        }
        let now = self.clock.now();
        // Whoever parks a run from here on cannot know whether this sweep still sees its timer, so it wakes the next one.
        self.next_sweep.store(i64::MAX, Ordering::SeqCst);
        if self.parts.bus.is_shared() {
            self.ring_unheard().await;
        }
        let found = self.parts.store.claimable(now, TRUSTED, self.page()).await;
        match found {
            Ok(runs) => self.offer(&self.deferred_runs.without(&runs, now)),
            Err(error) => warn!(%error, "cannot look for runs that want a worker"),
        }
    }

    fn offer(self: &Arc<Self>, found: &[Claimable]) {
        // CrashSuspects have their own throttle: a page of them alone calls for no other. Told before anything is offered, because who takes
        // the last of it looks here.
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

    /// What another process delivered may have been announced to nobody.
    async fn ring_unheard(&self) {
        match self.parts.store.unheard(&self.id).await {
            Ok(runs) => runs.into_iter().for_each(|run| self.ring(run)),
            Err(error) => warn!(%error, "cannot look for mail"),
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
        // What is due and left to others is no reason to look again at once.
        let timer = timer.filter(|timer| *timer > now || self.deferred_runs.is_empty());
        let next = timer.map_or(latest, |timer| timer.min(latest));
        self.next_sweep.store(next.0, Ordering::SeqCst);
        // A millisecond more, so that the timer is due when the sweep looks.
        (self.clock.until(next) + Duration::from_millis(1)).max(SWEEP_ON)
    }
}

fn later(at: Millis, by: Duration) -> Millis {
    Millis(at.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
