//! A run as a distributed trace: a fold of its log, like everything else that is said of it.
//!
//! Nothing of a trace lives in a process while the run goes on: a driver that takes a run up folds its trail from the
//! log as it folds its state, so a run that was parked for a day or has outlived three processes still is one trace.
//! Spans are named by OpenTelemetry's conventions for generative AI; neither prompts nor answers are in them.

mod names;
mod span_builder;

pub use crate::derived_ids::{run_span, span_of, trace_of};
pub use span_builder::{SpanBuilder, TracedRun};
