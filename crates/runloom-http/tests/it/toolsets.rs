//! Toolsets over the admin API: processes are refused, credentials hidden, names of the configuration file protected.

use axum::http::StatusCode;
use runloom_protocol::limits::TOOLSETS_MAX;
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::documents::{call, put, run};

fn http(url: &str) -> Value {
    json!({"transport": "streamable_http", "serverUrl": url})
}

#[tokio::test]
async fn refuses_processes_and_names_every_field() {
    let app = TestApp::new().await;
    let stdio = json!({"transport": "stdio", "command": "npx", "args": ["x"], "env": {"A": "b"}});
    let mut mixed = http("https://d.example/mcp");
    mixed["env"] = json!({"A": "b"});
    for (body, paths) in [
        (stdio, vec!["transport", "command", "args", "env"]),
        (mixed, vec!["env"]),
        (json!({}), vec!["transport"]),
        (json!({"transport": "sse"}), vec!["serverUrl"]),
        (
            json!({"transport": "sse", "serverUrl": "ftp://x", "timeoutMs": 0, "idleCloseMs": 10, "tool": [], "toolSettings": {"a": {"effect": "twice"}}}),
            vec![
                "serverUrl",
                "timeoutMs",
                "idleCloseMs",
                "toolSettings.a.effect",
                "tool",
            ],
        ),
    ] {
        let reply = call(&app, "PUT", "/toolsets/docs", Some(body)).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::BAD_REQUEST, "invalid_request")
        );
        let issues = reply.body["issues"].as_array().unwrap();
        let found: Vec<&str> = issues
            .iter()
            .map(|issue| issue["path"].as_str().unwrap())
            .collect();
        assert_eq!(found, paths, "{reply:?}");
    }
    let listed = call(&app, "GET", "/toolsets", None).await;
    assert_eq!(listed.body, json!({"toolsets": [], "installed": []}));
}

#[tokio::test]
async fn names_every_mistake_of_a_policy() {
    let app = TestApp::new().await;
    for (policy, path) in [
        (
            json!({"rules": [{"decision": "maybe"}]}),
            "policy.rules[0].decision",
        ),
        (json!({"rule": []}), "policy.rule"),
        (
            json!({"rules": [{"decision": "ask", "args": {"type": "zzz"}}]}),
            "policy.rules[0].args",
        ),
    ] {
        let mut body = http("https://d.example/mcp");
        body["policy"] = policy;
        let reply = call(&app, "PUT", "/toolsets/docs", Some(body)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
        assert_eq!(reply.body["issues"][0]["path"], path, "{reply:?}");
    }
}

#[tokio::test]
async fn hides_literal_header_values() {
    let app = TestApp::new().await;
    let mut body = http("https://d.example/mcp");
    body["headers"] = json!({"Authorization": "Bearer canary-4711"});
    body["toolSettings"] = json!({"headers": {"effect": "once"}});
    let made = put(&app, "/toolsets/docs", body).await;
    let definition = &made.body["definition"];
    assert_eq!(definition["headers"]["Authorization"], "***");
    assert_eq!(definition["toolSettings"]["headers"]["effect"], "once");
    let read = call(&app, "GET", "/toolsets/docs", None).await;
    assert!(!format!("{read:?}").contains("canary"), "{read:?}");
    let again = call(&app, "PUT", "/toolsets/docs", Some(definition.clone())).await;
    assert_eq!(
        again.body["issues"][0]["path"], "headers.Authorization",
        "{again:?}"
    );
}

#[tokio::test]
async fn limits_the_number_of_toolsets() {
    let app = TestApp::new().await;
    for number in 0..TOOLSETS_MAX {
        put(
            &app,
            &format!("/toolsets/t{number}"),
            http("https://d.example/mcp"),
        )
        .await;
    }
    let body = Some(http("https://d.example/mcp"));
    let reply = call(&app, "PUT", "/toolsets/more", body).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::CONFLICT, "conflict")
    );
}

#[tokio::test]
async fn rejects_an_unknown_toolset_of_a_run() {
    let app = TestApp::new().await;
    let body = json!({"systemPrompt": "x", "prompt": "x", "tools": [{"kind": "toolset", "name": "nowhere"}]});
    let reply = run(&app, body).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::BAD_REQUEST, "invalid_request")
    );
    let reply = call(&app, "GET", "/toolsets/nowhere/tools", None).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::NOT_FOUND, "not_found")
    );
}
