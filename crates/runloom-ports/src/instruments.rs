//! Metric instruments made of atomics: counting takes a few nanoseconds and never waits.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// At nought.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `count`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// At nought.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Adds `count`, which may be negative.
    pub fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there are.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of a histogram of seconds.
pub const SECONDS: [f64; BUCKETS] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];
/// Upper bounds of a histogram of batch sizes.
pub const SIZES: [f64; BUCKETS] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
    16384.0, 32768.0,
];
const BUCKETS: usize = 16;

/// A distribution of values over fixed classes.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64; BUCKETS],
    /// One more than the bounds: the last class has the values above all of them.
    classes: [AtomicU64; BUCKETS + 1],
    /// In millionths.
    sum: AtomicU64,
}

impl Histogram {
    /// Empty.
    #[must_use]
    pub const fn new(bounds: &'static [f64; BUCKETS]) -> Self {
        Self {
            bounds,
            classes: [const { AtomicU64::new(0) }; BUCKETS + 1],
            sum: AtomicU64::new(0),
        }
    }

    /// It took so long.
    pub fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.record(time.as_secs_f64(), micros);
    }

    /// Records a value.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    pub fn held(&self, size: usize) {
        let size = size as u64;
        self.record(size as f64, size.saturating_mul(1_000_000));
    }

    fn record(&self, value: f64, millionths: u64) {
        let class = self.bounds.partition_point(|bound| *bound < value);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(millionths, Ordering::Relaxed);
    }

    /// The bounds, each with how many were not above it; how many there were in all; their sum in millionths.
    pub fn read(&self) -> (Vec<(f64, u64)>, u64, u64) {
        let mut below = 0;
        let classes = self.bounds.iter().zip(&self.classes).map(|(bound, class)| {
            below += class.load(Ordering::Relaxed);
            (*bound, below)
        });
        let classes: Vec<_> = classes.collect();
        let all = below + self.classes[BUCKETS].load(Ordering::Relaxed);
        (classes, all, self.sum.load(Ordering::Relaxed))
    }
}

/// Metrics of the store, which an adapter counts and the engine renders.
#[derive(Debug)]
pub struct StoreMetrics {
    /// Committed groups.
    pub commits: Counter,
    /// Groups that could not be committed.
    pub commit_failures: Counter,
    /// Duration of a commit.
    pub commit_time: Histogram,
    /// Jobs in a committed group.
    pub commit_size: Histogram,
}

/// The store metrics of this process.
pub static STORE_METRICS: StoreMetrics = StoreMetrics {
    commits: Counter::new(),
    commit_failures: Counter::new(),
    commit_time: Histogram::new(&SECONDS),
    commit_size: Histogram::new(&SIZES),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_every_class_that_it_is_not_above() {
        let histogram = Histogram::new(&SECONDS);
        for millis in [1, 2, 400_000] {
            histogram.took(Duration::from_millis(millis));
        }
        let (classes, all, sum) = histogram.read();
        assert_eq!(classes[0], (0.001, 1));
        assert_eq!(classes[1], (0.0025, 2));
        assert_eq!(classes[15], (300.0, 2));
        assert_eq!((all, sum), (3, 400_003_000));
    }
}
