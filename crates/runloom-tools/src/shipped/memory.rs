//! `@memory`: the memories of the workspace.

use runloom_ports::error::{Chain, Error};
use runloom_ports::memory::{Recollection, Remember, Traverse, WorkspaceMemory};
use runloom_ports::tools::Outcome;
use serde_json::{Value, json};

use crate::content::ResultContent;

/// Default numbers of memories in one result.
const RECALL_LIMIT: u64 = 8;
const TRAVERSE_LIMIT: u64 = 20;

/// Default number of links to follow.
const HOPS: u64 = 2;

pub(super) async fn recall(
    memory: &dyn WorkspaceMemory,
    workspace: &str,
    input: &Value,
) -> Result<Outcome, String> {
    let query = text(input, "query");
    let limit = number(input, "limit", RECALL_LIMIT);
    let found = memory.recall(workspace, &query, limit).await;
    Ok(recollection(found.map_err(message)?))
}

pub(super) async fn remember(
    memory: &dyn WorkspaceMemory,
    workspace: &str,
    input: &Value,
) -> Result<Outcome, String> {
    let links = input.get("links").and_then(Value::as_array);
    let link = |link: &Value| (text(link, "relation"), text(link, "to"));
    let new = Remember {
        key: input.get("key").and_then(Value::as_str).map(str::to_owned),
        text: text(input, "text"),
        links: links.map(|links| links.iter().map(link).collect()),
    };
    let stored = memory.remember(workspace, new).await.map_err(message)?;
    Ok(json_outcome(
        &json!({"key": stored.key, "created": stored.created}),
    ))
}

pub(super) async fn traverse(
    memory: &dyn WorkspaceMemory,
    workspace: &str,
    input: &Value,
) -> Result<Outcome, String> {
    let walk = Traverse {
        from: text(input, "key"),
        relation: input
            .get("relation")
            .and_then(Value::as_str)
            .map(str::to_owned),
        hops: u32::try_from(number(input, "hops", HOPS)).unwrap_or(u32::MAX),
        limit: number(input, "limit", TRAVERSE_LIMIT),
    };
    let key = walk.from.clone();
    match memory.traverse(workspace, walk).await {
        Ok(found) => Ok(recollection(found)),
        Err(Error::NotFound { .. }) => Err(format!(
            "there is no memory with the key \"{key}\"; recall finds keys"
        )),
        Err(error) => Err(message(error)),
    }
}

fn text(input: &Value, name: &str) -> String {
    input
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A number, whose range the tool's schema checks.
fn number(input: &Value, name: &str, default: u64) -> usize {
    let number = input.get(name).and_then(Value::as_u64).unwrap_or(default);
    usize::try_from(number).unwrap_or(usize::MAX).min(100)
}

fn recollection(found: Recollection) -> Outcome {
    let memories: Vec<Value> = found
        .memories
        .iter()
        .map(|memory| json!({"key": memory.key, "text": memory.text, "updatedAt": memory.updated_at}))
        .collect();
    let mut result = json!({"memories": memories, "links": found.links});
    if found.truncated {
        result["truncated"] = true.into();
    }
    json_outcome(&result)
}

fn json_outcome(value: &Value) -> Outcome {
    let mut content = ResultContent::new();
    content.text(&value.to_string());
    content.success()
}

/// The message for the model.
fn message(error: Error) -> String {
    match error {
        Error::Invalid(issues) => {
            let lines = issues.iter().map(ToString::to_string);
            lines.collect::<Vec<_>>().join("; ")
        }
        Error::Conflict { message } => message,
        error => {
            tracing::warn!(error = %Chain(&error), "memory store unavailable");
            "the memory store is unavailable at the moment".to_owned()
        }
    }
}
