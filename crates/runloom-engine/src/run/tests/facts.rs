//! A state as text, to compare it with another one.

use crate::run::RunState;

/// Everything of a state but its plan, to be compared.
pub(super) fn facts(state: &RunState) -> String {
    let RunState {
        plan: _,
        judged: _,
        toolbox,
        resolved,
        outputs,
        messages,
        calls,
        started,
        ended,
        turns,
        tool_turns,
        tool_calls,
        tokens,
        shown,
        restarts,
        deferred_since,
        economising,
        before_fallback,
        retained,
        lost,
        reserved,
        structured,
        answer,
        forced,
        malformed,
        guards,
        message,
        tool_files,
        approvals_below,
        below,
        sub_runs,
        stopping,
        compacted,
        first_own,
        measured: _,
        is_too_long,
        overflows,
        summary_tokens,
        summary_pico,
    } = state;
    let tools: Vec<&str> = toolbox.names().collect();
    let flags = (started, ended, shown, forced, resolved);
    let compaction = (
        compacted,
        first_own,
        is_too_long,
        overflows,
        summary_tokens,
        summary_pico,
    );
    let counts = (turns, tool_turns, tool_calls, restarts, malformed, tokens);
    format!(
        "{messages:#?} {calls:?} {flags:?} {counts:?} {structured:?} {answer:?} {guards:?} {message:?} {tools:?} {outputs:?} \
         {economising:?} {lost:?} {reserved:?} {deferred_since:?} {before_fallback:?} {tool_files:?} {retained:?} \
         {below:?} {sub_runs:?} {stopping:?} {approvals_below:?} {compaction:?}"
    )
}
