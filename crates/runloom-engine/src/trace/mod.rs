//! A run as a distributed trace: a fold of its log, like everything else that is said of it.
//!
//! Nothing of a trace lives in a process while the run goes on: a driver that takes a run up folds its trail from the log as it folds its
//! state, so a run that was parked for a day or has outlived three processes still is one trace. Spans are named by OpenTelemetry's
//! conventions for generative AI; neither prompts nor answers are in them.

mod names;
mod span_builder;

use runloom_protocol::id::RunId;
use sha2::{Digest, Sha256};

use runloom_ports::trace::{SpanId, TraceId};

pub use span_builder::{SpanBuilder, TracedRun};

/// The trace of a run that belongs to nobody else's: the digits of its id, so that who knows the run finds its trace.
#[must_use]
pub fn trace_of(run: &RunId) -> TraceId {
    let digits = run.as_str().trim_start_matches("run_");
    let own = u128::from_str_radix(digits, 16).unwrap_or_default();
    if own != 0 && digits.len() == 32 {
        return TraceId(own.to_be_bytes());
    }
    TraceId(first_bytes(&[run.as_str()]))
}

/// The span of a part of a run. Made from names, so that every process that tells of it says the same.
#[must_use]
pub fn span_of(run: &RunId, part: &str) -> SpanId {
    SpanId(first_bytes(&[run.as_str(), part]))
}

fn first_bytes<const N: usize>(texts: &[&str]) -> [u8; N] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    let digest: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|place| digest[place])
}
