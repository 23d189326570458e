//! The result of a load: times of complete runs, failures, quantiles.

use std::time::Duration;

/// How many different error messages are kept.
const MAX_ERRORS: usize = 3;

/// Times of one complete run, from its request on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTimes {
    pub(crate) first_text: Duration,
    /// The part of `first_text` that the provider itself took, when its first token says so.
    pub(crate) provider: Duration,
    /// Time to the terminal event.
    pub(crate) end: Duration,
}

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    pub(crate) runs: Vec<RunTimes>,
    pub(crate) elapsed: Duration,
    pub(crate) failed: u64,
    pub(crate) errors: Vec<String>,
}

impl LoadResult {
    /// Adds one run.
    pub(crate) fn record(&mut self, run: anyhow::Result<RunTimes>) {
        match run {
            Ok(times) => self.runs.push(times),
            Err(error) => {
                self.failed += 1;
                self.keep_error(format!("{error:#}"));
            }
        }
    }

    /// Adds another result, its elapsed time included.
    pub(crate) fn merge(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.failed += other.failed;
        self.elapsed += other.elapsed;
        for error in other.errors {
            self.keep_error(error);
        }
    }

    fn keep_error(&mut self, error: String) {
        if self.errors.len() < MAX_ERRORS && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Complete runs per second.
    pub(crate) fn runs_per_second(&self) -> f64 {
        self.runs.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Milliseconds to the terminal event at a quantile.
    pub(crate) fn end_ms(&self, quantile: f64) -> f64 {
        self.quantile_ms(quantile, |run| run.end)
    }

    /// Milliseconds to the first text at a quantile.
    pub(crate) fn first_text_ms(&self, quantile: f64) -> f64 {
        self.quantile_ms(quantile, |run| run.first_text)
    }

    /// Milliseconds that the provider itself took to the first text, at a quantile.
    pub(crate) fn provider_ms(&self, quantile: f64) -> f64 {
        self.quantile_ms(quantile, |run| run.provider)
    }

    /// Milliseconds to the first text minus the provider's own time, at a quantile.
    pub(crate) fn first_text_overhead_ms(&self, quantile: f64) -> f64 {
        self.quantile_ms(quantile, |run| run.first_text.saturating_sub(run.provider))
    }

    /// NaN when there are no runs.
    fn quantile_ms(&self, quantile: f64, time: impl Fn(&RunTimes) -> Duration) -> f64 {
        let mut times: Vec<Duration> = self.runs.iter().map(time).collect();
        if times.is_empty() {
            return f64::NAN;
        }
        times.sort_unstable();
        let rank = (quantile * times.len() as f64).ceil() as usize;
        times[rank.clamp(1, times.len()) - 1].as_secs_f64() * 1000.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LoadResult, RunTimes};

    #[test]
    fn takes_quantiles_by_rank() {
        let mut result = LoadResult::default();
        assert!(result.end_ms(0.5).is_nan());
        for ms in 1..=100 {
            result.record(Ok(RunTimes {
                first_text: Duration::from_millis(ms),
                provider: Duration::from_millis(1),
                end: Duration::from_millis(2 * ms),
            }));
        }
        assert!((result.first_text_ms(0.5) - 50.0).abs() < 1e-9);
        assert!((result.first_text_overhead_ms(0.5) - 49.0).abs() < 1e-9);
        assert!((result.provider_ms(0.99) - 1.0).abs() < 1e-9);
        assert!((result.end_ms(0.99) - 198.0).abs() < 1e-9);
        assert!((result.end_ms(1.0) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn counts_every_failure_and_keeps_distinct_messages() {
        let mut result = LoadResult::default();
        for message in ["a", "a", "b", "c", "d"] {
            result.record(Err(anyhow::anyhow!(message)));
        }
        assert_eq!(result.failed, 5);
        assert_eq!(result.errors, ["a", "b", "c"]);
    }
}
