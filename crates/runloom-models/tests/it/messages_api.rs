//! Cases of the Messages API alone: replayed thinking, and model generations that differ.

use std::sync::Arc;

use runloom_ports::model::{ModelRequest, StructuredSupport};
use runloom_protocol::outcome::{EnforcementMechanism, ErrorClass};
use runloom_protocol::spec::Enforcement;
use serde_json::{Value, json};

use crate::cases::{answer_calls, ask, hear, listen, schema, stream};
use crate::providers::{self, Row};
use crate::requests;
use crate::server::{Asked, Reply, Server};

/// A model of the generation that always thinks and rejects forced tools.
fn newest() -> Row {
    Row {
        model: "claude-opus-5-5",
        ..providers::anthropic()
    }
}

/// A model of the generation with adaptive thinking that can be turned off.
fn between() -> Row {
    Row {
        model: "claude-opus-5",
        ..providers::anthropic()
    }
}

async fn second_turn(row: &Row, level: Option<u8>) -> Asked {
    let server = Server::start([stream(row, "thinking_and_tools"), stream(row, "text")]).await;
    let model = row.open(&server);
    let mut request = ModelRequest {
        reasoning_level: level,
        ..ask("Weather in Oslo?")
    };
    let heard = listen(model.as_ref(), request.clone()).await;
    answer_calls(&mut request, &heard);
    listen(model.as_ref(), request).await.done();
    server.asked().pop().unwrap()
}

#[tokio::test]
async fn replays_thinking_with_its_tool_turn() {
    for row in [providers::anthropic(), providers::bedrock(), newest()] {
        let asked = second_turn(&row, Some(80)).await;
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        let kinds: Vec<&str> = body["messages"][1]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            ["thinking", "redacted_thinking", "text", "tool_use"],
            "{}",
            row.model
        );
        let thinking = &body["messages"][1]["content"][0];
        assert_eq!(thinking["thinking"], "I need the weather.");
        assert_eq!(thinking["signature"], "EqQBCgIYAhIM1gbcDa9GJwZA2b3h");
    }
}

#[tokio::test]
async fn uses_native_schemas_without_forced_tools() {
    let row = newest();
    let server = Server::start([stream(&row, "structured_native")]).await;
    let model = row.open(&server);
    assert_eq!(model.capabilities().structured, StructuredSupport::Native);
    let request = ModelRequest {
        output_schema: Some(Arc::new(schema())),
        ..ask("The answer?")
    };
    let heard = listen(model.as_ref(), request).await;
    let said: Value = serde_json::from_str(&heard.said()).unwrap();
    assert_eq!(said, json!({"answer": 42}));
    assert_eq!(
        heard.done().structured.enforcement_mechanism,
        EnforcementMechanism::NativeSchema
    );
}

fn schema_refusal() -> Reply {
    let body = json!({"type": "error", "error": {
        "type": "invalid_request_error",
        "message": "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
    }});
    Reply::Whole {
        status: 400,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string().into_bytes(),
    }
}

#[tokio::test]
async fn retries_without_a_rejected_schema_unless_strict() {
    let row = newest();
    let server = Server::start([schema_refusal(), stream(&row, "text")]).await;
    let mut request = ask("The answer?");
    request.output_schema = Some(Arc::new(schema()));
    let heard = listen(row.open(&server).as_ref(), request.clone()).await;
    let structured = heard.done().structured;
    assert!(structured.unconstrained_fallback_occurred && !structured.schema_enforced);
    assert_eq!(server.asked().len(), 2);

    let server = Server::start([schema_refusal()]).await;
    let mut strict = schema();
    strict.enforcement = Enforcement::Strict;
    request.output_schema = Some(Arc::new(strict));
    let heard = listen(row.open(&server).as_ref(), request).await;
    assert_eq!(
        heard.error().class,
        ErrorClass::StructuredOutputSchemaRejected
    );
}

#[tokio::test]
async fn reports_whether_the_hidden_tool_was_called() {
    let mut request = ask("The answer?");
    request.output_schema = Some(Arc::new(schema()));
    let heard = hear(&providers::anthropic(), "text", request.clone()).await;
    assert_eq!(heard.said(), "Hello, world!");
    let structured = heard.done().structured;
    assert!(structured.schema_requested && !structured.schema_enforced);

    // Visible tools are called as without a schema.
    let heard = hear(&providers::anthropic(), "text_and_tools", request).await;
    assert_eq!(
        (heard.said().as_str(), heard.called().len()),
        ("Let me look.", 1)
    );
}

#[tokio::test]
async fn requests_to_other_generations_match_their_snapshots() {
    let schema = Some(Arc::new(schema()));
    let structured = || ModelRequest {
        output_schema: schema.clone(),
        ..ask("The answer?")
    };
    let forced = || ModelRequest {
        force_output: true,
        ..structured()
    };
    let thinking = |level| ModelRequest {
        reasoning_level: Some(level),
        ..ask("Think.")
    };
    let mut differences = Vec::new();
    for (row, name, request) in [
        (newest(), "newest_plain", ask("Hello")),
        (newest(), "newest_reasoning_off", thinking(0)),
        (newest(), "newest_reasoning_high", thinking(80)),
        (newest(), "newest_structured", structured()),
        (between(), "between_plain", ask("Hello")),
        (between(), "between_reasoning_high", thinking(80)),
        (between(), "between_structured_forced", forced()),
    ] {
        let asked = requests::sent(&row, request).await;
        differences.extend(requests::compare(&row, name, &asked));
    }
    for (row, name) in [
        (providers::anthropic(), "thinking_and_tools"),
        (newest(), "newest_thinking_and_tools"),
        (providers::bedrock(), "thinking_and_tools"),
    ] {
        let asked = second_turn(&row, Some(80)).await;
        differences.extend(requests::compare(&row, name, &asked));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
