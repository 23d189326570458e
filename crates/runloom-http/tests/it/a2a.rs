//! Agents over A2A without an engine: doors, lists, cards, and what is wrong with a call.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use runloom_http::Settings;
use runloom_ports::store::{KeyUsage, Millis};
use runloom_service::oauth::{ClientCredential, CreateOauthApp, TokenRequest};
use runloom_service::rate::RateLimits;
use runloom_service::tenancy::{CreateKey, PutWorkspace};
use serde_json::{Map, Value, json};

use crate::app::{Reply, TestApp};
use crate::documents::put;

/// A server with agents `one`, `two` and `local`, which needs its client's tools.
pub(crate) async fn house(settings: Settings) -> TestApp {
    let limits = RateLimits {
        run_starts_per_minute: 5,
        ..RateLimits::default()
    };
    let app = TestApp::with(limits, settings).await;
    let agent = json!({"systemPrompt": "x", "modelId": "platform:silent"});
    put(&app, "/agents/one", agent.clone()).await;
    put(&app, "/agents/two", agent).await;
    let tools = json!([{"kind": "local", "name": "read_file"}]);
    put(
        &app,
        "/agents/local",
        json!({"systemPrompt": "x", "tools": tools}),
    )
    .await;
    app
}

pub(crate) async fn key(app: &TestApp, usage: KeyUsage, agents: &[&str]) -> String {
    let create = CreateKey {
        usage,
        agent_ids: agents.iter().map(|&agent| agent.to_owned()).collect(),
        ..CreateKey::default()
    };
    let made = app.service.tenancy().create_key("acme", create, Millis(0));
    made.await.unwrap().key
}

async fn get(app: &TestApp, key: &str, path: &str) -> Reply {
    let request = Request::get(format!("/api/a2a/acme{path}"))
        .header("host", "runs.test:8787")
        .header("x-api-key", key);
    app.send(request.body(Body::empty()).unwrap()).await
}

async fn post(app: &TestApp, key: &str, agent: &str, body: impl Into<Body>) -> Reply {
    let request = Request::post(format!("/api/a2a/acme/agents/{agent}"))
        .header("x-api-key", key)
        .header("content-type", "application/json");
    app.send(request.body(body.into()).unwrap()).await
}

async fn call(app: &TestApp, key: &str, (agent, method): (&str, &str), params: Value) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
    post(app, key, agent, body.to_string()).await
}

fn code(reply: &Reply) -> i64 {
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.body["error"]["code"]
        .as_i64()
        .unwrap_or_else(|| panic!("no error: {reply:?}"))
}

fn say(text: &str) -> Value {
    json!({"message": {"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": text}]},
           "configuration": {"blocking": false}})
}

fn slugs(reply: &Reply) -> Vec<&str> {
    let agents = reply.body["agents"].as_array().unwrap().iter();
    agents
        .map(|agent| agent["slug"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn entry_points_accept_their_keys() {
    let app = house(Settings::default()).await;
    let (a2a, mcp) = (
        key(&app, KeyUsage::A2a, &[]).await,
        key(&app, KeyUsage::Mcp, &[]).await,
    );
    for good in [&a2a, &app.key] {
        let reply = get(&app, good, "/discovery").await;
        assert_eq!(slugs(&reply), ["one", "two"], "{reply:?}");
    }
    let reply = get(&app, &mcp, "/discovery").await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::FORBIDDEN, "forbidden")
    );
    assert_eq!(reply.body["error"], "This API key is not for A2A");
    let reply = get(&app, "mantyx_nobody", "/discovery").await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn hides_agents_outside_the_keys_list() {
    let app = house(Settings::default()).await;
    let narrow = key(&app, KeyUsage::A2a, &["two"]).await;
    assert_eq!(slugs(&get(&app, &narrow, "/discovery").await), ["two"]);
    for agent in ["one", "nobody"] {
        let card = get(
            &app,
            &narrow,
            &format!("/agents/{agent}/.well-known/agent-card.json"),
        )
        .await;
        assert_eq!(
            (card.status, card.code()),
            (StatusCode::NOT_FOUND, "not_found")
        );
        let sent = call(&app, &narrow, (agent, "message/send"), say("hi")).await;
        assert_eq!(
            (sent.status, sent.code()),
            (StatusCode::NOT_FOUND, "not_found")
        );
    }
}

/// An access token of an app, with these scopes.
async fn token(app: &TestApp, scopes: &[&str]) -> String {
    let oauth = app.service.oauth();
    let create = CreateOauthApp {
        client_credentials: true,
        scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
        ..CreateOauthApp::default()
    };
    let made = oauth.create_app("acme", create, Millis(0)).await.unwrap();
    let credential = ClientCredential {
        id: made.client_id,
        secret: made.client_secret,
        or_secret: None,
    };
    let (rates, now) = (app.service.rates(), app.service.clock().now());
    let client = oauth.client(Some(&credential), rates, now).await.unwrap();
    let pairs = vec![("grant_type".to_owned(), "client_credentials".to_owned())];
    let request = TokenRequest { pairs };
    let issued = oauth.token(&client, &request, rates, now).await;
    issued.unwrap().access_token
}

#[tokio::test]
async fn cards_need_an_agent_scope() {
    let app = house(Settings::default()).await;
    let caller = token(&app, &["a2a:invoke", "agents:invoke"]).await;
    let finder = token(&app, &["a2a:discovery"]).await;
    let other = token(&app, &["runs:write", "runs:read"]).await;
    let card = "/agents/one/.well-known/agent-card.json";
    for (token, path, status) in [
        (&caller, card, 200),
        (&finder, card, 200),
        (&other, card, 403),
        (&caller, "/discovery", 403),
        (&finder, "/discovery", 200),
    ] {
        let reply = get(&app, token, path).await;
        assert_eq!(reply.status.as_u16(), status, "{path}: {reply:?}");
        if status == 403 {
            assert_eq!(reply.body["required"], "a2a:discovery");
        }
    }
    let sent = call(&app, &caller, ("one", "message/send"), say("hi")).await;
    assert!(sent.body["result"]["id"].is_string(), "{sent:?}");
    let sent = call(&app, &finder, ("one", "message/send"), say("hi")).await;
    assert_eq!(sent.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn serves_cards_at_usual_paths() {
    let app = house(Settings::default()).await;
    for place in [
        "",
        "/.well-known/agent-card.json",
        "/.well-known/agent.json",
    ] {
        let card = get(&app, &app.key, &format!("/agents/one{place}")).await;
        let url = "http://runs.test:8787/api/a2a/acme/agents/one";
        assert_eq!(card.body["url"], url, "{place}: {card:?}");
        assert_eq!(card.body["supportedInterfaces"][0]["url"], url);
    }
    let public = Settings {
        public_url: Some("https://runs.example.com/x".to_owned()),
        ..Settings::default()
    };
    let app = house(public).await;
    let card = get(&app, &app.key, "/agents/one").await;
    assert_eq!(
        card.body["url"],
        "https://runs.example.com/x/api/a2a/acme/agents/one"
    );
}

#[tokio::test]
async fn refuses_agents_with_client_tools() {
    let app = house(Settings::default()).await;
    let sent = call(&app, &app.key, ("local", "SendMessage"), say("hi")).await;
    assert_eq!(code(&sent), -32004);
    let words = sent.body["error"]["message"].as_str().unwrap();
    assert!(words.contains("read_file"), "{words}");
    let card = get(&app, &app.key, "/agents/local").await;
    assert_eq!(
        (card.status, card.code()),
        (StatusCode::CONFLICT, "conflict")
    );
}

#[tokio::test]
async fn hides_why_an_agent_cannot_run() {
    let app = house(Settings::default()).await;
    let tools = json!([{"kind": "mantyx", "id": "secret_ledger"}]);
    let broken = json!({"systemPrompt": "x", "modelId": "platform:silent", "tools": tools});
    put(&app, "/agents/one", broken).await;
    let sent = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
    assert_eq!(code(&sent), -32603);
    assert_eq!(sent.body["error"]["message"], "The agent is not available");
    // What is wrong with the message is still the sender's to mend.
    let long = say(&"x".repeat(200_001));
    let sent = call(&app, &app.key, ("one", "message/send"), long).await;
    assert_eq!(code(&sent), -32602);
}

#[tokio::test]
async fn agents_may_have_many_labels() {
    let app = house(Settings::default()).await;
    let labels: Map<String, Value> = (0..16)
        .map(|number| (format!("label{number}"), json!("x")))
        .collect();
    let full = json!({"systemPrompt": "x", "modelId": "platform:silent", "metadata": labels});
    put(&app, "/agents/one", full).await;
    let sent = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
    assert!(sent.body["result"]["id"].is_string(), "{sent:?}");
}

#[tokio::test]
async fn task_survives_a_change_of_its_agent() {
    // Nothing is left for waiting: without a worker no cancel comes to its end.
    let app = house(Settings {
        request_timeout: Duration::from_secs(5),
        ..Settings::default()
    })
    .await;
    let sent = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
    let named = json!({"id": sent.body["result"]["id"]});
    let tools = json!([{"kind": "local", "name": "read_file"}]);
    let changed = json!({"systemPrompt": "x", "modelId": "platform:silent", "tools": tools});
    put(&app, "/agents/one", changed).await;
    let again = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
    assert_eq!(code(&again), -32004);
    let found = call(&app, &app.key, ("one", "tasks/get"), named.clone()).await;
    assert_eq!(found.body["result"]["id"], named["id"], "{found:?}");
    let stopping = call(&app, &app.key, ("one", "tasks/cancel"), named.clone()).await;
    assert_eq!(stopping.body["result"]["id"], named["id"], "{stopping:?}");
}

#[tokio::test]
async fn malformed_calls_get_protocol_codes() {
    let app = house(Settings::default()).await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{{"id":{}1{}}}}}"#,
        "[".repeat(110),
        "]".repeat(110)
    );
    for (body, number) in [
        ("{".to_owned(), -32700),
        (String::new(), -32700),
        (deep, -32700),
        ("[]".to_owned(), -32600),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"tasks/get"}]"#.to_owned(),
            -32600,
        ),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"tasks/get"}"#.to_owned(),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"tasks/get"}"#.to_owned(),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/steal"}"#.to_owned(),
            -32601,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#.to_owned(),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#.to_owned(),
            -32001,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/set"}"#.to_owned(),
            -32003,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"}"#.to_owned(),
            -32004,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}"#.to_owned(),
            -32007,
        ),
    ] {
        let reply = post(&app, &app.key, "one", body.clone()).await;
        assert_eq!(code(&reply), number, "{body:.80}: {reply:?}");
    }
    let huge = "x".repeat(9 * 1024 * 1024);
    let reply = post(&app, &app.key, "one", huge).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    let long = call(
        &app,
        &app.key,
        ("one", "message/send"),
        say(&"x".repeat(200_001)),
    )
    .await;
    assert_eq!(code(&long), -32602);
}

#[tokio::test]
async fn refuses_future_versions() {
    let app = house(Settings::default()).await;
    let request = Request::post("/api/a2a/acme/agents/one")
        .header("x-api-key", &app.key)
        .header("a2a-version", "7.0")
        .header("content-type", "application/json");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": say("hi")});
    let reply = app
        .send(request.body(Body::from(body.to_string())).unwrap())
        .await;
    assert_eq!(code(&reply), -32009);
}

#[tokio::test]
async fn task_is_a_run_in_a_session() {
    let app = house(Settings::default()).await;
    let sent = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
    let task = &sent.body["result"];
    assert_eq!(
        (&task["kind"], &task["status"]["state"]),
        (&json!("task"), &json!("submitted"))
    );
    let (run, context) = (
        task["id"].as_str().unwrap(),
        task["contextId"].as_str().unwrap(),
    );
    let shown = app.get(&format!("/agent-runs/{run}")).await;
    assert_eq!(shown.body["sessionId"], context, "{shown:?}");
    assert_eq!(shown.body["metadata"]["runloom.via"], "a2a");
    let named = json!({"id": run});
    let found = call(&app, &app.key, ("one", "GetTask"), named.clone()).await;
    assert_eq!(found.body["result"]["id"], run);
    let elsewhere = call(&app, &app.key, ("two", "GetTask"), named).await;
    assert_eq!(code(&elsewhere), -32001);
    let mut again = say("hi");
    again["message"]["contextId"] = json!(context);
    let elsewhere = call(&app, &app.key, ("two", "message/send"), again.clone()).await;
    assert_eq!(code(&elsewhere), -32602);
    let next = call(&app, &app.key, ("one", "message/send"), again.clone()).await;
    assert_eq!(next.body["result"]["contextId"], context, "{next:?}");
    again["message"]["taskId"] = json!(run);
    let same = call(&app, &app.key, ("one", "message/send"), again).await;
    assert_eq!(code(&same), -32004);
}

#[tokio::test]
async fn tasks_belong_to_their_entry_point() {
    let app = house(Settings::default()).await;
    let agent = get(&app, &app.key, "/discovery").await.body["agents"][0]["id"].clone();
    let spec = json!({"agentId": agent, "prompt": "hi"});
    let run = app.post("/agent-runs", spec.to_string()).await.body["runId"].clone();
    let session = app
        .post("/agent-sessions", json!({"agentId": agent}).to_string())
        .await;
    let found = call(&app, &app.key, ("one", "tasks/get"), json!({"id": run})).await;
    assert_eq!(code(&found), -32001);
    let mut message = say("hi");
    message["message"]["contextId"] = session.body["sessionId"].clone();
    let sent = call(&app, &app.key, ("one", "message/send"), message).await;
    assert_eq!(code(&sent), -32602);
}

#[tokio::test]
async fn tasks_belong_to_their_workspace() {
    let app = house(Settings::default()).await;
    let sent = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
    let tenancy = app.service.tenancy();
    let put = PutWorkspace::default();
    tenancy
        .put_workspace("other", put, Millis(0))
        .await
        .unwrap();
    let made = tenancy.create_key("other", CreateKey::default(), Millis(0));
    let stranger = made.await.unwrap().key;
    let named = json!({"id": sent.body["result"]["id"]});
    let found = call(&app, &stranger, ("one", "tasks/get"), named).await;
    assert_eq!(
        (found.status, found.code()),
        (StatusCode::NOT_FOUND, "not_found")
    );
    let hint = found.body["hint"].as_str().unwrap();
    assert!(hint.ends_with("use /api/a2a/other/…"), "{hint}");
}

#[tokio::test]
async fn long_waits_return_the_task() {
    let impatient = Settings {
        answer_within: Duration::ZERO,
        ..Settings::default()
    };
    // A request of which nothing is left for waiting.
    let short = Settings {
        request_timeout: Duration::from_secs(5),
        ..Settings::default()
    };
    for settings in [impatient, short] {
        let app = house(settings).await;
        let mut message = say("hi");
        message["configuration"]["blocking"] = json!(true);
        // There is no worker: the run waits for ever.
        let sent = call(&app, &app.key, ("one", "message/send"), message).await;
        assert_eq!(sent.status, StatusCode::OK, "{sent:?}");
        assert_eq!(sent.body["result"]["kind"], "task");
        assert_eq!(sent.body["result"]["status"]["state"], "submitted");
    }
}

#[tokio::test]
async fn sends_count_as_run_starts() {
    let app = house(Settings::default()).await;
    for _ in 0..5 {
        let sent = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
        assert_eq!(sent.status, StatusCode::OK);
        assert_eq!(sent.header("x-ratelimit-bucket"), "run_starts");
    }
    let sent = call(&app, &app.key, ("one", "message/send"), say("hi")).await;
    assert_eq!(sent.status, StatusCode::TOO_MANY_REQUESTS, "{sent:?}");
    assert_eq!(sent.header("x-ratelimit-bucket"), "run_starts");
    assert_eq!(sent.header("x-ratelimit-limit"), "5");
    assert_eq!(sent.header("x-ratelimit-remaining"), "0");
    assert_eq!(sent.header("retry-after"), sent.header("x-ratelimit-reset"));
    let found = call(&app, &app.key, ("one", "tasks/get"), json!({"id": "run_1"})).await;
    assert_eq!(code(&found), -32001);
    assert_eq!(found.header("x-ratelimit-bucket"), "reads");
}

#[tokio::test]
async fn repeated_message_is_one_task() {
    let app = house(Settings::default()).await;
    let send = async |key: &str, text: &str| {
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": say(text)});
        let request = Request::post("/api/a2a/acme/agents/one")
            .header("x-api-key", key)
            .header("idempotency-key", "k1")
            .header("content-type", "application/json");
        app.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    };
    let (first, second) = (send(&app.key, "hi").await, send(&app.key, "hi").await);
    assert!(first.body["result"]["id"].is_string(), "{first:?}");
    assert_eq!(first.body["result"]["id"], second.body["result"]["id"]);
    assert_eq!(
        first.body["result"]["contextId"],
        second.body["result"]["contextId"]
    );
    assert_eq!(code(&send(&app.key, "other").await), -32602);
    // Another credential made no such promise, and must not get the answer that is not its own.
    let partner = key(&app, KeyUsage::A2a, &["one"]).await;
    let theirs = send(&partner, "hi").await;
    for id in ["id", "contextId"] {
        assert!(theirs.body["result"][id].is_string(), "{theirs:?}");
        assert_ne!(first.body["result"][id], theirs.body["result"][id]);
    }
}
