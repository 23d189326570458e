//! Cases of Gemini alone: generations that differ, and the hidden function.

use std::sync::Arc;

use runloom_ports::model::{ModelRequest, StructuredSupport};
use runloom_protocol::outcome::EnforcementMechanism;
use serde_json::{Value, json};

use crate::cases::{ask, hear, listen, schema, stream};
use crate::providers::{self, Row};
use crate::requests;
use crate::server::{Reply, Server};

/// A model of the generation with budgets and without a schema mode beside tools.
fn older() -> Row {
    Row {
        model: "gemini-2.5-flash",
        ..providers::google()
    }
}

#[tokio::test]
async fn older_models_use_a_hidden_function_beside_tools() {
    let row = older();
    let server = Server::start([stream(&row, "structured_hidden")]).await;
    let model = row.open(&server);
    assert_eq!(
        model.capabilities().structured,
        StructuredSupport::SyntheticTool
    );
    let request = ModelRequest {
        output_schema: Some(Arc::new(schema())),
        ..ask("The answer?")
    };
    let heard = listen(model.as_ref(), request).await;
    let said: Value = serde_json::from_str(&heard.said()).unwrap();
    assert_eq!(said, json!({"answer": 42}));
    assert!(heard.calls.is_empty());
    assert_eq!(heard.finish(), "end_turn");
    assert_eq!(
        heard.done().structured.enforcement_mechanism,
        EnforcementMechanism::SyntheticTool
    );
}

#[tokio::test]
async fn older_models_use_the_schema_mode_without_tools() {
    let request = ModelRequest {
        tools: Arc::default(),
        output_schema: Some(Arc::new(schema())),
        ..ask("The answer?")
    };
    let heard = hear(&older(), "structured", request).await;
    assert_eq!(
        heard.done().structured.enforcement_mechanism,
        EnforcementMechanism::NativeSchema
    );
}

#[tokio::test]
async fn retries_once_without_a_rejected_schema() {
    let row = providers::google();
    let body = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT",
        "message": "Invalid value at 'generation_config.response_json_schema': unsupported keyword"}});
    let refusal = Reply::Whole {
        status: 400,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string().into_bytes(),
    };
    let server = Server::start([refusal, stream(&row, "text")]).await;
    let request = ModelRequest {
        output_schema: Some(Arc::new(schema())),
        ..ask("The answer?")
    };
    let heard = listen(row.open(&server).as_ref(), request).await;
    assert!(heard.done().structured.unconstrained_fallback_occurred);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn requests_to_older_models_match_their_snapshots() {
    let row = older();
    let structured = ModelRequest {
        output_schema: Some(Arc::new(schema())),
        ..ask("The answer?")
    };
    let forced = ModelRequest {
        force_output: true,
        ..structured.clone()
    };
    let without_tools = ModelRequest {
        tools: Arc::default(),
        ..structured.clone()
    };
    let thinking = ModelRequest {
        reasoning_level: Some(80),
        ..ask("Think.")
    };
    let mut differences = Vec::new();
    for (name, request) in [
        ("older_plain", ask("Hello")),
        ("older_reasoning_high", thinking),
        ("older_structured", structured),
        ("older_structured_forced", forced),
        ("older_structured_without_tools", without_tools),
    ] {
        let asked = requests::sent(&row, request).await;
        differences.extend(requests::compare(&row, name, &asked));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
