//! The text that Prometheus reads (exposition format 0.0.4).

use std::fmt::Write;

use super::{Counter, Histogram};

/// Media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// A value that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

impl MetricType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// Metrics in the Prometheus text format.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// All of it.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// A value that only rises.
    pub fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.head(name, help, "counter");
        self.line(name, "", counter.get());
    }

    /// A counter for each value of a label.
    pub fn counters<'a>(
        &mut self,
        name: &str,
        label: &str,
        help: &str,
        counters: impl IntoIterator<Item = (&'a str, &'a Counter)>,
    ) {
        self.head(name, help, "counter");
        for (value, counter) in counters {
            self.line(name, &format!("{{{label}=\"{value}\"}}"), counter.get());
        }
    }

    /// Lines under one heading, with labels written by the caller.
    pub fn labelled<'a>(
        &mut self,
        name: &str,
        kind: MetricType,
        help: &str,
        lines: impl IntoIterator<Item = (String, u64)>,
    ) where
        Self: 'a,
    {
        self.head(name, help, kind.as_str());
        for (labels, value) in lines {
            self.line(name, &labels, value);
        }
    }

    /// A value that rises and falls.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, help, "gauge");
        self.line(name, "", value);
    }

    /// A histogram without a label.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.histograms(name, "", help, [("", histogram)]);
    }

    /// A histogram per label value. An empty label gives one histogram without labels.
    pub fn histograms<'a>(
        &mut self,
        name: &str,
        label: &str,
        help: &str,
        histograms: impl IntoIterator<Item = (&'a str, &'a Histogram)>,
    ) {
        self.head(name, help, "histogram");
        for (value, histogram) in histograms {
            let own = if label.is_empty() {
                String::new()
            } else {
                format!("{label}=\"{value}\"")
            };
            let comma = if own.is_empty() { "" } else { "," };
            let (classes, all, sum) = histogram.read();
            if all == 0 && !own.is_empty() {
                continue;
            }
            for (bound, below) in classes {
                self.line(
                    &format!("{name}_bucket"),
                    &format!("{{{own}{comma}le=\"{bound}\"}}"),
                    below,
                );
            }
            self.line(
                &format!("{name}_bucket"),
                &format!("{{{own}{comma}le=\"+Inf\"}}"),
                all,
            );
            let labels = if own.is_empty() {
                String::new()
            } else {
                format!("{{{own}}}")
            };
            let sum = format!("{}.{:06}", sum / 1_000_000, sum % 1_000_000);
            self.line(&format!("{name}_sum"), &labels, sum);
            self.line(&format!("{name}_count"), &labels, all);
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}
