//! Agents of both generations, and all the ways in which they fail.

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
    Bed, Heard, Peer, broken, open_policy, reply, result, rpc_error, status, typed,
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

async fn ask(bed: &Bed, url: &str) -> runloom_ports::tools::Outcome {
    let (context, tools) = bed.resolve(&refs(url)).await;
    bed.call(&context, &tools[0], json!({"message": MESSAGE}))
        .await
}

/// A JSON-RPC agent whose card lies at the well-known place.
pub(crate) async fn agent<F>(script: F) -> Peer
where
    F: Fn(&Heard) -> Response + Send + Sync + 'static,
{
    Peer::start(move |heard| {
        let answer = match (&heard.method, heard.path.as_str()) {
            (&Method::GET, "/.well-known/agent-card.json") => reply(
                &json!({"name": "Weather", "url": "/a2a", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}),
            ),
            (&Method::POST, "/a2a") => script(&heard),
            _ => status(404),
        };
        async move { answer }
    })
    .await
}

#[tokio::test]
async fn the_model_sees_one_argument_and_no_connection_is_made_before_the_call() {
    let peer = Peer::start(|_| async { status(404) }).await;
    let bed = Bed::new();
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
    assert!(peer.heard().is_empty());
}

#[tokio::test]
async fn a_message_is_sent_to_the_endpoint_of_the_card_with_headers_and_context() {
    let peer = agent(|heard| result(heard, &said("sunny"))).await;
    let bed = Bed::new();
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
    let heard = peer.heard();
    let sent = heard.iter().find(|h| h.method == Method::POST).unwrap();
    assert_eq!(sent.rpc_method(), "message/send");
    let message = &sent.body["params"]["message"];
    assert_eq!(message["parts"], json!([{"kind": "text", "text": MESSAGE}]));
    assert_eq!(message["role"], "user");
    assert_eq!(message["contextId"], "c1");
    assert_eq!(message["messageId"], "tu_1");
    for heard in &heard {
        assert_eq!(heard.header("authorization"), Some("Bearer secret"));
    }
    assert!(
        heard
            .iter()
            .all(|h| h.method == Method::GET || h.path == "/a2a")
    );
}

#[tokio::test]
async fn an_agent_of_the_new_generation_is_spoken_to_in_its_words() {
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let peer = Peer::start(move |heard| async move {
            assert!(heard.method == Method::GET || heard.header("a2a-version") == Some("1.0"));
            let card = json!({"name": "Weather", "supportedInterfaces": [
                {"url": "/x", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
                {"url": "/v", "protocolBinding": binding, "protocolVersion": "1.0"}]});
            let task = |state: &str| {
                json!({"id": "t1", "status": {"state": state}, "artifacts": [{"parts": [{"text": "sunny"}]}]})
            };
            match (&heard.method, heard.path.as_str()) {
                (&Method::GET, "/card.json") => reply(&card),
                (&Method::POST, "/v") if heard.rpc_method() == "SendMessage" => {
                    result(&heard, &json!({"task": task("TASK_STATE_SUBMITTED")}))
                }
                (&Method::POST, "/v") if heard.rpc_method() == "GetTask" => {
                    result(&heard, &task("TASK_STATE_COMPLETED"))
                }
                (&Method::POST, "/v/message:send") => {
                    assert_eq!(heard.body["message"]["role"], "ROLE_USER");
                    assert_eq!(heard.body["message"]["parts"][0]["text"], MESSAGE);
                    reply(&json!({"task": task("TASK_STATE_WORKING")}))
                }
                (&Method::GET, "/v/tasks/t1") => reply(&task("TASK_STATE_COMPLETED")),
                _ => status(500),
            }
        })
        .await;
        let outcome = ask(&Bed::new(), &format!("{}/card.json", peer.url)).await;
        assert_eq!(outcome.content, "sunny", "{binding}: {outcome:?}");
    }
}

#[tokio::test]
async fn without_a_card_addresses_are_probed_in_the_documented_order() {
    let places = ["/", "/rpc", "/message:send", "/message/send"];
    for home in places {
        let peer = Peer::start(move |heard| async move {
            if heard.method != Method::POST || heard.path != home {
                return status(404);
            }
            if home.contains("message") {
                assert_eq!(heard.body["message"]["parts"][0]["text"], MESSAGE);
                return reply(&said("sunny"));
            }
            result(&heard, &said("sunny"))
        })
        .await;
        let outcome = ask(&Bed::new(), &peer.url).await;
        assert_eq!(outcome.content, "sunny", "{home}: {outcome:?}");
        let mut posts: Vec<String> = peer
            .heard()
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
async fn an_unknown_method_is_asked_for_in_the_other_generation() {
    let peer = Peer::start(|heard| async move {
        match heard.rpc_method() {
            "SendMessage" => result(
                &heard,
                &json!({"message": {"role": "ROLE_AGENT", "parts": [{"text": "sunny"}]}}),
            ),
            "message/send" => rpc_error(&heard, -32601, "Method not found"),
            _ => status(405),
        }
    })
    .await;
    let outcome = ask(&Bed::new(), &peer.url).await;
    assert_eq!(outcome.content, "sunny", "{outcome:?}");
}

#[tokio::test]
async fn a_task_is_followed_to_its_end_over_failing_looks() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let peer = agent(move |heard| match heard.rpc_method() {
        "message/send" => result(heard, &task("submitted", "")),
        "tasks/get" => match counted.fetch_add(1, Ordering::SeqCst) {
            0 => status(503),
            1 => typed("text/html", "<html>"),
            2 => result(heard, &task("working", "")),
            _ => result(heard, &task("completed", "sunny")),
        },
        _ => status(500),
    })
    .await;
    let outcome = ask(&Bed::new(), &peer.url).await;
    assert_eq!(
        (outcome.content.as_str(), outcome.is_error),
        ("sunny", false)
    );
    assert_eq!(peer.count("message/send"), 1);
    let heard = peer.heard();
    let look = heard
        .iter()
        .find(|h| h.rpc_method() == "tasks/get")
        .unwrap();
    assert_eq!(look.body["params"]["id"], "t1");
}

#[tokio::test]
async fn a_task_that_stops_is_an_error_with_the_agents_words() {
    for (state, words) in [
        ("failed", "ended as failed"),
        ("rejected", "ended as rejected"),
        ("canceled", "ended as canceled"),
        ("input-required", "more input"),
        ("auth-required", "credentials"),
    ] {
        let peer = agent(move |heard| {
            let mut stopped = task(state, "");
            stopped["status"]["message"] = said("which city?");
            result(heard, &stopped)
        })
        .await;
        let outcome = ask(&Bed::new(), &peer.url).await;
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
async fn a_message_that_may_have_arrived_is_never_sent_twice() {
    let answers: [fn(&Heard) -> Response; 6] = [
        |_| status(500),
        |_| status(401),
        |_| typed("application/json", broken("{\"jsonrpc\"")),
        |_| typed("text/plain", "nonsense"),
        |heard| rpc_error(heard, -32603, "it exploded"),
        |heard| result(heard, &json!({"ok": true})),
    ];
    for (turn, answer) in answers.into_iter().enumerate() {
        let peer = agent(answer).await;
        let outcome = ask(&Bed::new(), &peer.url).await;
        assert!(outcome.is_error, "{turn}: {outcome:?}");
        let posts = peer
            .heard()
            .into_iter()
            .filter(|h| h.method == Method::POST);
        assert_eq!(posts.count(), 1, "{turn}");
        assert!(!outcome.content.contains("secret"));
    }
}

#[tokio::test]
async fn a_slow_agent_ends_in_time_and_its_task_is_cancelled() {
    let peer = agent(|heard| match heard.rpc_method() {
        "message/send" | "tasks/get" => result(heard, &task("working", "")),
        _ => status(500),
    })
    .await;
    let limits = ToolLimits {
        call_timeout: Duration::from_secs(3),
        ..ToolLimits::default()
    };
    let bed = Bed::with(open_policy(), limits);
    let outcome = ask(&bed, &peer.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("did not end"),
        "{outcome:?}"
    );
    peer.until(|heard| heard.rpc_method() == "tasks/cancel")
        .await;
}

#[tokio::test]
async fn a_call_that_is_dropped_cancels_the_task() {
    let peer = agent(|heard| match heard.rpc_method() {
        "message/send" | "tasks/get" => result(heard, &task("working", "")),
        _ => result(heard, &task("canceled", "")),
    })
    .await;
    let bed = Bed::new();
    let (context, tools) = bed.resolve(&refs(&peer.url)).await;
    tokio::select! {
        outcome = bed.call(&context, &tools[0], json!({"message": MESSAGE})) => panic!("{outcome:?}"),
        () = peer.until(|heard| heard.rpc_method() == "tasks/get") => {}
    }
    peer.until(|heard| heard.rpc_method() == "tasks/cancel" && heard.body["params"]["id"] == "t1")
        .await;
}

#[tokio::test]
async fn a_task_that_cannot_be_followed_is_cancelled_and_one_that_ended_is_not() {
    let peer = agent(|heard| match heard.rpc_method() {
        "message/send" => result(heard, &task("working", "")),
        "tasks/get" => status(503),
        _ => result(heard, &task("canceled", "")),
    })
    .await;
    let bed = Bed::new();
    let outcome = ask(&bed, &peer.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("cannot be followed"),
        "{outcome:?}"
    );
    peer.until(|heard| heard.rpc_method() == "tasks/cancel")
        .await;
    let done = agent(|heard| match heard.rpc_method() {
        "message/send" => result(heard, &task("working", "")),
        _ => result(heard, &task("completed", "sunny")),
    })
    .await;
    let outcome = ask(&bed, &done.url).await;
    assert_eq!(outcome.content, "sunny", "{outcome:?}");
    bed.tasks.stop.cancel();
    bed.tasks.ended().await;
    assert_eq!(done.count("tasks/cancel"), 0);
}

#[tokio::test]
async fn a_cancel_ends_the_call_at_once_and_cancels_the_task() {
    let peer = agent(|heard| match heard.rpc_method() {
        "message/send" | "tasks/get" => result(heard, &task("working", "")),
        _ => result(heard, &task("canceled", "")),
    })
    .await;
    let bed = Bed::new();
    let (context, tools) = bed.resolve(&refs(&peer.url)).await;
    let cancel = CancellationToken::new();
    let calling = bed.call_until(
        &context,
        &tools[0],
        json!({"message": MESSAGE}),
        cancel.clone(),
    );
    let cancelling = async {
        peer.until(|heard| heard.rpc_method() == "tasks/get").await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(
        outcome.is_error && outcome.content.contains("cancelled"),
        "{outcome:?}"
    );
    peer.until(|heard| heard.rpc_method() == "tasks/cancel" && heard.body["params"]["id"] == "t1")
        .await;
}

#[tokio::test]
async fn a_cancel_before_the_agents_first_answer_still_cancels_the_task() {
    let go = Arc::new(tokio::sync::Notify::new());
    let gate = Arc::clone(&go);
    let peer = Peer::start(move |heard| {
        let gate = Arc::clone(&gate);
        async move {
            match heard.rpc_method() {
                "message/send" => {
                    gate.notified().await;
                    result(&heard, &task("working", ""))
                }
                "tasks/cancel" => result(&heard, &task("canceled", "")),
                _ => status(404),
            }
        }
    })
    .await;
    let bed = Bed::new();
    let (context, tools) = bed.resolve(&refs(&peer.url)).await;
    let cancel = CancellationToken::new();
    let input = json!({"message": MESSAGE});
    let calling = bed.call_until(&context, &tools[0], input, cancel.clone());
    let cancelling = async {
        peer.until(|heard| heard.rpc_method() == "message/send")
            .await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.is_error, "{outcome:?}");
    go.notify_one();
    peer.until(|heard| heard.rpc_method() == "tasks/cancel")
        .await;
    assert_eq!(peer.count("message/send"), 1);
}

#[tokio::test]
async fn an_agent_that_is_down_or_silent_is_an_error_that_says_so() {
    let dead = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let outcome = ask(&Bed::new(), &dead).await;
    assert!(
        outcome.is_error && outcome.content.contains("cannot connect"),
        "{outcome:?}"
    );
    let nothing = Peer::start(|_| async { status(404) }).await;
    let outcome = ask(&Bed::new(), &nothing.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("no endpoint"),
        "{outcome:?}"
    );
    let huge = agent(|_| typed("application/json", "x".repeat(9_000_000))).await;
    let outcome = ask(&Bed::new(), &huge.url).await;
    assert!(
        outcome.is_error && outcome.content.contains("larger than"),
        "{outcome:?}"
    );
}
