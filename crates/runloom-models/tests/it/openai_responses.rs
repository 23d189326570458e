//! Cases of the Responses API alone.

use std::sync::Arc;

use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::spec::Enforcement;
use serde_json::{Value, json};

use crate::cases::{ask, listen, schema, stream};
use crate::providers::{self, Row};
use crate::requests::{compare, sent};
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

/// The other forms of an Azure address; the vendor's SDK calls the same (`tests/vendor_python`).
#[tokio::test]
async fn every_form_of_an_azure_address_matches_its_snapshot() {
    const DEPLOYMENT: (&str, &str) = ("deployment", "my-deployment");
    const VERSION: (&str, &str) = ("api_version", "2025-04-01-preview");
    type Extra = &'static [(&'static str, &'static str)];
    let forms: [(&str, &str, Extra); 3] = [
        ("address_of_the_v1_path", "/openai/v1", &[DEPLOYMENT]),
        ("address_of_the_resource_alone", "", &[DEPLOYMENT]),
        (
            "address_of_a_deployment",
            "/openai/deployments/my-deployment",
            &[DEPLOYMENT, VERSION],
        ),
    ];
    let mut differences = Vec::new();
    for (name, base_path, extra) in forms {
        let row = Row {
            base_path,
            extra,
            ..providers::azure_openai()
        };
        let asked = sent(&row, ask("Hello")).await;
        assert_eq!(asked.headers["api-key"], providers::API_KEY);
        differences.extend(compare(&row, name, &asked));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
async fn retries_without_a_rejected_schema() {
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
async fn fails_on_a_rejected_schema_if_strict() {
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
