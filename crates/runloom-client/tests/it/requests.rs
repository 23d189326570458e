//! JSON calls: what is sent, what is repeated, how refusals read.

use runloom_client::protocol::error::ErrorCode;
use runloom_client::protocol::id::{RunId, SessionId};
use runloom_client::protocol::spec::ToolAnswer;
use runloom_client::{
    AdminClient, Client, CreateKey, Error, MessageRequest, Options, RetryPolicy, RunFilter,
    RunRequest,
};

use crate::server::{Server, json, json_with};

const ACCEPTED: &str = r#"{"runId":"run_1","streamUrl":"/x"}"#;

#[tokio::test]
async fn sends_spec_and_prompt_in_one_object() {
    let server = Server::start(|_, _, stream| json(stream, "202 Accepted", ACCEPTED));
    let mut request = RunRequest::prompt("Be terse.", "hello");
    request.spec.model_id = Some("platform:demo".to_owned());
    let accepted = server.client().create_run(&request).await.unwrap();
    assert_eq!(accepted.run_id.as_str(), "run_1");

    let seen = &server.seen.all()[0];
    assert!(
        seen.line
            .starts_with("POST /api/v1/workspaces/acme/agent-runs HTTP")
    );
    assert_eq!(seen.header("authorization"), Some("Bearer mantyx_test"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(
        seen.body,
        r#"{"systemPrompt":"Be terse.","modelId":"platform:demo","prompt":"hello"}"#
    );
}

#[tokio::test]
async fn repeats_a_rate_limited_create_only() {
    let server = Server::start(|_, seen, stream| match seen.count("/agent-runs") {
        1 => json_with(stream, "429 Too Many Requests", "Retry-After: 0\r\n", "{}"),
        _ => json(stream, "500 Internal Server Error", "oops"),
    });
    let error = server
        .client()
        .create_run(&RunRequest::prompt("s", "p"))
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(500));
    assert!(error.to_string().contains("oops"), "{error}");
    assert_eq!(server.seen.count("/agent-runs"), 2);
}

#[tokio::test]
async fn repeats_a_create_with_an_idempotency_key() {
    let server = Server::start(|_, seen, stream| match seen.count("/agent-runs") {
        1 => {}
        2 => json(stream, "503 Service Unavailable", "{}"),
        _ => json(stream, "202 Accepted", ACCEPTED),
    });
    let mut request = RunRequest::prompt("s", "p");
    request.idempotency_key = Some("k1".to_owned());
    server.client().create_run(&request).await.unwrap();
    let keys: Vec<_> = server
        .seen
        .all()
        .iter()
        .map(|seen| seen.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(keys, vec![Some("k1".to_owned()); 3]);
}

#[tokio::test]
async fn retries_tool_results() {
    let server = Server::start(|_, seen, stream| match seen.count("/tool-results") {
        1 => json(stream, "429 Too Many Requests", "{}"),
        2 => json(stream, "502 Bad Gateway", "<html>"),
        3 => {}
        _ => json(stream, "200 OK", r#"{"ok":true}"#),
    });
    let run = RunId::parse("run_1").unwrap();
    let answer = ToolAnswer::Result("sunny".to_owned());
    server
        .client()
        .submit_tool_result(&run, "tu_1", &answer)
        .await
        .unwrap();
    let bodies: Vec<_> = server
        .seen
        .all()
        .into_iter()
        .map(|seen| seen.body)
        .collect();
    assert_eq!(bodies, vec![r#"{"toolUseId":"tu_1","result":"sunny"}"#; 4]);
}

#[tokio::test]
async fn refusals_are_typed() {
    let server = Server::start(|_, _, stream| {
        let body = r#"{"error":"invalid_model","code":"invalid_model","message":"no such model","candidates":["platform:demo"]}"#;
        json(stream, "400 Bad Request", body);
    });
    let error = server
        .client()
        .create_run(&RunRequest::prompt("s", "p"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::InvalidModel));
    assert_eq!(
        error.to_string(),
        "invalid_model (HTTP 400): no such model\n  near: platform:demo"
    );
    assert!(!error.is_transient());
}

#[tokio::test]
async fn missing_server_is_unreachable() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let options = runloom_client::Options {
        retry: runloom_client::RetryPolicy::none(),
        ..Default::default()
    };
    let client = Client::with_options(
        &format!("http://127.0.0.1:{port}"),
        "mantyx_x",
        "acme",
        options,
    )
    .unwrap();
    let error = client.models().await.unwrap_err();
    assert!(error.is_unreachable(), "{error}");
}

#[test]
fn explains_a_bad_address() {
    for url in ["127.0.0.1:8787", "ftp://x", "", "http://"] {
        assert!(
            matches!(Client::new(url, "k", "w"), Err(Error::Setup(_))),
            "{url}"
        );
    }
}

#[tokio::test]
async fn escapes_ids_in_paths() {
    let server = Server::start(|_, _, stream| json(stream, "200 OK", "{}"));
    let client = Client::new(&format!("{}/base/", server.url), "k", "a/../b?c").unwrap();
    let id: RunId = serde_json::from_str("\"run_/x#y\"").unwrap();
    client.cancel_run(&id).await.unwrap();
    let line = &server.seen.all()[0].line;
    assert_eq!(
        line,
        "POST /base/api/v1/workspaces/a%2F..%2Fb%3Fc/agent-runs/run_%2Fx%23y/cancel HTTP/1.1"
    );
}

#[tokio::test]
async fn filters_lists_and_sends_messages() {
    let server = Server::start(|request, _, stream| {
        if request.line.contains("messages") {
            json(stream, "202 Accepted", ACCEPTED);
        } else {
            json(
                stream,
                "200 OK",
                r#"{"total":null,"limit":5,"nextCursor":null,"runs":[]}"#,
            );
        }
    });
    let client = server.client();
    let filter = RunFilter {
        limit: Some(5),
        metadata: [("team".to_owned(), "a b".to_owned())].into(),
        ..RunFilter::default()
    };
    assert_eq!(client.runs(&filter).await.unwrap().limit, 5);
    let session = SessionId::parse("ses_1").unwrap();
    client
        .send_message(&session, &MessageRequest::new("hi"))
        .await
        .unwrap();
    client.end_session(&session).await.unwrap();

    let seen = server.seen.all();
    assert!(
        seen[0].line.contains("?limit=5&metadata=team%3Aa+b "),
        "{}",
        seen[0].line
    );
    assert_eq!(seen[1].body, r#"{"prompt":"hi"}"#);
    assert!(seen[2].line.starts_with("DELETE ") && seen[2].header("content-type").is_none());
}

#[tokio::test]
async fn admin_calls_carry_the_token() {
    let server = Server::start(|_, _, stream| {
        json(
            stream,
            "201 Created",
            r#"{"id":"key_1","key":"mantyx_secret"}"#,
        )
    });
    let admin = AdminClient::new(&server.url, "token").unwrap();
    let created = admin
        .create_key("acme", &CreateKey::default())
        .await
        .unwrap();
    assert_eq!(created.key, "mantyx_secret");
    assert!(!format!("{created:?}").contains("secret"));
    let seen = &server.seen.all()[0];
    assert!(
        seen.line
            .starts_with("POST /api/admin/v1/workspaces/acme/keys ")
    );
    assert_eq!(seen.header("authorization"), Some("Bearer token"));
}

#[tokio::test]
async fn lists_plugins_of_other_versions() {
    for (answer, sources) in [
        (r#"{"plugins":[]}"#, &[][..]),
        (
            r#"{"plugins":[],"installed":[{"name":"@web","source":"shipped","tools":["fetch"]},
                {"name":"@x","source":"market","tools":[],"rating":5}]}"#,
            &["shipped", "other"],
        ),
    ] {
        let server = Server::start(move |_, _, stream| json(stream, "200 OK", answer));
        let admin = AdminClient::new(&server.url, "token").unwrap();
        let found = admin.installed_plugins("acme").await.unwrap();
        let told: Vec<&str> = found.iter().map(|plugin| plugin.source.as_str()).collect();
        assert_eq!(told, sources);
    }
}

#[tokio::test]
async fn hides_credentials_in_addresses() {
    let options = Options {
        retry: RetryPolicy::none(),
        ..Options::default()
    };
    let url = "http://user:hunter2@127.0.0.1:1/base";
    let client = Client::with_options(url, "mantyx_x", "acme", options).unwrap();
    let said = client.models().await.unwrap_err().to_string();
    assert!(said.contains("http://127.0.0.1:1: "), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
