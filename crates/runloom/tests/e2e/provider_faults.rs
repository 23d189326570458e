//! A failing provider, seen by a client of the real server: retries, errors and totals.

use serde_json::{Value, json};

use crate::peer::{Peer, Reply, chat, says};
use crate::server::{Server, settings};
use crate::sse::replay;

/// The last event of one run, and how often the provider was asked for it.
fn ended(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> (String, Value, usize) {
    let folder = tempfile::tempdir().unwrap();
    let clocks = settings([
        ("RUNLOOM_RUNS__PROVIDER_FIRST_BYTE_MS", "400"),
        ("RUNLOOM_RUNS__PROVIDER_IDLE_MS", "400"),
    ]);
    let server = Server::dev(folder.path(), &clocks);
    let peer = Peer::start(move |_, number| script(number));
    let model = server.provider(&peer.url, json!({"id": "m"}));
    let api = server.api();
    let run = api.run(&json!({"systemPrompt": "s", "modelId": model, "prompt": "hi"}));
    let end = replay(&api, &run).unwrap().pop().unwrap();
    (end.kind().to_owned(), end.data(), peer.asked().len())
}

fn refusal(status: u16, code: &str) -> Reply {
    let body = json!({"error": {"message": "no", "code": code}}).to_string();
    let json = ("Content-Type", "application/json".to_owned());
    Reply::Plain(status, vec![json, ("Retry-After", "0".to_owned())], body)
}

#[test]
fn retries_transient_errors_within_a_turn() {
    for status in [429, 500, 503, 529] {
        let (kind, end, asked) = ended(move |number| match number {
            1 => refusal(status, "later"),
            _ => says("Hello."),
        });
        assert_eq!((kind.as_str(), asked), ("result", 2), "{status}: {end}");
        assert_eq!(end["turns"], 1, "{end}");
    }
}

#[test]
fn reports_permanent_errors_at_once() {
    for (status, code, class) in [
        (401, "invalid_api_key", "auth"),
        (400, "context_length_exceeded", "context_window"),
        (400, "bad", "invalid_request"),
    ] {
        let (kind, end, asked) = ended(move |_| refusal(status, code));
        assert_eq!((kind.as_str(), asked), ("error", 1), "{end}");
        assert_eq!(end["errorClass"], class, "{end}");
        assert_eq!(end["code"], class, "{end}");
        assert_eq!(
            (&end["apiStatus"], &end["apiCode"]),
            (&json!(status), &json!(code)),
            "{end}"
        );
        assert_ne!(end["retryable"], true, "{end}");
    }
}

#[test]
fn never_retries_after_output() {
    let piece = || json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}]});
    let broken: [(&str, Vec<Value>, &str); 3] = [
        ("cut", vec![piece()], "server"),
        (
            "error event",
            vec![
                piece(),
                json!({"error": {"message": "no", "code": "overloaded"}}),
            ],
            "overloaded",
        ),
        ("garbage", vec![piece(), json!("{")], "server"),
    ];
    for (name, events, class) in broken {
        let (kind, end, asked) = ended(move |_| Reply::Events(events.clone()));
        assert_eq!((kind.as_str(), asked), ("error", 1), "{name}: {end}");
        assert_eq!(end["errorClass"], class, "{name}: {end}");
        assert_eq!(end["partialText"], "Hel", "{name}: {end}");
    }
}

#[test]
fn silent_provider_times_out() {
    let (kind, end, _) = ended(|_| {
        Reply::EventsThenSilence(vec![
            json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}]}),
        ])
    });
    assert_eq!(
        (kind.as_str(), &end["errorClass"]),
        ("error", &json!("upstream_deadline")),
        "{end}"
    );
    let (kind, end, asked) = ended(|_| Reply::EventsThenSilence(vec![]));
    assert_eq!(
        (kind.as_str(), &end["errorClass"]),
        ("error", &json!("timeout")),
        "{end}"
    );
    assert!(asked > 1, "nothing was shown, so it was tried again");
}

#[test]
fn refusal_has_a_canonical_reason() {
    let (kind, end, _) = ended(|_| Reply::Events(chat(&["I"], &[], "content_filter", (10, 5))));
    assert_eq!(kind, "error", "{end}");
    assert_eq!(end["finishReason"], "content_filter", "{end}");
    assert_eq!(end["tokens"]["outputTokens"], 5, "{end}");
}
