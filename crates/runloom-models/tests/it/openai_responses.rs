//! What only the Responses API does.

use std::sync::Arc;

use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::spec::Enforcement;
use serde_json::{Value, json};

use crate::cases::{ask, listen, schema, stream};
use crate::providers;
use crate::server::{Reply, Server};

fn schema_refusal() -> Reply {
    let body = json!({"error": {
        "message": "Invalid schema for response_format 'answer': 'required' is required to be supplied.",
        "type": "invalid_request_error",
        "param": "text.format.schema",
        "code": "invalid_json_schema",
    }});
    Reply::Whole {
        status: 400,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string().into_bytes(),
    }
}

#[tokio::test]
async fn a_refused_schema_is_dropped_once_when_enforcement_is_best_effort() {
    let row = providers::openai();
    let server = Server::start([schema_refusal(), stream(&row, "text")]).await;
    let mut request = ask("The answer?");
    request.output_schema = Some(Arc::new(schema()));
    let heard = listen(row.open(&server).as_ref(), request).await;
    let structured = heard.done().structured;
    assert!(structured.schema_requested && structured.unconstrained_fallback_occurred);
    assert!(!structured.schema_enforced);
    let asked = server.asked();
    let with_schema: Vec<bool> = asked
        .iter()
        .map(|asked| {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            body.get("text").is_some()
        })
        .collect();
    assert_eq!(with_schema, [true, false]);
}

#[tokio::test]
async fn a_refused_schema_fails_the_call_when_enforcement_is_strict() {
    let row = providers::openai();
    let server = Server::start([schema_refusal()]).await;
    let mut request = ask("The answer?");
    let mut strict = schema();
    strict.enforcement = Enforcement::Strict;
    request.output_schema = Some(Arc::new(strict));
    let heard = listen(row.open(&server).as_ref(), request).await;
    let error = heard.error();
    assert_eq!(error.class, ErrorClass::StructuredOutputSchemaRejected);
    assert!(!error.retryable);
    assert_eq!(server.asked().len(), 1);
}
