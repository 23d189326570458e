//! A run as a distributed trace, folded from its log.
//!
//! A process keeps no trace state that the log lacks: a driver that claims a run folds its spans from the log as it
//! folds its state. A run that was parked for a day or driven by several processes is therefore one trace. Spans
//! follow OpenTelemetry's conventions for generative AI; they contain neither prompts nor answers.

mod names;
mod span_builder;

pub use crate::derived_ids::{run_span, span_of, trace_of};
pub use span_builder::{SpanBuilder, TracedRun};
