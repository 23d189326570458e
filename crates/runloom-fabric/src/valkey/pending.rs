//! Announcements that wait, in either direction.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use runloom_ports::bus::Signal;
use runloom_ports::store::RunNo;
use tokio::sync::Notify;

use super::announcement::Announcement;

/// Runs that changes are kept of. With more, everyone looks at everything, which is cheaper than hearing of each.
const MOST_RUNS: usize = 65_536;

/// What has changed and was not passed on: for each run only the newest.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Mutex<Changes>,
    // Holds a permit whenever changes may wait that nobody has been woken for.
    filled: Notify,
}

impl Pending {
    /// Adds a change to what waits. Never waits.
    pub(super) fn add(&self, signal: Signal) {
        self.changes().add(signal);
        self.filled.notify_one();
    }

    /// Adds everything that another process announced.
    pub(super) fn add_all(&self, announcement: Announcement) {
        let mut changes = self.changes();
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
                let mut changes = self.changes();
                changes.pop().map(|signal| (signal, changes.is_empty()))
            };
            if let Some((signal, empty)) = taken {
                // Wake-ups melt together; whoever takes a change passes the word on.
                if !empty {
                    self.filled.notify_one();
                }
                return signal;
            }
            self.filled.notified().await;
        }
    }

    /// Waits until there are changes, and takes those of up to `runs` runs.
    pub(super) async fn batch(&self, runs: usize) -> Vec<Signal> {
        let first = self.next().await;
        let mut batch = vec![first];
        let mut changes = self.changes();
        while batch.len() < runs {
            let Some(signal) = changes.pop() else { break };
            batch.push(signal);
        }
        batch
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Whoever is told to look at everything will see this too.
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

    /// Where a run's change is noted; `None` when there are too many and all of them are given up.
    fn change(&mut self, run: RunNo) -> Option<&mut Change> {
        if !self.runs.contains_key(&run) {
            if self.runs.len() >= MOST_RUNS {
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
    fn changes_of_a_run_melt_into_the_newest() {
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
    fn a_run_that_was_passed_on_can_change_again() {
        let mut changes = Changes::default();
        changes.add(events(1, 1));
        assert_eq!(changes.pop(), Some(events(1, 1)));
        changes.add(events(1, 2));
        assert_eq!(all(changes), [events(1, 2)]);
    }

    #[test]
    fn too_many_runs_become_one_word_that_all_is_lost() {
        let mut changes = Changes::default();
        for run in 0..=i64::try_from(MOST_RUNS).unwrap() {
            changes.add(events(run, 1));
        }
        changes.add(events(0, 2));
        assert_eq!(all(changes), [Signal::Lost]);
    }
}
