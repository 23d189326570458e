//! Agents in this process, with the demo model.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on should say so by failing"
)]

mod approvals;
mod cancels;
mod delegates;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runloom_agents::{Effect, RunEnd, Tool, ToolOutput};
use serde_json::json;

/// A tool `write` that counts its calls.
pub(crate) fn counting(count: &Arc<AtomicUsize>) -> Tool {
    let count = Arc::clone(count);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let tool = Tool::new("write", "Writes.", schema, move |input, _| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(ToolOutput::from_text(format!("wrote {}", input["path"])))
        }
    });
    tool.effect(Effect::Once)
}

pub(crate) fn text_of(end: RunEnd) -> String {
    match end {
        RunEnd::Completed { text, .. } => text,
        other => panic!("not completed: {other:?}"),
    }
}
