//! Placeholders for tools that are unavailable when their run begins.
//!
//! The toolset is stored with the run, so definitions are read again for a short time while the store is unavailable.
//! After that a placeholder takes the tool's place and tells the model why, because the model would otherwise answer as
//! if the tool did not exist.

use std::future::Future;
use std::time::Duration;

use runloom_ports::effect::Effect;
use runloom_ports::error::{Error, Result};
use runloom_ports::tools::{Outcome, ServerTool};
use serde_json::json;

use crate::content;
use crate::tool_kind::ToolOrigin;

/// Reason given for a tool whose definition can be read but not used.
pub(crate) const UNUSABLE_DEFINITION: &str = "its definition cannot be used";

/// Pauses between reads of the store, in milliseconds.
const RETRY_PAUSES_MS: [u64; 5] = [100, 200, 400, 800, 1600];

/// Reads from the store, and reads again for a short time while it is unavailable.
pub(crate) async fn retry_while_unavailable<T, F>(read: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for pause in RETRY_PAUSES_MS {
        match read().await {
            Err(Error::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            result => return result,
        }
    }
    read().await
}

/// A placeholder for a tool, or for all tools of a server. `origin.target` must name the tool's kind.
pub(crate) fn placeholder(
    name: &str,
    description: String,
    mut origin: ToolOrigin,
    reason: &str,
) -> ServerTool {
    if let Some(target) = origin.target.as_object_mut() {
        target.insert("unavailable".to_owned(), json!(reason));
    }
    ServerTool {
        action_effects: None,
        name: format!("{name}_unavailable"),
        description,
        parameters: json!({"type": "object", "properties": {}}),
        output_schema: None,
        effect: Effect::Read,
        annotations: None,
        policy: None,
        from: origin.index,
        target: origin.target,
    }
}

/// A placeholder for one tool.
pub(crate) fn tool_placeholder(name: &str, origin: ToolOrigin, reason: &str) -> ServerTool {
    let description =
        format!("The tool \"{name}\" is unavailable. Calling this tool returns the reason.");
    let last = name.rsplit('/').next().unwrap_or(name);
    placeholder(last, description, origin, reason)
}

/// The result of calling a placeholder; `None` when the tool is not one.
pub(crate) fn call_placeholder(tool: &ServerTool) -> Option<Outcome> {
    let reason = tool.target.get("unavailable")?.as_str()?;
    let message = format!("The tool was unavailable when the run began: {reason}.");
    Some(content::failure(message))
}
