//! Ids that follow from other ids, so that every process derives the same.

use runloom_protocol::id::RunId;
use sha2::{Digest, Sha256};

use runloom_ports::trace::{SpanId, TraceId};

/// The name of a run's own span in its trace.
pub(crate) const RUN_SPAN: &str = "invoke_agent";

/// The trace of a run without a client's trace: the digits of its id, so that the run's id leads to its trace.
#[must_use]
pub fn trace_of(run: &RunId) -> TraceId {
    let digits = run.as_str().trim_start_matches("run_");
    let own = u128::from_str_radix(digits, 16).unwrap_or_default();
    if own != 0 && digits.len() == 32 {
        return TraceId(own.to_be_bytes());
    }
    TraceId(first_bytes(&[run.as_str()]))
}

/// The span of a part of a run.
#[must_use]
pub fn span_of(run: &RunId, part: &str) -> SpanId {
    SpanId(first_bytes(&[run.as_str(), part]))
}

/// The span of a whole run.
#[must_use]
pub fn run_span(run: &RunId) -> SpanId {
    span_of(run, RUN_SPAN)
}

/// The id of the child that a call starts. The same call always gives the same id.
#[must_use]
pub fn sub_run_id(parent: &RunId, tool_use_id: &str) -> RunId {
    let digits: [u8; 16] = first_bytes(&[parent.as_str(), tool_use_id, "sub_run"]);
    RunId::from_suffix(format_args!("{:032x}", u128::from_be_bytes(digits)))
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
