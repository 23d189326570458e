//! Tools that are not there when their run begins. The toolset is stored for the run's life, so they are asked for again for a moment,
//! and then a stub says why: without it the model would answer as if there had never been such a tool.

use std::future::Future;
use std::time::Duration;

use runloom_ports::effect::Effect;
use runloom_ports::error::{Error, Result};
use runloom_ports::tools::{Outcome, ServerTool};
use serde_json::{Value, json};

use crate::content;

/// Why a tool is not offered whose definition can be read.
pub(crate) const UNUSABLE: &str = "its definition cannot be used";

/// Pauses before the store is asked again, in milliseconds.
const PAUSES_MS: [u64; 5] = [100, 200, 400, 800, 1600];

/// Asks again for a moment while the store is away.
pub(crate) async fn insist<T, F>(ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for pause in PAUSES_MS {
        match ask().await {
            Err(Error::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            answer => return answer,
        }
    }
    ask().await
}

/// What stands in for a tool, or for all tools of a server. `target` leads back to its kind.
pub(crate) fn stub(
    name: &str,
    description: String,
    (from, mut target): (usize, Value),
    why: &str,
) -> ServerTool {
    if let Some(target) = target.as_object_mut() {
        target.insert("unavailable".to_owned(), json!(why));
    }
    ServerTool {
        name: format!("{name}_unavailable"),
        description,
        parameters: json!({"type": "object", "properties": {}}),
        output_schema: None,
        effect: Effect::Read,
        from,
        target,
    }
}

/// The same for one tool.
pub(crate) fn stub_of_tool(name: &str, place: (usize, Value), why: &str) -> ServerTool {
    let description = format!("The tool \"{name}\" is unavailable. Calling this tool says why.");
    let last = name.rsplit('/').next().unwrap_or(name);
    stub(last, description, place, why)
}

/// What a call to a stub says; `None` when the tool is none.
pub(crate) fn called(tool: &ServerTool) -> Option<Outcome> {
    let why = tool.target.get("unavailable")?.as_str()?;
    let message = format!("What this stands for was unavailable when the run began: {why}.");
    Some(content::failure(message))
}
