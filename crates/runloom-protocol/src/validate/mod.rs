//! From JSON to a checked request, or every violation at once.
//!
//! A body is read field by field rather than by serde, because a client that made three mistakes should hear of all
//! three, each with its path. `null` in an optional field is absence; unknown top-level fields are ignored, so that
//! newer and older SDKs work; unknown fields inside documents that belong to others (agent cards, MCP tools, server
//! info) are kept.
//!
//! Not here: whatever needs to know the workspace, such as whether a model, an agent or a plugin exists.

mod ag_ui;
mod approval;
mod attachments;
mod compaction;
mod definitions;
mod depth;
mod documents;
mod feedback;
mod guards;
mod messages;
mod spec;
mod templates;
mod tool_result;

use serde_json::Value;

use crate::ag_ui::RunAgentInput;
use crate::approval::DecideApproval;
use crate::error::Issue;
use crate::read::{DocumentReader, Fields, ReaderOptions};
use crate::spec::{CreateMessage, CreateRun, CreateSession, SubmitFeedback, SubmitToolResult};
pub use definitions::{
    DefinitionSource, agent_definition, external_agent, plugin_manifest, project_definition,
    provider_definition, secret_value, tool_definition, toolset_definition,
};
pub use depth::fits_in_depth;

pub use crate::attachment::is_attachment_type;
pub use crate::check::web::is_servers_header;

use crate::check::unknown::{UnknownFields, WARNINGS_MAX};

/// Checks the body of `POST /agent-runs`.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn create_run(body: &Value) -> Result<CreateRun, Vec<Issue>> {
    checked(body, read_run)
}

/// Warnings about fields of a body of `POST /agent-runs` that this server does not read: misspellings, or fields of
/// another version.
#[must_use]
pub fn unread_of_run(body: &Value) -> Vec<String> {
    let reader = DocumentReader::new(ReaderOptions::json());
    read_run(&reader.root(body).fields_or_empty());
    let warnings = reader.into_findings().warnings.into_iter();
    warnings
        .map(|warning| warning.message)
        .take(WARNINGS_MAX)
        .collect()
}

fn read_run(fields: &Fields<'_, '_>) -> CreateRun {
    let messages = messages::read(fields);
    let spec = spec::read(fields, spec::system_message(fields));
    UnknownFields::Ignored.check(fields);
    CreateRun { spec, messages }
}

/// Checks the body of `POST /agent-sessions`. A session starts without a prompt: `prompt` and `messages` are ignored
/// like any other field that this request does not have.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn create_session(body: &Value) -> Result<CreateSession, Vec<Issue>> {
    checked(body, |fields| CreateSession {
        spec: spec::read(fields, spec::SystemMessage::Absent),
    })
}

/// Checks the body of `POST /agent-sessions/{id}/messages`.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn create_message(body: &Value) -> Result<CreateMessage, Vec<Issue>> {
    checked(body, |fields| {
        spec::refuse_plan_only(fields);
        CreateMessage {
            messages: messages::read(fields),
            tools: crate::tools::read(fields),
            reasoning_level: spec::reasoning_level(fields),
            output_schema: documents::output_schema(fields),
            loop_detection: guards::loop_detection(fields, UnknownFields::Ignored),
            tool_budgets: guards::tool_budgets(fields, UnknownFields::Ignored),
            compaction: compaction::compaction(fields, UnknownFields::Ignored),
            budgets: guards::budgets(fields, UnknownFields::Ignored),
            max_depth: guards::max_depth(fields),
            policy: crate::policy::read(fields),
            metadata: documents::metadata(fields),
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

/// Checks the body of `POST /ag-ui`. Whether it names an agent depends on the path and is checked by the use case.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn ag_ui(body: &Value) -> Result<RunAgentInput, Vec<Issue>> {
    checked(body, ag_ui::read)
}

/// Checks the body of `POST /agent-runs/{id}/approvals`.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn decide_approval(body: &Value) -> Result<DecideApproval, Vec<Issue>> {
    checked(body, approval::read)?.ok_or_else(Vec::new)
}

/// Reads a body. `read` returns a value even after an error; the value leaves this function only when there were none.
fn checked<T>(body: &Value, read: impl FnOnce(&Fields<'_, '_>) -> T) -> Result<T, Vec<Issue>> {
    let reader = DocumentReader::new(ReaderOptions::json());
    let value = reader.root(body).fields().map(|fields| read(&fields));
    // Without an object there is an error, so `None` never becomes a value.
    reader.finish(value)?.ok_or_else(Vec::new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warns_of_unread_fields_in_bounded_number() {
        let body = json!({
            "prompt": "x", "metdata": {}, "supervisor": true, "budgets": {"maxSteps": 3}, "loopDetection": false,
        });
        assert_eq!(
            unread_of_run(&body),
            [
                "`budgets.maxSteps` is not read by this server",
                "`metdata` is not read by this server; did you mean `metadata`?",
                "`supervisor` is not read by this server",
            ]
        );
        let many: serde_json::Map<_, _> =
            (0..100).map(|n| (format!("field {n}"), json!(1))).collect();
        assert_eq!(unread_of_run(&Value::Object(many)).len(), WARNINGS_MAX);
    }
}
