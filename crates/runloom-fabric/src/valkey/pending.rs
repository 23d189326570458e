//! Pending announcements of one direction, merged by run.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use runloom_ports::bus::Signal;
use runloom_ports::store::RunNo;
use tokio::sync::Notify;

use super::announcement::Announcement;

/// Runs with pending changes. Beyond them all changes become one [`Signal::Lost`], which is cheaper to process.
const MAX_RUNS: usize = 65_536;

/// Changes that were not passed on yet; for each run only the newest.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Mutex<Changes>,
    // Holds a permit whenever changes may wait that nobody has been woken for.
    filled: Notify,
}

impl Pending {
    /// Adds a change. Never waits.
    pub(super) fn add(&self, signal: Signal) {
        self.changes.lock().add(signal);
        self.filled.notify_one();
    }

    /// Adds all changes of an announcement.
    pub(super) fn add_all(&self, announcement: &Announcement) {
        let mut changes = self.changes.lock();
        announcement
            .signals()
            .for_each(|signal| changes.add(signal));
        drop(changes);
        self.filled.notify_one();
    }

    /// The next change. Cancel-safe.
    pub(super) async fn next(&self) -> Signal {
        loop {
            let taken = {
                let mut changes = self.changes.lock();
                let signal = changes.pop();
                signal.map(|signal| (signal, changes.is_empty()))
            };
            if let Some((signal, is_empty)) = taken {
                // Several changes may have stored only one wake-up, so the next waiter is woken here.
                if !is_empty {
                    self.filled.notify_one();
                }
                return signal;
            }
            self.filled.notified().await;
        }
    }

    /// Waits for changes and takes up to `limit` of them.
    pub(super) async fn batch(&self, limit: usize) -> Vec<Signal> {
        let first = self.next().await;
        let mut batch = vec![first];
        let mut changes = self.changes.lock();
        while batch.len() < limit {
            let Some(signal) = changes.pop() else { break };
            batch.push(signal);
        }
        batch
    }
}

/// A run is in `turns` exactly when it has changes.
#[derive(Debug, Default)]
struct Changes {
    lost: bool,
    jobs: bool,
    registry: bool,
    turns: VecDeque<RunNo>,
    runs: HashMap<RunNo, Change>,
}

#[derive(Debug, Default)]
struct Change {
    mail: bool,
    last_seq: Option<u64>,
}

impl Changes {
    fn add(&mut self, signal: Signal) {
        if self.lost {
            // `Lost` makes the receiver read everything, this change included.
            return;
        }
        match signal {
            Signal::Jobs => self.jobs = true,
            Signal::Registry => self.registry = true,
            Signal::Mail(run) => {
                if let Some(change) = self.change(run) {
                    change.mail = true;
                }
            }
            Signal::Events { run, last_seq } => {
                if let Some(change) = self.change(run) {
                    change.last_seq = change.last_seq.max(Some(last_seq));
                }
            }
            Signal::Lost => self.lose(),
        }
    }

    /// The run's entry; `None` when there are too many runs, and all changes became [`Signal::Lost`].
    fn change(&mut self, run: RunNo) -> Option<&mut Change> {
        if !self.runs.contains_key(&run) {
            if self.runs.len() >= MAX_RUNS {
                self.lose();
                return None;
            }
            self.turns.push_back(run);
        }
        Some(self.runs.entry(run).or_default())
    }

    fn lose(&mut self) {
        *self = Self {
            lost: true,
            ..Self::default()
        };
    }

    fn pop(&mut self) -> Option<Signal> {
        if std::mem::take(&mut self.lost) {
            return Some(Signal::Lost);
        }
        if std::mem::take(&mut self.jobs) {
            return Some(Signal::Jobs);
        }
        if std::mem::take(&mut self.registry) {
            return Some(Signal::Registry);
        }
        let run = *self.turns.front()?;
        let change = self.runs.get_mut(&run)?;
        let signal = if std::mem::take(&mut change.mail) {
            Some(Signal::Mail(run))
        } else {
            let last_seq = change.last_seq.take();
            last_seq.map(|last_seq| Signal::Events { run, last_seq })
        };
        if change.last_seq.is_none() {
            self.turns.pop_front();
            self.runs.remove(&run);
        }
        signal
    }

    fn is_empty(&self) -> bool {
        !self.lost && !self.jobs && !self.registry && self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(run: i64, last_seq: u64) -> Signal {
        Signal::Events {
            run: RunNo(run),
            last_seq,
        }
    }

    fn all(mut changes: Changes) -> Vec<Signal> {
        let signals = std::iter::from_fn(|| changes.pop()).collect();
        assert!(changes.is_empty());
        signals
    }

    #[test]
    fn changes_of_a_run_are_merged() {
        let mut changes = Changes::default();
        for signal in [
            events(1, 3),
            events(2, 1),
            events(1, 7),
            events(1, 5),
            Signal::Mail(RunNo(1)),
            Signal::Registry,
            Signal::Jobs,
            Signal::Jobs,
        ] {
            changes.add(signal);
        }
        let expected = [
            Signal::Jobs,
            Signal::Registry,
            Signal::Mail(RunNo(1)),
            events(1, 7),
            events(2, 1),
        ];
        assert_eq!(all(changes), expected);
    }

    #[test]
    fn a_run_can_change_again_after_it_was_taken() {
        let mut changes = Changes::default();
        changes.add(events(1, 1));
        assert_eq!(changes.pop(), Some(events(1, 1)));
        changes.add(events(1, 2));
        assert_eq!(all(changes), [events(1, 2)]);
    }

    #[test]
    fn too_many_runs_become_one_lost_signal() {
        let mut changes = Changes::default();
        for run in 0..=i64::try_from(MAX_RUNS).unwrap() {
            changes.add(events(run, 1));
        }
        changes.add(events(0, 2));
        assert_eq!(all(changes), [Signal::Lost]);
    }
}
