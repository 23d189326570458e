//! What a load came to: times, failures, quantiles.

use std::time::Duration;

/// How many different errors are kept word for word.
const ERRORS_KEPT: usize = 3;

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shot {
    pub(crate) to_first: Duration,
    /// What of this the provider took itself, when it tells.
    pub(crate) own: Duration,
    pub(crate) to_end: Duration,
}

/// What a load came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) shots: Vec<Shot>,
    pub(crate) elapsed: Duration,
    pub(crate) failed: u64,
    pub(crate) errors: Vec<String>,
}

impl Outcome {
    pub(crate) fn count(&mut self, run: anyhow::Result<Shot>) {
        match run {
            Ok(shot) => self.shots.push(shot),
            Err(error) => {
                self.failed += 1;
                self.remember(format!("{error:#}"));
            }
        }
    }

    /// Adds what another load came to; the times of both add up.
    pub(crate) fn add(&mut self, other: Self) {
        self.shots.extend(other.shots);
        self.failed += other.failed;
        self.elapsed += other.elapsed;
        for error in other.errors {
            self.remember(error);
        }
    }

    fn remember(&mut self, error: String) {
        if self.errors.len() < ERRORS_KEPT && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Complete runs per second.
    pub(crate) fn rate(&self) -> f64 {
        self.shots.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Milliseconds to the terminal event, at the quantile.
    pub(crate) fn to_end(&self, quantile: f64) -> f64 {
        at(
            self.shots.iter().map(|shot| shot.to_end).collect(),
            quantile,
        )
    }

    /// Milliseconds to the first piece of text, at the quantile.
    pub(crate) fn to_first(&self, quantile: f64) -> f64 {
        at(
            self.shots.iter().map(|shot| shot.to_first).collect(),
            quantile,
        )
    }

    /// Milliseconds to the first piece of text without those that the provider took itself, at the quantile.
    pub(crate) fn way_to_first(&self, quantile: f64) -> f64 {
        let way = |shot: &Shot| shot.to_first.saturating_sub(shot.own);
        at(self.shots.iter().map(way).collect(), quantile)
    }
}

/// The value at the quantile, in milliseconds; not a number when there are none.
fn at(mut times: Vec<Duration>, quantile: f64) -> f64 {
    if times.is_empty() {
        return f64::NAN;
    }
    times.sort_unstable();
    let rank = (quantile * times.len() as f64).ceil() as usize;
    times[rank.clamp(1, times.len()) - 1].as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn quantiles_are_taken_by_rank() {
        let times: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert!((super::at(times.clone(), 0.5) - 50.0).abs() < 1e-9);
        assert!((super::at(times.clone(), 0.99) - 99.0).abs() < 1e-9);
        assert!((super::at(times, 1.0) - 100.0).abs() < 1e-9);
        assert!(super::at(Vec::new(), 0.5).is_nan());
    }
}
