//! Structured output end to end: the text fits the schema, or the run says why not.

use serde_json::{Value, json};

use crate::http::Api;
use crate::peer::{Peer, Reply, chat, says};
use crate::server::Server;
use crate::sse::replay;

fn schema(enforcement: &str) -> Value {
    json!({"name": "answer", "enforcement": enforcement,
           "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}})
}

fn ended(api: &Api, model: &str, prompt: &str, enforcement: &str) -> (String, Value, Value) {
    let body = json!({"systemPrompt": "s", "modelId": model, "prompt": prompt,
                      "outputSchema": schema(enforcement)});
    let run = api.run(&body);
    let end = replay(api, &run).unwrap().pop().unwrap();
    let snapshot = api.get(&format!("/agent-runs/{run}")).json();
    (end.kind().to_owned(), end.data(), snapshot)
}

#[test]
fn demo_output_matches_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let (kind, end, snapshot) = ended(&api, "platform:demo", "an answer, please", "strict");
    assert_eq!(kind, "result", "{end}");
    let said: Value = serde_json::from_str(end["text"].as_str().unwrap()).unwrap();
    assert!(said["n"].is_i64(), "{said}");
    assert_eq!(end["structuredOutput"]["schemaEnforced"], true, "{end}");
    assert_eq!(
        end["structuredOutput"]["enforcementMechanism"], "native_schema",
        "{end}"
    );
    assert_eq!(snapshot["finalText"], end["text"]);
    let (kind, end, _) = ended(&api, "platform:demo", "say {\"n\":\"one\"}", "strict");
    assert_eq!(kind, "error", "{end}");
    assert_eq!(end["errorClass"], "structured_output_not_enforced", "{end}");
    let (kind, end, _) = ended(&api, "platform:demo", "say {\"n\":\"one\"}", "best_effort");
    assert_eq!(kind, "result", "{end}");
    assert_eq!(end["structuredOutput"]["schemaEnforced"], false, "{end}");
}

#[test]
fn refuses_providers_without_schemas_if_strict() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let peer = Peer::start(|_, _| says("plain words"));
    let model = server.provider(&peer.url, json!({"id": "m"}));
    let api = server.api();
    let (kind, end, _) = ended(&api, &model, "hi", "strict");
    assert_eq!(
        (kind.as_str(), &end["errorClass"]),
        ("error", &json!("structured_output_not_supported")),
        "{end}"
    );
    assert!(peer.asked().is_empty(), "nothing was paid for");
    let (kind, end, _) = ended(&api, &model, "hi", "best_effort");
    assert_eq!(kind, "result", "{end}");
    assert_eq!(
        end["structuredOutput"],
        json!({"schemaRequested": true, "schemaEnforced": false,
        "enforcementMechanism": "none", "unconstrainedFallbackOccurred": false})
    );
}

#[test]
fn keeps_text_before_truncation() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let peer = Peer::start(|_, _| Reply::Events(chat(&["{\"n\": ", "4"], &[], "length", (10, 5))));
    let model = server.provider(&peer.url, json!({"id": "m"}));
    let (kind, end, snapshot) = ended(&server.api(), &model, "hi", "best_effort");
    assert_eq!(kind, "error", "{end}");
    assert_eq!(end["errorClass"], "truncation", "{end}");
    assert_eq!(end["partialText"], "{\"n\": 4", "{end}");
    assert_eq!(end["finishReason"], "max_tokens", "{end}");
    assert_eq!(end["tokens"]["outputTokens"], 5, "{end}");
    assert_eq!(snapshot["status"], "failed", "{snapshot}");
    assert_eq!(snapshot["finalText"], "{\"n\": 4", "{snapshot}");
    assert_eq!(
        snapshot["failureReason"],
        json!({"errorClass": "truncation", "finishReason": "max_tokens"})
    );
}
