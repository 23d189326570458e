//! What a call came to: the answer of a child process (checks 10 and 11), and `ToolAgentOutput`.

use serde_json::{Map, Value, json};

use crate::TOOL_NAME;
use crate::called::{Called, Status};
use crate::credential_text::redacted;
use crate::failure::{Failure, code, is_code};
use crate::ui;

/// The answer of an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// `data`, of any JSON.
    Done(Value),
    /// `data`, and what was not done.
    Partly(Value, Failure),
}

/// How a child process ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With status 0.
    Zero,
    /// With another status, or by a signal.
    Failed,
}

/// Checks 10 and 11: reads what a child process printed.
///
/// # Errors
/// The module's own failure, [`code::PROCESS_FAILED`] or [`code::INVALID_OUTPUT`].
pub fn read_answer(called: Called<'_>, exit: Exit, stdout: &[u8]) -> Result<Answer, Failure> {
    let ended = || {
        called.failure(
            code::PROCESS_FAILED,
            "The action's process ended without an answer.",
        )
    };
    let invalid = |message: &str| called.failure(code::INVALID_OUTPUT, message);
    let parsed: Option<Value> = serde_json::from_slice(stdout).ok();
    let says_failure = parsed
        .as_ref()
        .is_some_and(|value| value.get("ok") == Some(&Value::Bool(false)));
    if stdout.trim_ascii().is_empty() || (exit == Exit::Failed && !says_failure) {
        return Err(ended());
    }
    let Some(Value::Object(mut object)) = parsed else {
        return Err(invalid("The action did not answer with one JSON object."));
    };
    for (key, wanted) in [("module", called.module), ("method", called.method)] {
        if object.get(key).is_some_and(|given| given != wanted) {
            return Err(invalid("The action answered for another action."));
        }
    }
    match object.get("ok") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => {
            let failure = error_of(called, object.remove("error"));
            return Err(failure.unwrap_or_else(|| {
                invalid("The action failed without `error` with `code` and `message`.")
            }));
        }
        _ => return Err(invalid("The answer of the action has no `ok`.")),
    }
    let Some(data) = object.remove("data") else {
        return Err(invalid("The answer of the action has no `data`."));
    };
    match object.get("partial") {
        None | Some(Value::Bool(false)) => Ok(Answer::Done(data)),
        Some(Value::Bool(true)) => match error_of(called, object.remove("error")) {
            Some(failure) => Ok(Answer::Partly(data, failure)),
            None => Err(invalid(
                "A partial answer needs `error` with `code` and `message`.",
            )),
        },
        Some(_) => Err(invalid("`partial` must be true or false.")),
    }
}

fn error_of(called: Called<'_>, error: Option<Value>) -> Option<Failure> {
    let Some(Value::Object(mut error)) = error else {
        return None;
    };
    let code = error
        .remove("code")?
        .as_str()
        .filter(|code| is_code(code))?
        .to_owned();
    let message = error.remove("message")?.as_str()?.to_owned();
    for ours in ["module", "method"] {
        error.remove(ours);
    }
    Some(Failure {
        more: error,
        ..Failure::new(&code, message).of(called.module, called.method)
    })
}

/// The whole outcome of a call, for the server and its front ends.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAgentOutput {
    tool_call_id: String,
    tool_call_args: Value,
    status: Status,
    result: Value,
    error: Value,
    ui_hints: Value,
}

impl ToolAgentOutput {
    /// The outcome of a call with these arguments. `called` is the action of an answer; a failure names its own.
    #[must_use]
    pub fn new(
        tool_call_id: &str,
        arguments: &Value,
        called: Called<'_>,
        outcome: Result<Answer, Failure>,
    ) -> Self {
        let action = |data: Value| {
            Map::from_iter([
                ("module".to_owned(), json!(called.module)),
                ("method".to_owned(), json!(called.method)),
                ("data".to_owned(), data),
            ])
        };
        let (status, result, error) = match outcome {
            Ok(Answer::Done(data)) => (Status::Success, Value::Object(action(data)), Value::Null),
            Ok(Answer::Partly(data, failure)) => {
                let mut result = Map::from_iter([("status".to_owned(), json!("partial"))]);
                result.append(&mut action(data));
                result.insert("error".to_owned(), failure.error());
                (Status::Partial, Value::Object(result), failure.error())
            }
            Err(failure) => {
                let error = failure.error();
                let result = json!({"status": "failure", "error": error});
                (Status::Failure, result, error)
            }
        };
        let arguments = redacted(arguments);
        let ui_hints = ui::hints(status, called);
        Self {
            tool_call_id: tool_call_id.to_owned(),
            tool_call_args: arguments,
            status,
            result,
            error,
            ui_hints,
        }
    }

    /// How the call ended.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// The text that the model reads: `result` as compact JSON. It is stored and never made again.
    #[must_use]
    pub fn text(&self) -> String {
        self.result.to_string()
    }

    /// `calendar.read: success`.
    #[must_use]
    pub fn summary(&self) -> String {
        let place = if self.status == Status::Failure {
            &self.error
        } else {
            &self.result
        };
        let name = |key: &str| place.get(key).and_then(Value::as_str);
        let action = match (name("module"), name("method")) {
            (Some(module), Some(method)) => format!("{module}.{method}"),
            _ => TOOL_NAME.to_owned(),
        };
        format!("{action}: {}", self.status.as_str())
    }

    /// What is stored beside the log and never sent.
    #[must_use]
    pub fn ui_hints(&self) -> &Value {
        &self.ui_hints
    }

    /// The tool metadata: the output without `ui_hints`, and `ui_schema` where the action has a template.
    #[must_use]
    pub fn metadata(&self) -> Value {
        let output = json!({
            "tool_name": TOOL_NAME,
            "tool_call_id": self.tool_call_id,
            "tool_call_args": self.tool_call_args,
            "status": self.status.as_str(),
            "result": self.result,
            "error": self.error,
        });
        let mut metadata = Map::from_iter([("tool_agent_output".to_owned(), output)]);
        let schema = ui::compile(
            &self.ui_hints,
            &self.tool_call_args["input"],
            &self.result["data"],
        );
        if let Some(schema) = schema {
            metadata.insert("ui_schema".to_owned(), schema);
        }
        Value::Object(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Called<'static> = Called {
        module: "crm",
        method: "find",
    };

    #[test]
    fn only_answers_of_the_right_form_are_taken() {
        for (exit, stdout, expected) in [
            (Exit::Zero, "", code::PROCESS_FAILED),
            (Exit::Zero, " \n", code::PROCESS_FAILED),
            (
                Exit::Failed,
                r#"{"ok":true,"data":1}"#,
                code::PROCESS_FAILED,
            ),
            (Exit::Failed, "Traceback", code::PROCESS_FAILED),
            (Exit::Zero, "Traceback", code::INVALID_OUTPUT),
            (Exit::Zero, "[]", code::INVALID_OUTPUT),
            (
                Exit::Zero,
                "{\"ok\":true,\"data\":1} {}",
                code::INVALID_OUTPUT,
            ),
            (Exit::Zero, r#"{"ok":true}"#, code::INVALID_OUTPUT),
            (
                Exit::Zero,
                r#"{"ok":"true","data":1}"#,
                code::INVALID_OUTPUT,
            ),
            (
                Exit::Zero,
                r#"{"ok":true,"data":1,"module":"x"}"#,
                code::INVALID_OUTPUT,
            ),
            (
                Exit::Zero,
                r#"{"ok":false,"error":{"code":"bad","message":"m"}}"#,
                code::INVALID_OUTPUT,
            ),
            (
                Exit::Zero,
                r#"{"ok":false,"error":"no"}"#,
                code::INVALID_OUTPUT,
            ),
            (
                Exit::Zero,
                r#"{"ok":true,"partial":true,"data":1}"#,
                code::INVALID_OUTPUT,
            ),
            (
                Exit::Failed,
                r#"{"ok":false,"error":{"code":"NO_CUSTOMER","message":"m"}}"#,
                "NO_CUSTOMER",
            ),
        ] {
            let failure = read_answer(READ, exit, stdout.as_bytes()).unwrap_err();
            assert_eq!(failure.code, expected, "{stdout}");
            assert_eq!(failure.module.as_deref(), Some("crm"));
        }
        let invalid =
            read_answer(READ, Exit::Zero, b"{\"ok\":true,\"data\":\"\xff\"}").unwrap_err();
        assert_eq!(invalid.code, code::INVALID_OUTPUT);
        let done = read_answer(
            READ,
            Exit::Zero,
            br#"{"ok":true,"module":"crm","method":"find","data":null,"x":1}"#,
        );
        assert_eq!(done.unwrap(), Answer::Done(Value::Null));
    }

    #[test]
    fn the_outcome_has_one_shape_for_each_status() {
        let arguments = json!({"module": "crm", "method": "find", "input": {"x": "mantyx_at_1"}});
        let done =
            ToolAgentOutput::new("tu_1", &arguments, READ, Ok(Answer::Done(json!({"id": 1}))));
        assert_eq!(
            done.text(),
            r#"{"module":"crm","method":"find","data":{"id":1}}"#
        );
        assert_eq!(done.summary(), "crm.find: success");
        let output = &done.metadata()["tool_agent_output"];
        assert_eq!(output["error"], Value::Null);
        assert_eq!(output["tool_call_args"]["input"]["x"], "***");
        assert!(output.get("ui_hints").is_none());
        let failure = Failure::new("PARTIAL", "half").of("crm", "find");
        let partly = Answer::Partly(json!([]), failure.clone());
        let partly = ToolAgentOutput::new("tu_1", &arguments, READ, Ok(partly));
        let error = r#"{"code":"PARTIAL","message":"half","module":"crm","method":"find"}"#;
        assert_eq!(
            partly.text(),
            format!(
                r#"{{"status":"partial","module":"crm","method":"find","data":[],"error":{error}}}"#
            )
        );
        let failed = ToolAgentOutput::new("tu_1", &json!("x"), READ, Err(failure));
        assert_eq!(
            failed.text(),
            format!(r#"{{"status":"failure","error":{error}}}"#)
        );
        assert_eq!(
            failed.metadata()["tool_agent_output"]["tool_call_args"],
            "x"
        );
        assert_eq!(failed.status(), Status::Failure);
    }
}
