//! Remote agents of both protocol versions, and their failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::response::Response;
use reqwest::Method;
use runloom_ports::effect::Effect;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peers::{
    Peer, ReceivedRequest, TestBed, broken, open_policy, reply, result, rpc_error, status, typed,
};

const MESSAGE: &str = "What is the weather?";

pub(crate) fn said(text: &str) -> Value {
    json!({"kind": "message", "role": "agent", "messageId": "m1", "parts": [{"kind": "text", "text": text}]})
}

fn task(state: &str, text: &str) -> Value {
    json!({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": state},
           "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": text}]}]})
}

fn refs(url: &str) -> Value {
    json!([{"kind": "a2a", "name": "weather", "agentCardUrl": url, "contextId": "c1",
            "headers": {"Authorization": "Bearer secret"}}])
}

async fn ask(bed: &TestBed, url: &str) -> runloom_ports::tools::Outcome {
    let (context, tools) = bed.resolve(&refs(url)).await;
    bed.call(&context, &tools[0], json!({"message": MESSAGE}))
        .await
}

/// A JSON-RPC agent with a card at the well-known path.
pub(crate) async fn agent<F>(script: F) -> Peer
where
    F: Fn(&ReceivedRequest) -> Response + Send + Sync + 'static,
{
    Peer::start(move |received| {
        let answer = match (&received.method, received.path.as_str()) {
            (&Method::GET, "/.well-known/agent-card.json") => reply(
                &json!({"name": "Weather", "url": "/a2a", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}),
            ),
            (&Method::POST, "/a2a") => script(&received),
            _ => status(404),
        };
        async move { answer }
    })
    .await
}

#[tokio::test]
async fn resolving_makes_no_connection() {
    let peer = Peer::start(|_| async { status(404) }).await;
    let bed = TestBed::new();
    let mut given = refs(&peer.url);
    let (_, tools) = bed.resolve(&given).await;
    assert_eq!(tools[0].name, "weather");
    assert_eq!(
        tools[0].description,
        "Delegate a task to the weather agent over A2A. Pass the full task as a single message."
    );
    assert_eq!(tools[0].parameters["required"], json!(["message"]));
    assert_eq!(tools[0].effect, Effect::Once);
    given[0]["description"] = json!("Asks the weather agent.");
    let (_, tools) = bed.resolve(&given).await;
    assert_eq!(tools[0].description, "Asks the weather agent.");
    assert!(peer.received().is_empty());
}

#[tokio::test]
async fn sends_the_message_to_the_declared_endpoint() {
    let peer = agent(|received| result(received, &said("sunny"))).await;
    let bed = TestBed::new();
    for url in [
        peer.url.clone(),
        format!("{}/", peer.url),
        format!("{}/.well-known/agent-card.json", peer.url),
    ] {
        let outcome = ask(&bed, &url).await;
        assert_eq!(
            (outcome.content.as_str(), outcome.is_error),
            ("sunny", false)
        );
    }
    let received = peer.received();
    let sent = received.iter().find(|h| h.method == Method::POST).unwrap();
    assert_eq!(sent.rpc_method(), "message/send");
    let message = &sent.body["params"]["message"];
    assert_eq!(message["parts"], json!([{"kind": "text", "text": MESSAGE}]));
    assert_eq!(message["role"], "user");
    assert_eq!(message["contextId"], "c1");
    assert_eq!(message["messageId"], "tu_1");
    for received in &received {
        assert_eq!(received.header("authorization"), Some("Bearer secret"));
    }
    assert!(
        received
            .iter()
            .all(|h| h.method == Method::GET || h.path == "/a2a")
    );
}

#[tokio::test]
async fn supports_agents_of_version_1_0() {
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let peer = Peer::start(move |received| async move {
            assert!(received.method == Method::GET || received.header("a2a-version") == Some("1.0"));
            let card = json!({"name": "Weather", "supportedInterfaces": [
                {"url": "/x", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
                {"url": "/v", "protocolBinding": binding, "protocolVersion": "1.0"}]});
            let task = |state: &str| {
                json!({"id": "t1", "status": {"state": state}, "artifacts": [{"parts": [{"text": "sunny"}]}]})
            };
            match (&received.method, received.path.as_str()) {
                (&Method::GET, "/card.json") => reply(&card),
                (&Method::POST, "/v") if received.rpc_method() == "SendMessage" => {
                    result(&received, &json!({"task": task("TASK_STATE_SUBMITTED")}))
                }
                (&Method::POST, "/v") if received.rpc_method() == "GetTask" => {
                    result(&received, &task("TASK_STATE_COMPLETED"))
                }
                (&Method::POST, "/v/message:send") => {
                    assert_eq!(received.body["message"]["role"], "ROLE_USER");
                    assert_eq!(received.body["message"]["parts"][0]["text"], MESSAGE);
                    reply(&json!({"task": task("TASK_STATE_WORKING")}))
                }
                (&Method::GET, "/v/tasks/t1") => reply(&task("TASK_STATE_COMPLETED")),
                _ => status(500),
            }
        })
        .await;
        let outcome = ask(&TestBed::new(), &format!("{}/card.json", peer.url)).await;
        assert_eq!(outcome.content, "sunny", "{binding}: {outcome:?}");
    }
}

#[tokio::test]
async fn probes_endpoints_in_order_without_a_card() {
    let places = ["/", "/rpc", "/message:send", "/message/send"];
    for home in places {
        let peer = Peer::start(move |received| async move {
            if received.method != Method::POST || received.path != home {
                return status(404);
            }
            if home.contains("message") {
                assert_eq!(received.body["message"]["parts"][0]["text"], MESSAGE);
                return reply(&said("sunny"));
            }
            result(&received, &said("sunny"))
        })
        .await;
        let outcome = ask(&TestBed::new(), &peer.url).await;
        assert_eq!(outcome.content, "sunny", "{home}: {outcome:?}");
        let mut posts: Vec<String> = peer
            .received()
            .into_iter()
            .filter(|h| h.method == Method::POST)
            .map(|h| h.path)
            .collect();
        posts.dedup();
        let expected: Vec<&str> = places.iter().copied().take(posts.len()).collect();
        assert_eq!(posts, expected);
        assert_eq!(posts.last().map(String::as_str), Some(home));
    }
}

#[tokio::test]
async fn falls_back_to_the_other_version_on_an_unknown_method() {
    let peer = Peer::start(|received| async move {
        match received.rpc_method() {
            "SendMessage" => result(
                &received,
                &json!({"message": {"role": "ROLE_AGENT", "parts": [{"text": "sunny"}]}}),
            ),
            "message/send" => rpc_error(&received, -32601, "Method not found"),
            _ => status(405),
        }
    })
    .await;
    let outcome = ask(&TestBed::new(), &peer.url).await;
    assert_eq!(outcome.content, "sunny", "{outcome:?}");
}

#[tokio::test]
async fn polls_a_task_over_failed_polls() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let peer = agent(move |received| match received.rpc_method() {
        "message/send" => result(received, &task("submitted", "")),
        "tasks/get" => match counted.fetch_add(1, Ordering::SeqCst) {
            0 => status(503),
            1 => typed("text/html", "<html>"),
            2 => result(received, &task("working", "")),
            _ => result(received, &task("completed", "sunny")),
        },
        _ => status(500),
    })
    .await;
    let outcome = ask(&TestBed::new(), &peer.url).await;
    assert_eq!(
        (outcome.content.as_str(), outcome.is_error),
        ("sunny", false)
    );
    assert_eq!(peer.count("message/send"), 1);
    let received = peer.received();
    let look = received
        .iter()
        .find(|h| h.rpc_method() == "tasks/get")
        .unwrap();
    assert_eq!(look.body["params"]["id"], "t1");
}

#[tokio::test]
async fn stopped_task_is_an_error_with_the_agents_message() {
    for (state, words) in [
        ("failed", "ended as failed"),
        ("rejected", "ended as rejected"),
        ("canceled", "ended as canceled"),
        ("input-required", "more input"),
        ("auth-required", "credentials"),
    ] {
        let peer = agent(move |received| {
            let mut stopped = task(state, "");
            stopped["status"]["message"] = said("which city?");
            result(received, &stopped)
        })
        .await;
        let outcome = ask(&TestBed::new(), &peer.url).await;
        assert!(outcome.is_error);
        assert!(
            outcome.content.contains(words),
            "{state}: {}",
            outcome.content
        );
        assert!(
            outcome.content.contains("which city?"),
            "{}",
            outcome.content
        );
    }
}

#[tokio::test]
async fn never_sends_a_message_twice_that_may_have_arrived() {
    let answers: [fn(&ReceivedRequest) -> Response; 6] = [
        |_| status(500),
        |_| status(401),
        |_| typed("application/json", broken("{\"jsonrpc\"")),
        |_| typed("text/plain", "nonsense"),
        |received| rpc_error(received, -32603, "it exploded"),
        |received| result(received, &json!({"ok": true})),
    ];
    for (turn, answer) in answers.into_iter().enumerate() {
        let peer = agent(answer).await;
        let outcome = ask(&TestBed::new(), &peer.url).await;
        assert!(outcome.is_error, "{turn}: {outcome:?}");
        let posts = peer
            .received()
            .into_iter()
            .filter(|h| h.method == Method::POST);
        assert_eq!(posts.count(), 1, "{turn}");
        assert!(!outcome.content.contains("secret"));
    }
}

#[tokio::test]
async fn cancels_the_task_after_a_timeout() {
    let peer = agent(|received| match received.rpc_method() {
        "message/send" | "tasks/get" => result(received, &task("working", "")),
        _ => status(500),
    })
    .await;
    let limits = ToolLimits {
        call_timeout: Duration::from_secs(3),
        ..ToolLimits::default()
    };
    let bed = TestBed::with(open_policy(), limits);
    let outcome = ask(&bed, &peer.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("did not end"),
        "{outcome:?}"
    );
    peer.until(|received| received.rpc_method() == "tasks/cancel")
        .await;
}

#[tokio::test]
async fn dropped_call_cancels_the_task() {
    let peer = agent(|received| match received.rpc_method() {
        "message/send" | "tasks/get" => result(received, &task("working", "")),
        _ => result(received, &task("canceled", "")),
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer.url)).await;
    tokio::select! {
        outcome = bed.call(&context, &tools[0], json!({"message": MESSAGE})) => panic!("{outcome:?}"),
        () = peer.until(|received| received.rpc_method() == "tasks/get") => {}
    }
    peer.until(|received| {
        received.rpc_method() == "tasks/cancel" && received.body["params"]["id"] == "t1"
    })
    .await;
}

#[tokio::test]
async fn cancels_only_tasks_that_may_still_run() {
    let peer = agent(|received| match received.rpc_method() {
        "message/send" => result(received, &task("working", "")),
        "tasks/get" => status(503),
        _ => result(received, &task("canceled", "")),
    })
    .await;
    let bed = TestBed::new();
    let outcome = ask(&bed, &peer.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("cannot be read"),
        "{outcome:?}"
    );
    peer.until(|received| received.rpc_method() == "tasks/cancel")
        .await;
    let done = agent(|received| match received.rpc_method() {
        "message/send" => result(received, &task("working", "")),
        _ => result(received, &task("completed", "sunny")),
    })
    .await;
    let outcome = ask(&bed, &done.url).await;
    assert_eq!(outcome.content, "sunny", "{outcome:?}");
    bed.tasks.shutdown.drain();
    bed.tasks.ended().await;
    assert_eq!(done.count("tasks/cancel"), 0);
}

#[tokio::test]
async fn cancelling_ends_the_call_and_the_task() {
    let peer = agent(|received| match received.rpc_method() {
        "message/send" | "tasks/get" => result(received, &task("working", "")),
        _ => result(received, &task("canceled", "")),
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer.url)).await;
    let cancel = CancellationToken::new();
    let calling = bed.call_until(
        &context,
        &tools[0],
        json!({"message": MESSAGE}),
        cancel.clone(),
    );
    let cancelling = async {
        peer.until(|received| received.rpc_method() == "tasks/get")
            .await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(
        outcome.is_error && outcome.content.contains("cancelled"),
        "{outcome:?}"
    );
    peer.until(|received| {
        received.rpc_method() == "tasks/cancel" && received.body["params"]["id"] == "t1"
    })
    .await;
}

#[tokio::test]
async fn cancelling_before_the_first_response_cancels_the_task() {
    let go = Arc::new(tokio::sync::Notify::new());
    let gate = Arc::clone(&go);
    let peer = Peer::start(move |received| {
        let gate = Arc::clone(&gate);
        async move {
            match received.rpc_method() {
                "message/send" => {
                    gate.notified().await;
                    result(&received, &task("working", ""))
                }
                "tasks/cancel" => result(&received, &task("canceled", "")),
                _ => status(404),
            }
        }
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer.url)).await;
    let cancel = CancellationToken::new();
    let input = json!({"message": MESSAGE});
    let calling = bed.call_until(&context, &tools[0], input, cancel.clone());
    let cancelling = async {
        peer.until(|received| received.rpc_method() == "message/send")
            .await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.is_error, "{outcome:?}");
    go.notify_one();
    peer.until(|received| received.rpc_method() == "tasks/cancel")
        .await;
    assert_eq!(peer.count("message/send"), 1);
}

#[tokio::test]
async fn reports_unreachable_agents_and_oversized_responses() {
    let dead = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let outcome = ask(&TestBed::new(), &dead).await;
    assert!(
        outcome.is_error && outcome.content.contains("cannot connect"),
        "{outcome:?}"
    );
    let nothing = Peer::start(|_| async { status(404) }).await;
    let outcome = ask(&TestBed::new(), &nothing.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("no endpoint"),
        "{outcome:?}"
    );
    let huge = agent(|_| typed("application/json", "x".repeat(9_000_000))).await;
    let outcome = ask(&TestBed::new(), &huge.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("larger than"),
        "{outcome:?}"
    );
}
