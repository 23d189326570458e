//! From JSON to a checked request, or every violation at once.
//!
//! A body is read field by field rather than by serde, because a client that made three mistakes should hear of all
//! three, each with its path. `null` in an optional field is absence; unknown top-level fields are ignored, so that
//! newer and older SDKs work; unknown fields inside documents that belong to others (agent cards, MCP tools, server
//! info) are kept.
//!
//! Not here: whatever needs to know the workspace, such as whether a model, an agent or a plugin exists.

mod attachments;
mod definitions;
mod depth;
mod documents;
mod feedback;
mod fields;
mod guards;
mod issues;
mod messages;
mod names;
mod spec;
mod spelling;
mod tool_result;
mod tools;
mod web;

use serde_json::Value;

use crate::error::Issue;
use crate::spec::{CreateMessage, CreateRun, CreateSession, SubmitFeedback, SubmitToolResult};
pub use definitions::{
    PluginSource, agent_definition, external_agent, plugin_manifest, provider_definition,
    secret_value, tool_definition,
};
pub use depth::fits_in_depth;
use fields::Fields;
use issues::{Issues, Path};

pub use crate::attachment::is_attachment_type;
pub use web::is_servers_header;

/// Checks the body of `POST /agent-runs`.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn create_run(body: &Value) -> Result<CreateRun, Vec<Issue>> {
    checked(body, |fields, issues| {
        let messages = messages::read(fields, issues);
        let spec = spec::read(fields, spec::system_message(fields), issues);
        CreateRun { spec, messages }
    })
}

/// What nobody reads of a body of `POST /agent-runs`: probably slips, or fields of another version.
#[must_use]
pub fn unread_of_run(body: &Value) -> Vec<String> {
    spelling::remarks(body)
}

/// Checks the body of `POST /agent-sessions`. A session starts without a prompt: `prompt` and `messages` are ignored
/// like any other field that this request does not have.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn create_session(body: &Value) -> Result<CreateSession, Vec<Issue>> {
    checked(body, |fields, issues| CreateSession {
        spec: spec::read(fields, spec::SystemMessage::Absent, issues),
    })
}

/// Checks the body of `POST /agent-sessions/{id}/messages`.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn create_message(body: &Value) -> Result<CreateMessage, Vec<Issue>> {
    checked(body, |fields, issues| {
        spec::refuse_plan_only(fields, issues);
        CreateMessage {
            messages: messages::read(fields, issues),
            tools: tools::read(fields, issues),
            reasoning_level: spec::reasoning_level(fields, issues),
            output_schema: documents::output_schema(fields, issues),
            loop_detection: guards::loop_detection(fields, issues),
            tool_budgets: guards::tool_budgets(fields, issues),
            budgets: guards::budgets(fields, issues),
            metadata: documents::metadata(fields, issues),
        }
    })
}

/// Checks the body of `POST /agent-runs/{id}/tool-results`.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn tool_result(body: &Value) -> Result<SubmitToolResult, Vec<Issue>> {
    checked(body, tool_result::read)
}

/// Checks the body of `POST /agent-runs/{id}/feedback`.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn feedback(body: &Value) -> Result<SubmitFeedback, Vec<Issue>> {
    checked(body, feedback::read)
}

/// Reads the body with `read`, which returns something even when it found violations: the value only leaves this
/// function when there are none.
fn checked<T>(
    body: &Value,
    read: impl FnOnce(&Fields<'_, '_>, &mut Issues) -> T,
) -> Result<T, Vec<Issue>> {
    let mut issues = Issues::default();
    match Fields::of(body, &Path::ROOT, &mut issues) {
        Some(fields) => {
            let value = read(&fields, &mut issues);
            issues.finish(value)
        }
        None => Err(issues.finish(()).err().unwrap_or_default()),
    }
}
