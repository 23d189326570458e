//! Comparing an expected event with a recorded one.

use runloom_protocol::event::Event;

/// Whether two events say the same, as far as the machine decides it from the public log.
pub(super) fn same(expected: &Event, recorded: &Event) -> bool {
    use Event::{ApprovalRequested, Error, LoopDetected, Result, ToolResult, TurnRestarted};
    // The wording depends on what peers offered.
    if let (ToolResult(one), ToolResult(other)) = (expected, recorded) {
        return one.tool_use_id == other.tool_use_id && one.ok == other.ok;
    }
    if let (LoopDetected(one), LoopDetected(other)) = (expected, recorded) {
        return one.hard_cutoff == other.hard_cutoff;
    }
    // When it expires follows from a clock.
    if let (ApprovalRequested(one), ApprovalRequested(other)) = (expected, recorded) {
        let without_time = |request: &runloom_protocol::event::ApprovalRequested| {
            runloom_protocol::event::ApprovalRequested {
                expires_at: String::new(),
                ..request.clone()
            }
        };
        return without_time(one) == without_time(other);
    }
    if let (TurnRestarted(one), TurnRestarted(other)) = (expected, recorded) {
        return one.turn == other.turn;
    }
    if let (Result(one), Result(other)) = (expected, recorded) {
        return one.text == other.text;
    }
    if let (Error(one), Error(other)) = (expected, recorded) {
        return one.error_class == other.error_class;
    }
    expected == recorded
}
