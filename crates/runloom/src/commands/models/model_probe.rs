//! A test call of a configured model from this machine, with request and response when it fails.

use anyhow::Context;
use futures_util::StreamExt;
use runloom_client::protocol::outcome::{ErrorClass, Tokens};
use runloom_engine::catalog::CatalogModel;
use runloom_models::RecordedCall;
use runloom_ports::model::{Message, ModelError, ModelEvent, ModelRequest};
use serde_json::{Value, json};

use crate::app::models::recorded;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output;

/// Enough tokens for a sentence, also for a model that reasons first.
const MAX_OUTPUT_TOKENS: u64 = 1_024;

/// The outcome of a call.
#[derive(Default)]
struct Heard {
    text: String,
    tokens: Tokens,
}

/// Calls the model once and reports the outcome.
pub(super) async fn run(
    config: &Config,
    workspace: Option<&str>,
    model: Option<&str>,
    json: bool,
) -> Result<Exit, Failure> {
    let workspace = workspace_of(config, workspace)?;
    let (catalog, recorder) = recorded(config).context("the models cannot be opened")?;
    let model = catalog.resolve(workspace, model).map_err(|error| {
        let known: Vec<String> = catalog
            .list(workspace)
            .models
            .into_iter()
            .map(|model| model.id)
            .collect();
        let known = if known.is_empty() {
            "the configuration has no model whose key is set".to_owned()
        } else {
            format!("known: {}", known.join(", "))
        };
        Failure::new(Exit::Usage, format!("{error} ({known})"))
    })?;
    let outcome = call(&model).await;
    let recorded = recorder.last();
    if json {
        output::json(&report(&model, &outcome, recorded.as_ref()))?;
    }
    match outcome {
        Ok(heard) => {
            if !json {
                output::line(heard.text.trim())?;
                output::note(crate::render::summary(&heard.tokens, 1, None, None));
            }
            Ok(Exit::Ok)
        }
        Err(error) => {
            if !json && let Some(recorded) = &recorded {
                show(recorded)?;
            }
            Err(Failure::new(Exit::RunFailed, explained(&model, &error)))
        }
    }
}

/// The named workspace, or the only one.
fn workspace_of<'a>(config: &'a Config, named: Option<&'a str>) -> Result<&'a str, Failure> {
    let slugs: Vec<&str> = config
        .workspaces
        .iter()
        .map(|workspace| workspace.slug.as_str())
        .collect();
    match (named, slugs.as_slice()) {
        (Some(named), _) if slugs.is_empty() || slugs.contains(&named) => Ok(named),
        (Some(named), _) => Err(Failure::new(
            Exit::Usage,
            format!(
                "the configuration has no workspace `{named}`: it has {}",
                slugs.join(", ")
            ),
        )),
        // Platform models need no workspace.
        (None, []) => Ok(""),
        (None, [only]) => Ok(only),
        (None, several) => Err(Failure::new(
            Exit::Usage,
            format!("which workspace? Give --workspace: {}", several.join(", ")),
        )),
    }
}

async fn call(model: &CatalogModel) -> Result<Heard, ModelError> {
    let request = ModelRequest {
        system: "Answer in one short sentence.".into(),
        max_output_tokens: Some(MAX_OUTPUT_TOKENS),
        cache_key: "models-test".into(),
        ..ModelRequest::new(vec![Message::User {
            text: "Say hello.".into(),
        }])
    };
    let mut heard = Heard::default();
    let mut stream = model.model.call(request).await?;
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Text(piece) => heard.text.push_str(&piece),
            ModelEvent::Usage(tokens) => heard.tokens = tokens,
            _ => {}
        }
    }
    Ok(heard)
}

fn report(
    model: &CatalogModel,
    outcome: &Result<Heard, ModelError>,
    recorded: Option<&RecordedCall>,
) -> Value {
    let recorded = recorded.map_or(Value::Null, |recorded| json!(recorded));
    match outcome {
        Ok(heard) => {
            json!({"ok": true, "model": model.id, "text": heard.text, "tokens": heard.tokens})
        }
        Err(error) => json!({
            "ok": false,
            "model": model.id,
            "errorClass": error.class.as_str(),
            "apiStatus": error.api_status,
            "apiCode": error.api_code,
            "error": error.message,
            "hint": hint(error),
            "exchange": recorded,
        }),
    }
}

fn explained(model: &CatalogModel, error: &ModelError) -> String {
    let status = error
        .api_status
        .map_or_else(String::new, |status| format!(", HTTP {status}"));
    let mut text = format!(
        "{} ({}{status}): {}",
        model.id,
        error.class.as_str(),
        error.message
    );
    if let Some(hint) = hint(error) {
        text.push_str("\nhint: ");
        text.push_str(hint);
    }
    text
}

/// The usual cause of a failure.
fn hint(error: &ModelError) -> Option<&'static str> {
    Some(match (error.class, error.api_status) {
        (ErrorClass::Auth, _) => {
            "the provider refuses the credential: look at `api_key_env` (or `headers`) of the provider, and whether the variable has the whole key"
        }
        (_, Some(404)) => {
            "nothing is there: look at the model's `id` and at `base_url`; on Azure also at `deployment` and `api_version`"
        }
        (ErrorClass::RateLimit, _) => "the account's limit is reached, or it has no credit",
        (ErrorClass::Overloaded, _) => "the provider has too much to do; try again later",
        (_, Some(300..=399)) => "redirects are not followed: put the final address into `base_url`",
        (ErrorClass::InvalidRequest | ErrorClass::ContextWindow, _) => {
            "the provider does not take the request that is shown above; does `kind` fit this server?"
        }
        (ErrorClass::Timeout | ErrorClass::UpstreamDeadline, _) => {
            "look at `proxy` and the firewall, or raise `runs.provider_first_byte_ms` and its neighbours for a slow model"
        }
        (_, None) => "look at `base_url`, `proxy`, the name's resolution and the firewall",
        _ => return None,
    })
}

fn show(recorded: &RecordedCall) -> Result<(), Failure> {
    let headers = |headers: &[(String, String)]| -> String {
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect()
    };
    let sent = &recorded.sent;
    output::line(format!(
        "--- sent\n{} {}\n{}\n{}",
        sent.method,
        sent.url,
        headers(&sent.headers),
        pretty(&sent.body)
    ))?;
    match &recorded.received {
        Some(received) => output::line(format!(
            "--- came back\nHTTP {}\n{}\n{}",
            received.status,
            headers(&received.headers),
            pretty(&received.body)
        ))?,
        None => output::line("--- nothing came back")?,
    }
    Ok(())
}

/// JSON indented, anything else unchanged.
fn pretty(body: &str) -> String {
    serde_json::from_str::<Value>(body)
        .map_or_else(|_| body.to_owned(), |value| format!("{value:#}"))
}
