//! Checks 1 to 5 of a call: envelope, router, allow-list, credentials in the input, input type. No process is started.

use std::sync::Arc;

use runloom_ports::project::RunProject;
use runloom_protocol::tools::is_project_name;
use serde_json::{Map, Value, json};

use crate::credential_text::contains_credential;
use crate::failure::{Failure, code};
use crate::input::InputIssue;
use crate::module::Module;
use crate::module_set::ModuleSet;
use crate::{SKILLS, skills};

/// Bytes of an input as JSON.
pub const INPUT_MAX_BYTES: usize = 65_536;
/// Levels of an input.
pub const INPUT_MAX_DEPTH: usize = 32;

/// A call that passed the checks.
#[derive(Debug, Clone)]
pub enum CheckedCall {
    /// `skills.list` or `skills.read`, which need no process.
    Answered(Value),
    /// An action to be run. The names are those of the router's table.
    Run {
        /// The module.
        module: Arc<Module>,
        /// The name of the method.
        method: String,
        /// What goes to stdin.
        input: Value,
    },
}

/// Runs checks 1 to 5 in their order.
///
/// # Errors
/// The failure of the first check that fails.
pub fn check(
    modules: &ModuleSet,
    workspace: &str,
    project: &RunProject,
    call: &Value,
) -> Result<CheckedCall, Failure> {
    let envelope = Envelope::read(call)?;
    let Envelope {
        module,
        method,
        input,
    } = envelope;
    let fail = |code: &str, message: &str| Failure::new(code, message).of(module, method);
    if module == SKILLS {
        let known = skills::input_type(method);
        let known = known.ok_or_else(|| unknown(project).of(module, method))?;
        refuse_credentials(input).map_err(|failure| failure.of(module, method))?;
        let issues = known.issues(input);
        if !issues.is_empty() {
            let schema = known.rendered_for(input);
            return Err(invalid_input(schema, &issues).of(module, method));
        }
        let data = skills::answer(modules, workspace, project, method, input)
            .map_err(|failure| failure.of(module, method))?;
        return Ok(CheckedCall::Answered(data));
    }
    if !project.has(module, method) {
        return Err(unknown(project).of(module, method));
    }
    if !project.allows(module, method) {
        let message = "This run may not execute this action.";
        return Err(fail(code::ACTION_NOT_ALLOWED, message));
    }
    refuse_credentials(input).map_err(|failure| failure.of(module, method))?;
    // The run keeps its router; a module that was removed from the configuration since cannot be run any more.
    let gone = || {
        fail(
            code::PROCESS_UNAVAILABLE,
            "The module is not installed any more.",
        )
    };
    let found = modules.module(workspace, module).ok_or_else(gone)?;
    let known = found.method(method).ok_or_else(gone)?;
    let issues = known.input.issues(input);
    if !issues.is_empty() {
        let schema = known.input.rendered_for(input);
        return Err(invalid_input(schema, &issues).of(module, method));
    }
    Ok(CheckedCall::Run {
        module: Arc::clone(found),
        method: known.name.clone(),
        input: input.clone(),
    })
}

/// The failure of check 5.
#[must_use]
pub fn invalid_input(input_schema: Value, issues: &[InputIssue]) -> Failure {
    let message =
        "The input does not fit this action: correct what `issues` names, as `input_schema` says.";
    Failure::new(code::INVALID_ACTION_INPUT, message).with_issues(input_schema, issues)
}

/// The failure of check 2.
#[must_use]
pub fn unknown(project: &RunProject) -> Failure {
    let names: Vec<&str> = project
        .router
        .iter()
        .map(|module| module.name.as_str())
        .collect();
    let message = format!(
        "There is no such action. The modules are: {}. Module \"skills\", method \"list\" lists their actions.",
        names.join(", ")
    );
    Failure::new(code::UNKNOWN_ACTION, message)
}

fn refuse_credentials(input: &Value) -> Result<(), Failure> {
    if contains_credential(input) {
        let message = "The input contains a credential. Credentials are never given to actions; leave it out.";
        return Err(Failure::new(code::CREDENTIAL_IN_INPUT, message));
    }
    Ok(())
}

struct Envelope<'c> {
    module: &'c str,
    method: &'c str,
    input: &'c Value,
}

impl<'c> Envelope<'c> {
    /// Check 1.
    fn read(call: &'c Value) -> Result<Self, Failure> {
        let mut issues = Vec::new();
        if !call.is_object() {
            issues.push(issue("", "must be an object"));
        }
        for name in call.as_object().into_iter().flat_map(Map::keys) {
            if !["module", "method", "input"].contains(&name.as_str()) {
                let path: String = name.chars().take(64).collect();
                issues.push(issue(
                    &path,
                    "is not part of a call: it has module, method and input",
                ));
            }
        }
        let mut name = |key: &str| match call.get(key) {
            Some(Value::String(text)) if is_project_name(text) => Some(text.as_str()),
            Some(_) => {
                issues.push(issue(
                    key,
                    "must be a name: 1 to 32 of a-z, 0-9 and _, beginning with a letter",
                ));
                None
            }
            None => {
                issues.push(issue(key, "is required"));
                None
            }
        };
        let (module, method) = (name("module"), name("method"));
        let input = call.get("input");
        match input {
            None => issues.push(issue("input", "is required")),
            Some(Value::Object(_)) => {}
            Some(_) => issues.push(issue("input", "must be an object")),
        }
        if let Some(input) = input {
            if input.to_string().len() > INPUT_MAX_BYTES {
                issues.push(issue("input", "must have at most 65536 bytes"));
            }
            if depth(input) > INPUT_MAX_DEPTH {
                issues.push(issue("input", "must have at most 32 levels"));
            }
        }
        match (module, method, input) {
            (Some(module), Some(method), Some(input)) if issues.is_empty() => Ok(Self {
                module,
                method,
                input,
            }),
            _ => {
                let message = "A call has exactly `module`, `method` and `input`.";
                let schema = json!({"module": "string", "method": "string", "input": "object"});
                let mut failure =
                    Failure::new(code::INVALID_ENVELOPE, message).with_issues(schema, &issues);
                failure.module = module.map(str::to_owned);
                failure.method = method.map(str::to_owned);
                Err(failure)
            }
        }
    }
}

fn issue(path: &str, message: &str) -> InputIssue {
    InputIssue {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

/// The levels of a value. The model's arguments came through a parser that bounds them.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
