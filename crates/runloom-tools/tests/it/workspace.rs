//! Workspace tools: HTTP requests, MCP servers and agents, and their failures.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use runloom_ports::effect::Effect;
use runloom_ports::tools::{Outcome, ToolHost as _};
use runloom_protocol::validate;
use runloom_tools::ToolLimits;
use runloom_tools::outbound::OutboundPolicy;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::a2a::{agent, said};
use crate::mcp::server;
use crate::peers::{
    Peer, ReceivedRequest, TestBed, TestDefinitions, broken, hanging, open_policy, redirect, reply,
    result, status, typed,
};

const CANARY: &str = "canary-7f31 \"&/ü";

/// A host whose workspace has one validated tool, `t`.
fn bed(tool: &Value) -> TestBed {
    bed_with(tool, open_policy())
}

fn bed_with(tool: &Value, policy: OutboundPolicy) -> TestBed {
    let definition = validate::tool_definition(tool, "t").expect("the tool is valid");
    let defined = TestDefinitions {
        tools: vec![("t".to_owned(), definition)],
        secrets: vec![
            ("KEY".to_owned(), CANARY.to_owned()),
            ("TOKEN".to_owned(), "tok-canary-9".to_owned()),
        ],
        ..TestDefinitions::default()
    };
    TestBed::defining(defined, policy, ToolLimits::default())
}

async fn ask(bed: &TestBed, input: Value) -> Outcome {
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    bed.call(&context, &tools[0], input).await
}

fn echo(received: &ReceivedRequest) -> Response {
    let headers: serde_json::Map<String, Value> = received
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").into()))
        .collect();
    reply(
        &json!({"method": received.method.as_str(), "path": received.path, "query": received.query, "headers": headers, "body": received.body}),
    )
}

#[tokio::test]
async fn definition_becomes_a_tool_and_a_request() {
    let peer = Peer::start(|received| async move { echo(&received) }).await;
    let bed = bed(&json!({
        "type": "http", "method": "PUT", "url": format!("{}/v1/{{{{city}}}}/x?fixed=1", peer.url),
        "description": "Puts.", "headers": {"Authorization": "Bearer {{secret:TOKEN}}", "X-City": "{{city}}", "X-Gone": "{{gone}}"},
        "query": {"days": "{{days}}", "gone": "{{gone}}"}, "body": {"days": "{{days}}", "text": "in {{city}}"},
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    }));
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    let tool = &tools[0];
    assert_eq!(
        (tool.name.as_str(), tool.description.as_str()),
        ("t", "Puts.")
    );
    assert_eq!(tool.effect, Effect::Idempotent);
    assert_eq!(tool.parameters["properties"]["days"]["type"], "integer");
    assert!(peer.received().is_empty());
    let outcome = bed
        .call(&context, tool, json!({"city": "Bad Ems/..", "days": 3}))
        .await;
    assert!(!outcome.is_error, "{}", outcome.content);
    let received = &peer.received()[0];
    assert_eq!(received.method, "PUT");
    assert_eq!(received.path, "/v1/Bad%20Ems%2F../x");
    assert_eq!(received.query, "fixed=1&days=3");
    assert_eq!(received.body, json!({"days": 3, "text": "in Bad Ems/.."}));
    assert_eq!(
        received.header("authorization"),
        Some("Bearer tok-canary-9")
    );
    assert_eq!(received.header("x-city"), Some("Bad Ems/.."));
    assert_eq!(received.header("x-gone"), None);
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.header("idempotency-key"), Some("tu_1"));
}

#[tokio::test]
async fn effect_follows_the_method_unless_declared() {
    let peer = Peer::start(|received| async move { echo(&received) }).await;
    for (method, effect, expected, key) in [
        ("GET", None, Effect::Read, None),
        ("HEAD", None, Effect::Read, None),
        ("PUT", None, Effect::Idempotent, Some("tu_1")),
        ("DELETE", None, Effect::Idempotent, Some("tu_1")),
        ("POST", None, Effect::Once, Some("tu_1")),
        ("PATCH", None, Effect::Once, Some("tu_1")),
        ("POST", Some("read"), Effect::Read, None),
        ("GET", Some("once"), Effect::Once, Some("tu_1")),
    ] {
        let mut tool = json!({"type": "http", "method": method, "url": peer.url});
        if let Some(effect) = effect {
            tool["effect"] = json!(effect);
        }
        let bed = bed(&tool);
        let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
        assert_eq!(tools[0].effect, expected, "{method} {effect:?}");
        let outcome = bed.call(&context, &tools[0], json!({})).await;
        assert!(!outcome.is_error, "{method}: {}", outcome.content);
        let received = peer.received().pop().unwrap();
        assert_eq!(
            received.header("idempotency-key"),
            key,
            "{method} {effect:?}"
        );
    }
}

#[tokio::test]
async fn infers_arguments_without_a_schema() {
    let bed = bed(
        &json!({"type": "http", "url": "https://a.example/{{city}}/{{where.street}}?lang={{lang}}", "query": {"n": "{{n}}"}}),
    );
    let (_, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    let text = json!({"type": "string"});
    assert_eq!(
        tools[0].parameters,
        json!({"type": "object", "properties": {"city": text, "where": {}, "lang": text, "n": text}, "required": ["city", "where"]})
    );
}

#[tokio::test]
async fn schemas_have_an_object_root() {
    let any = json!({"type": "object"});
    let down = "http://127.0.0.1:1/";
    for (tool, expected) in [
        (json!({"type": "mcp", "url": down}), any.clone()),
        (json!({"type": "code", "source": "return 1"}), any),
        (
            json!({"type": "http", "url": down, "parameters": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        ),
        (
            json!({"type": "mcp", "url": down, "parameters": {"$ref": "#/$defs/a", "$defs": {"a": {"maxProperties": 1}}}}),
            json!({"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"maxProperties": 1}}}),
        ),
    ] {
        let (_, tools) = bed(&tool)
            .resolve(&json!([{"kind": "mantyx", "id": "t"}]))
            .await;
        assert_eq!(tools[0].parameters, expected, "{tool}");
    }
}

#[tokio::test]
async fn rejects_an_unknown_tool_with_its_path() {
    let bed = bed(&json!({"type": "http", "url": "https://a.example/"}));
    let check = |refs: Value| {
        let refs: Vec<_> = serde_json::from_value(refs).unwrap();
        let host = &bed.host;
        async move { host.check("acme", &refs).await }
    };
    let known = json!({"kind": "mantyx", "id": "t"});
    check(json!([known])).await.unwrap();
    let error = check(json!([known, {"kind": "mantyx", "id": "nope"}]))
        .await
        .unwrap_err();
    let text = format!("{error:?}");
    assert!(
        text.contains("tools[1].id") && text.contains("nope"),
        "{text}"
    );
}

/// Such definitions are refused when they are stored; an older one must not be called with unvalidated arguments.
#[tokio::test]
async fn rejects_stored_tools_with_an_unusable_schema() {
    let bed = bed(&json!({"type": "http", "url": "https://a.example/",
        "parameters": {"type": "object", "properties": {"a": {"type": "zzz"}}}}));
    let refs = json!([{"kind": "mantyx", "id": "t"}]);
    let parsed: Vec<_> = serde_json::from_value(refs.clone()).unwrap();
    let error = bed.host.check("acme", &parsed).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(
        text.contains("tools[0].id") && text.contains("parameters") && text.contains("zzz"),
        "{text}"
    );
    let (_, tools) = bed.resolve(&refs).await;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["t_unavailable"]);
}

#[tokio::test]
async fn secrets_reach_only_the_peer() {
    let peer = Peer::start(|received| async move {
        match received.path.as_str() {
            "/fail" => (StatusCode::FORBIDDEN, echo(&received)).into_response(),
            _ => echo(&received),
        }
    })
    .await;
    for path in ["ok", "fail"] {
        let bed = bed(&json!({
            "type": "http", "method": "POST", "url": format!("{}/{path}?k={{{{secret:KEY}}}}", peer.url),
            "headers": {"X-Token": "{{secret:TOKEN}}", "X-Literal": "literal-canary-5", "Content-Type": "application/json"},
            "query": {"q": "{{secret:KEY}}"}, "body": {"key": "{{secret:KEY}}", "said": "{{said}}"},
        }));
        let outcome = ask(&bed, json!({"said": "{{secret:TOKEN}}"})).await;
        let received = peer.received().pop().unwrap();
        assert_eq!(received.body["key"], CANARY);
        assert_eq!(received.body["said"], "{{secret:TOKEN}}");
        assert_eq!(received.header("x-literal"), Some("literal-canary-5"));
        assert_eq!(received.header("x-token"), Some("tok-canary-9"));
        assert!(outcome.content.contains("***"), "{}", outcome.content);
        assert!(!outcome.content.contains("canary"), "{}", outcome.content);
    }
    let bed = bed(&json!({"type": "http", "url": peer.url, "headers": {"X": "{{secret:GONE}}"}}));
    let received = peer.received().len();
    let outcome = ask(&bed, json!({})).await;
    assert!(
        outcome.is_error && outcome.content.contains("no secret `GONE`"),
        "{}",
        outcome.content
    );
    assert_eq!(peer.received().len(), received);
}

#[tokio::test]
async fn rejects_hostile_arguments() {
    let peer = Peer::start(|received| async move { echo(&received) }).await;
    let bed = bed(
        &json!({"type": "http", "method": "DELETE", "url": format!("{}/users/{{{{id}}}}", peer.url),
        "headers": {"X-Id": "{{header}}"}}),
    );
    for (input, word) in [
        (json!({"id": ".."}), "\"..\""),
        (json!({"id": ""}), "empty"),
        (json!({"id": null}), "missing"),
        (json!({}), "missing"),
        (json!({"id": "1", "header": "a\r\nX-Admin: 1"}), "X-Id"),
        (json!({"id": "1", "header": "a\u{0}"}), "X-Id"),
        (json!({"id": "1", "header": "ä"}), "X-Id"),
        (json!({"id": "x".repeat(9000)}), "URL"),
    ] {
        let outcome = ask(&bed, input.clone()).await;
        assert!(
            outcome.is_error && outcome.content.contains(word),
            "{input}: {}",
            outcome.content
        );
    }
    assert!(peer.received().is_empty());
}

#[tokio::test]
async fn reports_every_failure_of_a_peer() {
    // The target of redirects; the policy allows only the other peer.
    let inner = Peer::start(|_| async { reply(&json!("inner secret")) }).await;
    let to = inner.url.clone();
    let peer = Peer::start(move |received| {
        let to = to.clone();
        async move {
            match received.path.as_str() {
                "/500" => (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response(),
                "/away" => redirect(302, &to),
                "/metadata" => redirect(307, "http://169.254.169.254/latest/meta-data"),
                "/loop" => redirect(302, "/loop"),
                "/slow" => std::future::pending().await,
                "/silent" => typed("text/plain", hanging("begin")),
                "/broken" => typed("text/plain", broken("begin")),
                "/gzip" => {
                    let mut answer = typed("text/plain", vec![0x1f, 0x8b, 8, 0]);
                    answer
                        .headers_mut()
                        .insert("content-encoding", "gzip".parse().unwrap());
                    answer
                }
                "/garbage" => typed("application/json", "{\"a\":"),
                _ => status(404),
            }
        }
    })
    .await;
    let only = peer.url.trim_start_matches("http://").to_owned();
    for (path, words) in [
        ("500", &["500 Internal Server Error", "out of order"][..]),
        ("away", &["outbound policy", "private"]),
        ("metadata", &["outbound policy", "169.254.169.254"]),
        ("loop", &["redirect"]),
        ("slow", &["within"]),
        ("silent", &["within"]),
        ("broken", &["failed"]),
        ("gzip", &["compressed"]),
        ("garbage", &["not JSON"]),
        ("nowhere", &["404"]),
    ] {
        let policy = OutboundPolicy {
            allow_hosts: vec![only.clone()],
            ..OutboundPolicy::default()
        };
        let tool = json!({"type": "http", "url": format!("{}/{path}", peer.url), "timeoutMs": 1000, "response": {"pointer": "/a"}});
        let outcome = ask(&bed_with(&tool, policy), json!({})).await;
        assert!(outcome.is_error, "{path}: {}", outcome.content);
        for word in words {
            assert!(
                outcome.content.contains(word),
                "{path}: {}",
                outcome.content
            );
        }
    }
    assert!(inner.received().is_empty());
    let down = bed(&json!({"type": "http", "url": "http://127.0.0.1:1/"}));
    let outcome = ask(&down, json!({})).await;
    assert!(
        outcome.is_error && outcome.content.contains("cannot connect"),
        "{}",
        outcome.content
    );
}

#[tokio::test]
async fn truncates_an_endless_response() {
    let peer = Peer::start(|_| async {
        let piece = Ok::<_, std::io::Error>(axum::body::Bytes::from("äb".repeat(1000)));
        let endless = futures_util::stream::repeat_with(move || {
            Ok::<_, std::io::Error>(piece.as_ref().unwrap().clone())
        });
        typed("text/plain", Body::from_stream(endless.boxed()))
    })
    .await;
    let bed = bed(&json!({"type": "http", "url": peer.url, "maxResponseBytes": 5000}));
    let outcome = ask(&bed, json!({})).await;
    assert!(!outcome.is_error);
    assert!(
        outcome
            .content
            .contains("[truncated: the response is longer than the tool's limit of 5000 bytes"),
        "{}",
        outcome.content
    );
    assert!(outcome.content.len() < 5200);
}

#[tokio::test]
async fn cancelling_closes_the_connection() {
    let (gone, mut noticed) = tokio::sync::mpsc::unbounded_channel::<()>();
    let peer = Peer::start(move |_| {
        // Dropped when the connection is closed.
        let held = gone.clone();
        async move {
            let _held = held;
            std::future::pending().await
        }
    })
    .await;
    let bed = bed(&json!({"type": "http", "method": "POST", "url": peer.url}));
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    let cancel = CancellationToken::new();
    let calling = bed.call_until(&context, &tools[0], json!({}), cancel.clone());
    let cancelling = async {
        peer.until(|received| received.method == "POST").await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(
        outcome.is_error && outcome.content.contains("cancelled"),
        "{}",
        outcome.content
    );
    drop(peer);
    let ended = tokio::time::timeout(Duration::from_secs(10), noticed.recv()).await;
    assert_eq!(ended.expect("the peer's side ends"), None);
}

#[tokio::test]
async fn selects_a_part_of_the_response() {
    let peer = Peer::start(|_| async {
        reply(&json!({"now": {"t": 3, "sky": "grey"}, "junk": "x".repeat(10_000)}))
    })
    .await;
    let bed = bed(
        &json!({"type": "http", "url": peer.url, "response": {"pointer": "/now", "template": "{{t}}°, {{sky}}"}}),
    );
    assert_eq!(ask(&bed, json!({})).await.content, "3°, grey");
}

#[tokio::test]
async fn uses_the_schema_of_an_mcp_server() {
    let peer = server(|received| match received.rpc_method() {
        "tools/list" => Some(result(
            received,
            &json!({"tools": [{"name": "other", "inputSchema": {"type": "object"}},
                {"name": "look-up", "description": "Looks up.", "annotations": {"readOnlyHint": true},
                 "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}}]}),
        )),
        "tools/call" => {
            let token = received.header("x-token").unwrap_or("none");
            let said = format!("{} {token}", received.body["params"]["name"]);
            Some(result(received, &json!({"content": [{"type": "text", "text": said}]})))
        }
        _ => None,
    })
    .await;
    let bed = bed(
        &json!({"type": "mcp", "url": format!("{}/mcp", peer.url), "tool": "look-up", "headers": {"X-Token": "{{secret:TOKEN}}"}}),
    );
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    assert_eq!(tools[0].name, "t");
    assert_eq!(tools[0].description, "Looks up.");
    assert_eq!(tools[0].parameters["required"], json!(["q"]));
    assert_eq!(tools[0].effect, Effect::Read);
    let outcome = bed.call(&context, &tools[0], json!({"q": "x"})).await;
    assert_eq!(outcome.content, "\"look-up\" ***");
}

#[tokio::test]
async fn cancelling_notifies_the_mcp_server() {
    let peer = server(|received| match received.rpc_method() {
        "tools/call" => Some(typed("text/event-stream", hanging(": waiting\n\n"))),
        _ => None,
    })
    .await;
    let bed = bed(
        &json!({"type": "mcp", "url": format!("{}/mcp", peer.url), "tool": "echo", "parameters": {"type": "object"}}),
    );
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    let cancel = CancellationToken::new();
    let calling = bed.call_until(&context, &tools[0], json!({}), cancel.clone());
    let cancelling = async {
        peer.until(|received| received.rpc_method() == "tools/call")
            .await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.is_error, "{}", outcome.content);
    peer.until(|received| received.rpc_method() == "notifications/cancelled")
        .await;
}

#[tokio::test]
async fn external_agent_is_a_tool_with_one_argument() {
    let peer = agent(|received| {
        let token = received.header("x-token").unwrap_or("none");
        result(received, &said(&format!("sunny, {token}")))
    })
    .await;
    let body = json!({"agentCardUrl": peer.url, "headers": {"X-Token": "{{secret:TOKEN}}"}});
    let definition = validate::external_agent(&body, "t").unwrap();
    let defined = TestDefinitions {
        tools: vec![("t".to_owned(), definition)],
        secrets: vec![("TOKEN".to_owned(), "tok-canary-9".to_owned())],
        ..TestDefinitions::default()
    };
    let bed = TestBed::defining(defined, open_policy(), ToolLimits::default());
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    assert_eq!(tools[0].parameters["required"], json!(["message"]));
    assert_eq!(tools[0].effect, Effect::Once);
    let outcome = bed
        .call(&context, &tools[0], json!({"message": "Oslo?"}))
        .await;
    assert_eq!(outcome.content, "sunny, ***");
}

#[tokio::test]
async fn timed_out_agent_is_cancelled() {
    let peer = agent(|received| {
        let working = json!({"kind": "task", "id": "t1", "status": {"state": "working"}});
        result(received, &working)
    })
    .await;
    let body = json!({"agentCardUrl": peer.url, "timeoutMs": 3000});
    let defined = TestDefinitions {
        tools: vec![(
            "t".to_owned(),
            validate::external_agent(&body, "t").unwrap(),
        )],
        ..TestDefinitions::default()
    };
    let bed = TestBed::defining(defined, open_policy(), ToolLimits::default());
    let outcome = ask(&bed, json!({"message": "Oslo?"})).await;
    assert!(
        outcome.is_error && outcome.content.contains("did not end within 3s"),
        "{}",
        outcome.content
    );
    peer.until(|received| {
        received.rpc_method() == "tasks/cancel" && received.body["params"]["id"] == "t1"
    })
    .await;
}
