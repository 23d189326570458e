//! `runloom project-cli`: one action of a shipped module, as the server starts it, or by hand.
//!
//! The process has no database: it sends its standard input to the loopback API of the server that started it, with the
//! credential from its environment.

use std::io::Read as _;
use std::time::Duration;

use runloom_project::call::invalid_input;
use runloom_project::{Failure, Module, SHIPPED, code, shipped};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output;

const USAGE: &str =
    "usage: runloom project-cli MODULE METHOD --format json < INPUT, or runloom project-cli --list";

/// Bytes of standard input.
const INPUT_MAX_BYTES: u64 = 1024 * 1024;

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the command with these arguments, all of them: an option that is not known is a failure in JSON.
pub(crate) async fn run(arguments: &[String]) -> std::io::Result<Exit> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let action = match arguments.as_slice() {
        ["--list"] => {
            output::line(list().to_string())?;
            return Ok(Exit::Ok);
        }
        [module, method, "--format", "json"] => (*module, *method),
        _ => {
            let failure = Failure::new("INVALID_ARGUMENTS", USAGE);
            output::line(failure.reply().to_string())?;
            return Ok(Exit::Usage);
        }
    };
    let reply = match act(action).await {
        Ok(reply) => reply,
        Err(failure) => failure.of(action.0, action.1).reply(),
    };
    output::line(reply.to_string())?;
    Ok(match reply.get("ok") {
        Some(Value::Bool(true)) => Exit::Ok,
        _ => Exit::Failure,
    })
}

/// What the shipped modules can do.
fn list() -> Value {
    let methods = |module: &Module| -> Vec<Value> {
        let methods = module.methods.iter().map(|method| {
            json!({"name": method.name, "effect": method.effect, "input_schema": method.input.rendered()})
        });
        methods.collect()
    };
    let modules: Vec<Value> = shipped::modules()
        .iter()
        .map(|module| json!({"name": module.name, "methods": methods(module)}))
        .collect();
    json!({ "modules": modules })
}

async fn act((module, method): (&str, &str)) -> Result<Value, Failure> {
    let unknown = || {
        let names = SHIPPED.join(", ");
        let message = format!("There is no such action; the modules are: {names}. Try --list.");
        Failure::new(code::UNKNOWN_ACTION, message)
    };
    let found = shipped::module(module).ok_or_else(unknown)?;
    let known = found.method(method).ok_or_else(unknown)?;
    let invalid = || Failure::new(code::CREDENTIAL_INVALID, "The credential is not valid.");
    let variable =
        |name: &str| std::env::var(format!("RUNLOOM_PROJECT_{name}")).map_err(|_| invalid());
    let (credential, api) = (variable("CREDENTIAL")?, variable("API")?);
    // The server alone knows what is allowed, so it is asked before the input is looked at.
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(TIMEOUT)
        .build()
        .map_err(|_| unavailable())?;
    let me = client.get(format!("{api}/whoami")).bearer_auth(&credential);
    let me = body_of(me).await?;
    let allow = me["allow"].as_array().ok_or_else(invalid)?;
    if !allow.contains(&json!(format!("{module}.{method}"))) {
        let message = "This run may not execute this action.";
        return Err(Failure::new(code::ACTION_NOT_ALLOWED, message));
    }
    let mut input = Vec::new();
    let read = std::io::stdin()
        .take(INPUT_MAX_BYTES)
        .read_to_end(&mut input);
    read.map_err(|_| Failure::new(code::INVALID_ACTION_INPUT, "The input cannot be read."))?;
    let input: Value = serde_json::from_slice(&input).unwrap_or(Value::Null);
    let issues = known.input.issues(&input);
    if !issues.is_empty() {
        return Err(invalid_input(known.input.rendered_for(&input), &issues));
    }
    let request = client
        .post(format!("{api}/{module}/{method}"))
        .bearer_auth(&credential)
        .header("content-type", "application/json")
        .body(input.to_string());
    body_of(request).await
}

/// The JSON body of a response, whatever its status: failures are bodies, too.
async fn body_of(request: reqwest::RequestBuilder) -> Result<Value, Failure> {
    let response = request.send().await.map_err(|_| unavailable())?;
    let bytes = response.bytes().await.map_err(|_| unavailable())?;
    let body: Value = serde_json::from_slice(&bytes).map_err(|_| unavailable())?;
    if body.get("ok") != Some(&Value::Bool(false)) {
        return Ok(body);
    }
    let error = body.get("error").cloned().unwrap_or_default();
    let text = |key: &str| error[key].as_str().unwrap_or_default();
    let mut failure = Failure::new(text("code"), text("message"));
    failure.more = error.as_object().cloned().unwrap_or_default();
    for known in ["code", "message", "module", "method"] {
        failure.more.remove(known);
    }
    Err(failure)
}

fn unavailable() -> Failure {
    Failure::new(code::INTERNAL, "The server cannot be reached.")
}
