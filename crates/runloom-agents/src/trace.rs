//! Events of a tree of runs.

use runloom_protocol::event::Event;
use runloom_protocol::id::RunId;

/// One event of a run or of a run below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Position in the one order of the whole tree; it continues after a resume.
    pub seq: u64,
    /// The run of the event.
    pub run_id: RunId,
    /// 0 for the run that the caller started.
    pub depth: u32,
    /// The span of the run, 16 hexadecimal digits.
    pub span_id: String,
    /// The span of the run that called it; `None` for the root.
    pub parent_span_id: Option<String>,
    /// The event.
    pub event: Event,
}
