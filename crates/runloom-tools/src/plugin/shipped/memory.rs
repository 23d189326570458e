//! `@memory`: what the workspace remembers, for its agents.

use runloom_ports::error::{Chain, Error};
use runloom_ports::memory::{Recollection, Remember, Traverse, WorkspaceMemory};
use runloom_ports::tools::Outcome;
use serde_json::{Value, json};

use crate::content::Content;

/// Memories in one answer, unless the model asks for another number.
const RECALLED: u64 = 8;
const WALKED: u64 = 20;

/// Links that are followed, unless the model asks for another number.
const HOPS: u64 = 2;

pub(super) async fn recall(
    memory: &dyn WorkspaceMemory,
    workspace: &str,
    input: &Value,
) -> Result<Outcome, String> {
    let question = text(input, "query");
    let found = memory.recall(workspace, &question, number(input, "limit", RECALLED));
    Ok(shown(found.await.map_err(said)?))
}

pub(super) async fn remember(
    memory: &dyn WorkspaceMemory,
    workspace: &str,
    input: &Value,
) -> Result<Outcome, String> {
    let links = input.get("links").and_then(Value::as_array);
    let link = |link: &Value| (text(link, "relation"), text(link, "to"));
    let kept = Remember {
        key: input.get("key").and_then(Value::as_str).map(str::to_owned),
        text: text(input, "text"),
        links: links.map(|links| links.iter().map(link).collect()),
    };
    let kept = memory.remember(workspace, kept).await.map_err(said)?;
    Ok(answer(&json!({"key": kept.key, "created": kept.created})))
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
        limit: number(input, "limit", WALKED),
    };
    let key = walk.from.clone();
    match memory.traverse(workspace, walk).await {
        Ok(found) => Ok(shown(found)),
        Err(Error::NotFound { .. }) => Err(format!(
            "there is no memory with the key \"{key}\"; recall finds keys"
        )),
        Err(error) => Err(said(error)),
    }
}

fn text(input: &Value, name: &str) -> String {
    input
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A number whose bounds the tool's schema has checked.
fn number(input: &Value, name: &str, default: u64) -> usize {
    let number = input.get(name).and_then(Value::as_u64).unwrap_or(default);
    usize::try_from(number).unwrap_or(usize::MAX).min(100)
}

fn shown(found: Recollection) -> Outcome {
    let memories: Vec<Value> = found
        .memories
        .iter()
        .map(|memory| json!({"key": memory.key, "text": memory.text, "updatedAt": memory.updated_at}))
        .collect();
    let mut whole = json!({"memories": memories, "links": found.links});
    if found.truncated {
        whole["truncated"] = true.into();
    }
    answer(&whole)
}

fn answer(value: &Value) -> Outcome {
    let mut content = Content::new();
    content.text(&value.to_string());
    content.success()
}

/// An error in words for a model.
fn said(error: Error) -> String {
    match error {
        Error::Invalid(issues) => {
            let lines = issues.iter().map(ToString::to_string);
            lines.collect::<Vec<_>>().join("; ")
        }
        Error::Conflict { message } => message,
        error => {
            tracing::warn!(error = %Chain(&error), "memories cannot be reached");
            "the memory cannot be reached at the moment".to_owned()
        }
    }
}
