//! Agents, tools, plugins, secrets, external agents and providers over the admin API, and agents as runs use them.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::app::{ADMIN, Reply, TestApp};

pub(crate) async fn call(app: &TestApp, method: &str, path: &str, body: Option<Value>) -> Reply {
    conditional(app, method, path, body, None).await
}

async fn conditional(
    app: &TestApp,
    method: &str,
    path: &str,
    body: Option<Value>,
    condition: Option<(&str, &str)>,
) -> Reply {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("/api/admin/v1/workspaces/acme{path}"))
        .header("authorization", format!("Bearer {ADMIN}"));
    if let Some((name, value)) = condition {
        request = request.header(name, value);
    }
    let request = match body {
        Some(body) => request
            .header("content-type", "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    };
    app.send(request.unwrap()).await
}

pub(crate) async fn put(app: &TestApp, path: &str, body: Value) -> Reply {
    let reply = call(app, "PUT", path, Some(body)).await;
    assert!(reply.status.is_success(), "{reply:?}");
    reply
}

async fn agent(app: &TestApp, slug: &str, body: Value) -> String {
    let reply = put(app, &format!("/agents/{slug}"), body).await;
    reply.body["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn run(app: &TestApp, body: Value) -> Reply {
    app.post("/agent-runs", body.to_string()).await
}

async fn snapshot(app: &TestApp, accepted: &Reply) -> Value {
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "{accepted:?}");
    let id = accepted.body["runId"].as_str().unwrap();
    app.get(&format!("/agent-runs/{id}")).await.body
}

#[tokio::test]
async fn warns_about_ignored_schemas() {
    let app = TestApp::new().await;
    let body = json!({"type": "plugin", "plugin": "@time/now",
                      "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}});
    let put = call(&app, "PUT", "/tools/now", Some(body)).await;
    let warning = put.body["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("parameters: "), "{put:?}");
}

#[tokio::test]
async fn warns_about_missing_tools() {
    let app = TestApp::new().await;
    let agent = json!({"systemPrompt": "x", "tools": [{"kind": "mantyx", "id": "later"}]});
    let put = call(&app, "PUT", "/agents/a", Some(agent.clone())).await;
    assert_eq!(put.status, StatusCode::CREATED, "{put:?}");
    let warning = put.body["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("tools[0].id") && warning.contains("`later`"),
        "{warning}"
    );
    let read = call(&app, "GET", "/agents/a", None).await;
    assert_eq!(read.body.get("warnings"), None);
    let tool = json!({"type": "code", "source": "return 1"});
    call(&app, "PUT", "/tools/later", Some(tool)).await;
    let again = call(&app, "PUT", "/agents/a", Some(agent)).await;
    assert_eq!(again.status, StatusCode::OK, "{again:?}");
    assert_eq!(again.body.get("warnings"), None, "{again:?}");
}

#[tokio::test]
async fn refuses_unusable_definitions() {
    let app = TestApp::new().await;
    let http = |parameters: Value| json!({"type": "http", "url": "https://a.example/", "parameters": parameters});
    let kind = json!({"type": "object", "properties": {"a": {"type": "zzz"}}});
    let pattern = json!({"type": "object", "properties": {"a": {"pattern": "("}}});
    let outside = json!({"type": "object", "properties": {"a": {"$ref": "http://x.example/s"}}});
    let header =
        |name: &str| json!({"type": "http", "url": "https://a.example/", "headers": {name: "1"}});
    let code = |parameters: &Value| json!({"type": "code", "name": "add", "source": "return 1", "parameters": parameters});
    let fine = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut second = code(&kind);
    second["name"] = json!("sub");
    for (path, body, place, word) in [
        ("/tools/t", http(kind.clone()), "parameters", "zzz"),
        ("/tools/t", http(pattern), "parameters", "pattern"),
        (
            "/tools/t",
            http(outside),
            "parameters",
            "http://x.example/s",
        ),
        (
            "/plugins/p",
            json!({"tools": [code(&fine), second]}),
            "tools[1].parameters",
            "zzz",
        ),
        (
            "/tools/t",
            json!({"type": "code", "source": "return 1", "outputSchema": kind.clone()}),
            "outputSchema",
            "zzz",
        ),
        (
            "/tools/t",
            json!({"type": "code", "source": "return 1", "secrets": ["NOWHERE"]}),
            "secrets[0]",
            "NOWHERE",
        ),
        (
            "/tools/t",
            header("Content-Length"),
            "headers.Content-Length",
            "set by the server",
        ),
        (
            "/tools/t",
            header("host"),
            "headers.host",
            "set by the server",
        ),
        (
            "/tools/t",
            header("Transfer-Encoding"),
            "headers.Transfer-Encoding",
            "set by the server",
        ),
    ] {
        let reply = call(&app, "PUT", path, Some(body)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
        let issue = &reply.body["issues"][0];
        assert_eq!(issue["path"], place, "{reply:?}");
        let message = issue["message"].as_str().unwrap();
        assert!(message.contains(word), "{message}");
        let read = call(&app, "GET", path, None).await;
        assert_eq!(read.status, StatusCode::NOT_FOUND, "{read:?}");
    }
    put(&app, "/tools/t", http(fine)).await;
}

#[tokio::test]
async fn manages_every_kind() {
    let app = TestApp::new().await;
    put(&app, "/secrets/KEY", json!({"value": "s3cret"})).await;
    let tool = json!({"type": "http", "url": "https://a.example/{{x}}", "headers": {"A": "{{secret:KEY}}"}});
    for (path, list, body) in [
        (
            "/agents/support",
            "agents",
            json!({"systemPrompt": "Help."}),
        ),
        ("/tools/weather", "tools", tool),
        (
            "/plugins/math",
            "plugins",
            json!({"tools": [{"type": "code", "name": "add", "source": "return 1"}]}),
        ),
        (
            "/external-agents/peer",
            "externalAgents",
            json!({"agentCardUrl": "https://p.example/card"}),
        ),
        (
            "/providers/mine",
            "providers",
            json!({"kind": "demo", "models": [{"id": "m"}]}),
        ),
        ("/secrets/OTHER", "secrets", json!({"value": "x"})),
        (
            "/toolsets/docs",
            "toolsets",
            json!({"transport": "sse", "serverUrl": "https://d.example/sse", "headers": {"A": "{{secret:KEY}}"}}),
        ),
    ] {
        let made = call(&app, "PUT", path, Some(body.clone())).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        assert_eq!(made.body["version"], 1);
        let tag = made.header("etag").to_owned();
        let same = call(&app, "PUT", path, Some(body)).await;
        assert_eq!(
            (same.status, same.header("etag")),
            (StatusCode::OK, tag.as_str())
        );
        let read = call(&app, "GET", path, None).await;
        assert_eq!(read.body, made.body, "{path}");
        let (all, slug) = path[1..].split_once('/').unwrap();
        let listed = call(&app, "GET", &format!("/{all}"), None).await;
        let listed = listed.body[list].as_array().unwrap().clone();
        assert!(listed.contains(&read.body), "{listed:?}");
        let by_id = format!("/{all}/{}", made.body["id"].as_str().unwrap());
        assert_eq!(call(&app, "GET", &by_id, None).await.body["slug"], slug);
        let gone = call(&app, "DELETE", &by_id, None).await;
        assert_eq!(gone.body, json!({"ok": true}));
        for method in ["GET", "DELETE"] {
            let reply = call(&app, method, path, None).await;
            assert_eq!(
                (reply.status, reply.code()),
                (StatusCode::NOT_FOUND, "not_found")
            );
        }
    }
}

#[tokio::test]
async fn checks_preconditions() {
    let app = TestApp::new().await;
    let body = |text: &str| Some(json!({"systemPrompt": text}));
    let path = "/agents/a";
    let absent = Some(("if-none-match", "*"));
    let made = conditional(&app, "PUT", path, body("1"), absent).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let first = made.header("etag").to_owned();
    let second = conditional(&app, "PUT", path, body("2"), Some(("if-match", &first))).await;
    assert_eq!(
        (second.status, &second.body["version"]),
        (StatusCode::OK, &json!(2))
    );
    for (method, condition) in [
        ("PUT", ("if-none-match", "*")),
        ("PUT", ("if-match", first.as_str())),
        ("DELETE", ("if-match", first.as_str())),
        ("PUT", ("if-match", "\"999\"")),
        ("DELETE", ("if-match", "\"999\"")),
    ] {
        let text = (method == "PUT").then(|| json!({"systemPrompt": "3"}));
        let reply = conditional(&app, method, path, text, Some(condition)).await;
        assert_eq!(
            reply.status,
            StatusCode::PRECONDITION_FAILED,
            "{method} {condition:?}"
        );
        assert_eq!(reply.code(), "precondition_failed");
    }
    let missing = Some(("if-match", "*"));
    let reply = conditional(&app, "PUT", "/agents/b", body("1"), missing).await;
    assert_eq!(reply.status, StatusCode::PRECONDITION_FAILED);
    let bad = Some(("if-match", "7"));
    let reply = conditional(&app, "PUT", path, body("1"), bad).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::BAD_REQUEST, "invalid_request")
    );
    let now = call(&app, "GET", path, None).await;
    assert_eq!(now.body["definition"]["systemPrompt"], "2");
    let old = call(&app, "GET", "/agents/a?version=1", None).await;
    assert_eq!(old.body["definition"]["systemPrompt"], "1");
}

#[tokio::test]
async fn reports_all_violations_of_a_definition() {
    let app = TestApp::new().await;
    for (path, body, paths) in [
        (
            "/agents/Bad",
            json!({"sytemPrompt": ""}),
            vec!["slug", "systemPrompt", "sytemPrompt"],
        ),
        (
            "/agents/a",
            json!({"slug": "b", "systemPrompt": "x"}),
            vec!["slug"],
        ),
        (
            "/tools/t",
            json!({"type": "http", "url": "https://{{h}}/", "timeoutMs": 0}),
            vec!["url", "timeoutMs"],
        ),
        (
            "/tools/t",
            json!({"type": "http", "url": "https://a.example/", "headers": {"A": "{{secret:NO}}"}}),
            vec!["headers.A"],
        ),
        (
            "/tools/t",
            json!({"type": "http", "url": "https://a.example/", "headers": {"A": "***"}}),
            vec!["headers.A"],
        ),
        (
            "/providers/p",
            json!({"kind": "demo", "apiKey": "wrong"}),
            vec!["apiKey"],
        ),
    ] {
        let reply = call(&app, "PUT", path, Some(body)).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::BAD_REQUEST, "invalid_request"),
            "{path}"
        );
        let issues = reply.body["issues"].as_array().unwrap();
        let found: Vec<_> = issues
            .iter()
            .map(|issue| issue["path"].as_str().unwrap())
            .collect();
        assert_eq!(found, paths, "{path}");
    }
    let model = json!({"systemPrompt": "x", "modelId": "nobody/none"});
    let reply = call(&app, "PUT", "/agents/a", Some(model)).await;
    assert_eq!(reply.code(), "invalid_model");
}

#[tokio::test]
async fn run_uses_and_records_its_agent() {
    let app = TestApp::new().await;
    let local = |name: &str| json!({"kind": "local", "name": name});
    let body = json!({"name": "Support", "systemPrompt": "Agent.", "tools": [local("a")],
        "skills": [{"name": "S", "text": "Skill."}], "reasoningLevel": 30});
    let id = agent(&app, "support", body.clone()).await;
    let request =
        json!({"agentId": id, "systemPrompt": "Mine.", "prompt": "Hi", "tools": [local("b")]});
    let first = snapshot(&app, &run(&app, request.clone()).await).await;
    assert_eq!(
        (&first["agentId"], &first["agentVersion"]),
        (&json!(id), &json!(1))
    );
    let spec = &first["agentSpec"];
    let prompt = spec["systemPrompt"].as_str().unwrap();
    assert!(
        prompt.starts_with("Agent.") && prompt.ends_with("Skill."),
        "{prompt}"
    );
    assert_eq!(spec["tools"], json!([local("a"), local("b")]));
    assert_eq!(spec["reasoningLevel"], 30);

    let mut changed = body;
    changed["systemPrompt"] = json!("Changed.");
    agent(&app, "support", changed).await;
    let second = snapshot(&app, &run(&app, request).await).await;
    assert_eq!(second["agentVersion"], 2);
    let again = app
        .get(&format!("/agent-runs/{}", first["id"].as_str().unwrap()))
        .await;
    assert_eq!(again.body["agentVersion"], 1);
    let listed = app.get(&format!("/agent-runs?agentId={id}")).await;
    assert_eq!(listed.body["runs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn session_uses_the_current_agent() {
    let app = TestApp::new().await;
    let tool = json!({"kind": "local", "name": "a"});
    let body = json!({"systemPrompt": "One.", "tools": [tool]});
    let id = agent(&app, "support", body).await;
    let made = app
        .post("/agent-sessions", json!({"agentId": id}).to_string())
        .await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let path = format!(
        "/agent-sessions/{}/messages",
        made.body["sessionId"].as_str().unwrap()
    );
    for (prompt, version) in [("One.", 1), ("Two.", 2)] {
        agent(
            &app,
            "support",
            json!({"systemPrompt": prompt, "tools": [tool]}),
        )
        .await;
        let accepted = app.post(&path, json!({"prompt": "Hi"}).to_string()).await;
        let run = snapshot(&app, &accepted).await;
        assert_eq!(run["agentSpec"]["systemPrompt"], prompt);
        assert_eq!(run["agentSpec"]["tools"], json!([tool]));
        assert_eq!(run["agentVersion"], version);
    }
}

#[tokio::test]
async fn unknown_and_forbidden_agents_look_alike() {
    let app = TestApp::new().await;
    let id = agent(&app, "support", json!({"systemPrompt": "x"})).await;
    let other = agent(&app, "other", json!({"systemPrompt": "x"})).await;
    let malformed = run(&app, json!({"agentId": "support", "prompt": "Hi"})).await;
    assert_eq!(
        (malformed.status, malformed.code()),
        (StatusCode::BAD_REQUEST, "invalid_request")
    );
    let unknown = run(&app, json!({"agentId": "agent_nobody", "prompt": "Hi"})).await;
    assert_eq!(
        (unknown.status, unknown.code()),
        (StatusCode::FORBIDDEN, "forbidden")
    );

    for allowed in [id.as_str(), "support"] {
        let key = call(&app, "POST", "/keys", Some(json!({"agentIds": [allowed]}))).await;
        let key = key.body["key"].as_str().unwrap().to_owned();
        let post = |id: &str| {
            let request = Request::builder()
                .method("POST")
                .uri("/api/v1/workspaces/acme/agent-runs")
                .header("x-api-key", &key)
                .header("content-type", "application/json");
            let body = json!({"agentId": id, "prompt": "Hi"}).to_string();
            app.send(request.body(Body::from(body)).unwrap())
        };
        assert_eq!(post(&id).await.status, StatusCode::ACCEPTED);
        let refused = post(&other).await;
        assert_eq!(
            (refused.status, refused.code()),
            (StatusCode::FORBIDDEN, "forbidden")
        );
        let request = Request::builder()
            .uri("/api/v1/workspaces/acme/agents")
            .header("x-api-key", &key);
        let seen = app.send(request.body(Body::empty()).unwrap()).await;
        let slugs: Vec<_> = seen.body["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| &agent["slug"])
            .collect();
        assert_eq!(slugs, ["support"]);
    }
    let all = app.get("/agents").await;
    assert_eq!(all.body["agents"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn refuses_agents_of_another_workspace() {
    let app = TestApp::new().await;
    let service = &app.service;
    let beta = runloom_service::tenancy::PutWorkspace::default();
    let now = service.clock().now();
    service
        .tenancy()
        .put_workspace("beta", beta, now)
        .await
        .unwrap();
    let body = json!({"systemPrompt": "x"});
    let put = service.registry().put(
        "beta",
        runloom_ports::store::DocumentKind::Agent,
        "spy",
        &body,
        runloom_ports::store::Expect::Anything,
    );
    let id = put.await.unwrap().document.id;
    let reply = run(&app, json!({"agentId": id, "prompt": "Hi"})).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::FORBIDDEN, "forbidden")
    );
    assert_eq!(
        call(&app, "GET", &format!("/agents/{id}"), None)
            .await
            .status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn stored_models_change_at_once() {
    let app = TestApp::new().await;
    let body = json!({"kind": "openai", "apiKey": "sk-literal", "models": [{"id": "m1"}]});
    let made = put(&app, "/providers/mine", body).await;
    assert_eq!(made.body["definition"]["apiKey"], "***");
    let ids = async || {
        let models = app.get("/models").await.body;
        models["models"].to_string()
    };
    assert!(ids().await.contains("provider:mine:m1"));
    let request = json!({"systemPrompt": "x", "prompt": "Hi", "modelId": "mine/m1"});
    assert_eq!(run(&app, request).await.status, StatusCode::ACCEPTED);
    call(&app, "DELETE", "/providers/mine", None).await;
    assert!(!ids().await.contains("provider:mine:m1"));
}
