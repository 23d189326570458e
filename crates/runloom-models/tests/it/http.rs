//! The HTTP call that all adapters share, tested with one of them.

use runloom_ports::model::{Message, ModelRequest};
use runloom_protocol::outcome::ErrorClass;

use crate::cases::{ask, listen, stream};
use crate::providers::{self, Row};
use crate::server::{Reply, Server};

fn whole(row: &Row) -> Reply {
    Reply::Whole {
        status: 200,
        headers: vec![("content-type", row.content_type.to_owned())],
        body: row.fixture("text"),
    }
}

#[tokio::test]
async fn reuses_the_connection_for_a_second_call() {
    let row = providers::openai();
    let server = Server::start([whole(&row), whole(&row)]).await;
    for _ in 0..2 {
        // Opened again: connections are shared by all models of the process.
        listen(row.open(&server).as_ref(), ask("Hello"))
            .await
            .done();
    }
    let asked = server.asked();
    assert_eq!(asked[0].peer, asked[1].peer);
}

#[tokio::test]
async fn sends_a_long_conversation_with_its_length() {
    let rows = [
        providers::openai(),
        providers::openai_compatible(),
        providers::anthropic(),
        providers::bedrock(),
        providers::google(),
    ];
    for row in rows {
        let mut request = ask(&"Once upon a \"time\".\n".repeat(4_000));
        for n in 0..40 {
            let text = format!("{n} ").repeat(1_000).into();
            let answer = Message::Assistant {
                text: "Go on.".into(),
                calls: Vec::new(),
                state: None,
            };
            let said = Message::User { text };
            request.messages.append(vec![answer, said]);
        }
        let in_one_block = ModelRequest {
            messages: request.messages.iter().cloned().collect(),
            ..request.clone()
        };
        let server = Server::start([(); 3].map(|()| whole(&row))).await;
        let model = row.open(&server);
        for request in [in_one_block, request.clone(), request] {
            listen(model.as_ref(), request).await.done();
        }
        let asked = server.asked();
        assert!(asked[0].body.len() > 200_000);
        for one in &asked {
            assert!(one.body == asked[0].body, "{}", row.kind.as_str());
            assert_eq!(one.headers["content-length"], one.body.len().to_string());
            assert!(!one.headers.contains_key("transfer-encoding"));
            assert_eq!(one.peer, asked[0].peer, "the connection is used again");
        }
    }
}

#[tokio::test]
async fn configured_headers_replace_the_adapters() {
    let row = providers::openai();
    let server = Server::start([stream(&row, "text")]).await;
    let mut settings = row.settings(&server);
    settings
        .headers
        .insert("Authorization".into(), "Bearer other".into());
    settings.headers.insert("X-Team".into(), "blue".into());
    let model = runloom_models::open(
        row.kind,
        &settings,
        &runloom_models::ModelSettings::default(),
    )
    .unwrap();
    listen(model.as_ref(), ask("Hello")).await.done();
    let asked = server.asked().pop().unwrap();
    assert_eq!(asked.headers["authorization"], "Bearer other");
    assert_eq!(asked.headers["x-team"], "blue");
}

#[tokio::test]
async fn rejects_json_instead_of_a_stream() {
    let row = providers::openai();
    let server = Server::start([Reply::Whole {
        status: 200,
        headers: vec![("content-type", "application/json".to_owned())],
        body: b"{\"error\":{\"message\":\"busy\",\"code\":\"rate_limit_exceeded\"}}".to_vec(),
    }])
    .await;
    let heard = listen(row.open(&server).as_ref(), ask("Hello")).await;
    assert_eq!(heard.error().class, ErrorClass::RateLimit);
}

#[tokio::test]
async fn does_not_follow_redirects() {
    let row = providers::openai();
    let server = Server::start([
        Reply::Whole {
            status: 307,
            headers: vec![("location", "/elsewhere".to_owned())],
            body: Vec::new(),
        },
        stream(&row, "text"),
    ])
    .await;
    let heard = listen(row.open(&server).as_ref(), ask("Hello")).await;
    let error = heard.error();
    assert_eq!(
        (error.class, error.api_status),
        (ErrorClass::InvalidRequest, Some(307))
    );
    assert_eq!(server.asked().len(), 1, "the key goes nowhere else");
}

#[tokio::test]
async fn uses_a_configured_proxy() {
    let row = providers::openai();
    let proxy = Server::start([stream(&row, "text")]).await;
    let mut settings = row.settings(&proxy);
    settings.base_url = Some("http://provider.invalid/v1".into());
    settings.proxy = Some(format!("http://{}", proxy.address()));
    let model = runloom_models::open(
        row.kind,
        &settings,
        &runloom_models::ModelSettings::default(),
    )
    .unwrap();
    listen(model.as_ref(), ask("Hello")).await.done();
    let asked = proxy.asked().pop().unwrap();
    assert_eq!(asked.path, "http://provider.invalid/v1/responses");
}

#[tokio::test]
async fn cuts_a_long_error_page() {
    let row = providers::openai();
    let server = Server::start([Reply::Whole {
        status: 502,
        headers: vec![("content-type", "text/html".to_owned())],
        body: b"<p>bad gateway</p>".repeat(100_000),
    }])
    .await;
    let heard = listen(row.open(&server).as_ref(), ask("Hello")).await;
    let error = heard.error();
    assert_eq!(
        (error.class, error.api_status),
        (ErrorClass::Server, Some(502))
    );
    assert!(error.message.len() < 3_000);
}

#[tokio::test]
async fn does_not_retry_a_web_page() {
    let row = providers::openai();
    let page = || Reply::Whole {
        status: 200,
        headers: vec![("content-type", "text/html; charset=utf-8".to_owned())],
        body: b"<!doctype html>\n<title>Sign in</title>".to_vec(),
    };
    let server = Server::start([page(), page()]).await;
    let heard = listen(row.open(&server).as_ref(), ask("Hello")).await;
    let error = heard.error();
    assert!(!error.retryable, "{error:?}");
    for word in ["web page", "base_url", "<title>Sign in</title>"] {
        assert!(error.message.contains(word), "{}", error.message);
    }
}
