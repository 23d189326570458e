//! The contract of the protocol crate, from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so by failing"
)]

mod arbitrary;
mod attachments;
mod definitions;
mod errors;
mod frames;
mod limits_of_results;
mod limits_of_specs;
mod limits_of_tools;
mod limits_of_web;
mod plugins;
mod refusals;
mod resources;
mod sdk_bodies;

use runloom_protocol::error::Issue;
use serde_json::{Value, json};

/// The smallest run.
fn run() -> Value {
    json!({"systemPrompt": "You help.", "prompt": "Hi"})
}

/// The smallest run with one more field.
fn run_with(key: &str, value: Value) -> Value {
    let mut body = run();
    body[key] = value;
    body
}

/// The smallest run with these tools.
fn run_with_tools(tools: Value) -> Value {
    run_with("tools", tools)
}

/// The only issue of a refusal.
fn only<T: std::fmt::Debug>(result: Result<T, Vec<Issue>>) -> Issue {
    let issues = result.expect_err("the body should be refused");
    assert_eq!(issues.len(), 1, "{issues:#?}");
    issues.into_iter().next().unwrap()
}

/// The paths of a refusal, in order.
fn paths<T: std::fmt::Debug>(result: Result<T, Vec<Issue>>) -> Vec<String> {
    let issues = result.expect_err("the body should be refused");
    issues.into_iter().map(|issue| issue.path).collect()
}
