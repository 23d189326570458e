//! Requests sent again: idempotency keys, and the limits on how often.

use serde_json::{Value, json};

use crate::http::{Answer, Api};
use crate::server::{Server, settings};
use crate::sse::{Stream, replay, until};

fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt,
           "tools": [{"kind": "local", "name": "act", "parameters": {"type": "object"}}]})
}

fn keyed(api: &Api, path: &str, key: &str, body: &Value) -> Answer {
    let body = body.to_string();
    api.send("POST", path, &[("Idempotency-Key", key)], body.as_bytes())
        .unwrap()
}

#[test]
fn repeats_return_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::dev(folder.path(), &[]);
    let first = keyed(&server.api(), "/agent-runs", "k 1", &agent("say a"));
    assert_eq!(first.status, 202);
    let again = keyed(&server.api(), "/agent-runs", "k 1", &agent("say a"));
    assert_eq!((again.status, again.body), (202, first.body.clone()));
    let conflict = (409, "idempotency_conflict".to_owned());
    assert_eq!(
        keyed(&server.api(), "/agent-runs", "k 1", &agent("say b")).refusal(),
        conflict
    );
    let other = keyed(&server.api(), "/agent-runs", "k 2", &agent("say a"));
    assert_ne!(other.body, first.body);
    server.kill();
    // Also by another server, and after the run has ended.
    let server = Server::dev(folder.path(), &[]);
    let again = keyed(&server.api(), "/agent-runs", "k 1", &agent("say a"));
    assert_eq!((again.status, again.body), (202, first.body));
    assert_eq!(
        keyed(&server.api(), "/agent-runs", "k 1", &agent("say b")).refusal(),
        conflict
    );
    assert_eq!(
        server.api().get("/agent-runs?includeTotal=1").json()["total"],
        2
    );
    for evil in ["", "\u{e9}", &"k".repeat(256), "a\tb"] {
        let answer = keyed(&server.api(), "/agent-runs", evil, &agent("say a"));
        assert_eq!(
            answer.refusal(),
            (400, "invalid_request".to_owned()),
            "{evil:?}"
        );
    }
    // A refused request does not use its key up.
    let invalid = json!({"prompt": "p"});
    assert_eq!(
        keyed(&server.api(), "/agent-runs", "k 3", &invalid).status,
        400
    );
    assert_eq!(
        keyed(&server.api(), "/agent-runs", "k 3", &agent("say c")).status,
        202
    );
}

#[test]
fn messages_have_keys_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let session = || {
        let made = api.post(
            "/agent-sessions",
            &json!({"systemPrompt": "s", "modelId": "platform:demo"}),
        );
        assert_eq!(made.status, 201, "{made:?}");
        format!(
            "/agent-sessions/{}",
            made.json()["sessionId"].as_str().unwrap()
        )
    };
    let (one, two) = (session(), session());
    let say = |path: &str, text: &str| {
        keyed(
            &api,
            &format!("{path}/messages"),
            "k",
            &json!({"prompt": text}),
        )
    };
    let first = say(&one, "say a");
    assert_eq!(first.status, 202, "{first:?}");
    replay(&api, first.json()["runId"].as_str().unwrap()).unwrap();
    assert_eq!(say(&one, "say a").body, first.body);
    assert_eq!(
        say(&one, "say b").refusal(),
        (409, "idempotency_conflict".to_owned())
    );
    // The key was for the first session.
    assert_eq!(
        say(&two, "say a").refusal(),
        (409, "idempotency_conflict".to_owned())
    );
    let messages = api.get(&one).json()["messages"].as_array().unwrap().len();
    assert_eq!(messages, 2, "one exchange, although it was sent twice");
}

#[test]
fn repeated_message_after_the_end_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let spec = json!({"systemPrompt": "s", "modelId": "platform:demo"});
    let made = api.post("/agent-sessions", &spec).json();
    let path = format!("/agent-sessions/{}", made["sessionId"].as_str().unwrap());
    let say = |key: &str, text: &str| {
        let messages = format!("{path}/messages");
        keyed(&api, &messages, key, &json!({"prompt": text}))
    };
    let first = say("k", "say a");
    assert_eq!(first.status, 202, "{first:?}");
    assert_eq!(api.send("DELETE", &path, &[], b"").unwrap().status, 200);
    let again = say("k", "say a");
    assert_eq!((again.status, again.body), (202, first.body));
    let conflict = (409, "idempotency_conflict".to_owned());
    assert_eq!(say("k", "say b").refusal(), conflict);
    assert_eq!(
        say("other", "say a").refusal(),
        (409, "session_ended".to_owned())
    );
}

#[test]
fn sessions_have_keys_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::dev(folder.path(), &[]);
    let make = |api: &Api, key: &str, prompt: &str| {
        let spec = json!({"systemPrompt": prompt, "modelId": "platform:demo"});
        keyed(api, "/agent-sessions", key, &spec)
    };
    let first = make(&server.api(), "k", "s");
    assert_eq!(first.status, 201, "{first:?}");
    let again = make(&server.api(), "k", "s");
    assert_eq!((again.status, &again.body), (201, &first.body));
    server.kill();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let again = make(&api, "k", "s");
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(
        make(&api, "k", "another").refusal(),
        (409, "idempotency_conflict".to_owned())
    );
    assert_ne!(make(&api, "k 2", "s").body, first.body);
    let list = api.get("/agent-sessions?includeTotal=1").json();
    assert_eq!(list["total"], 2);
}

#[test]
fn answers_of_tools_have_keys_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let run = api.run(&agent("call act {}\nthen\ncall act {\"n\":2}\nsay done"));
    let mut stream = Stream::open(&api, &run, 0).unwrap().unwrap();
    let call = until(&mut stream, "local_tool_call").data()["toolUseId"].clone();
    let path = format!("/agent-runs/{run}/tool-results");
    let answer = |key: &str, text: &str| {
        keyed(
            &api,
            &path,
            key,
            &json!({"toolUseId": call, "result": text}),
        )
    };
    assert_eq!(answer("k", "a").status, 200);
    assert_eq!(answer("k", "a").status, 200, "the first answer again");
    assert_eq!(
        answer("k", "b").refusal(),
        (409, "idempotency_conflict".to_owned())
    );
    assert_eq!(
        answer("l", "a").refusal(),
        (404, "unknown_tool_use".to_owned())
    );
    let second = until(&mut stream, "local_tool_call").data()["toolUseId"].clone();
    assert_eq!(
        api.post(&path, &json!({"toolUseId": second, "error": "broken"}))
            .status,
        200
    );
    until(&mut stream, "result");
    assert_eq!(answer("k", "a").status, 200, "also after the end");
    assert_eq!(answer("m", "a").refusal(), (409, "run_terminal".to_owned()));
    for bad in [
        json!({"toolUseId": call}),
        json!({"toolUseId": call, "result": "a", "error": "b"}),
        json!({"result": "a"}),
    ] {
        assert_eq!(api.post(&path, &bad).refusal().0, 400, "{bad}");
    }
}

#[test]
fn rate_limit_says_when_to_retry() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(
        folder.path(),
        &settings([
            ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "3"),
            ("RUNLOOM_LIMITS__LIFECYCLE_PER_MINUTE", "2"),
            ("RUNLOOM_LIMITS__WRITES_PER_MINUTE", "1"),
        ]),
    );
    let api = server.tenant("acme");
    let mut run = String::new();
    for left in ["2", "1", "0"] {
        let answer = api.post("/agent-runs", &agent("hang"));
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-remaining")),
            (202, Some(left)),
            "{answer:?}"
        );
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
        run = answer.json()["runId"].as_str().unwrap().to_owned();
    }
    let limited = |answer: &Answer| {
        assert_eq!(
            answer.refusal(),
            (429, "rate_limit_exceeded".to_owned()),
            "{answer:?}"
        );
        assert_eq!(answer.json()["error"], "rate_limited");
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        // The window has slots of a second, so it may be one second late.
        assert!((1..=61).contains(&seconds), "{seconds}");
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
        for header in [
            "x-ratelimit-limit",
            "x-ratelimit-reset",
            "x-ratelimit-bucket",
        ] {
            assert!(answer.header(header).is_some(), "{header}");
        }
    };
    limited(&api.post("/agent-runs", &agent("say no")));
    assert_eq!(
        api.get("/agent-runs?includeTotal=1").json()["total"],
        3,
        "a refused request changes nothing"
    );
    // Other buckets, other keys and reads go on.
    let cancel = || {
        api.send("POST", &format!("/agent-runs/{run}/cancel"), &[], b"")
            .unwrap()
    };
    assert_eq!((cancel().status, cancel().status), (200, 200));
    limited(&cancel());
    let session = json!({"systemPrompt": "s", "modelId": "platform:demo"});
    assert_eq!(api.post("/agent-sessions", &session).status, 201);
    limited(&api.post("/agent-sessions", &session));
    let own = Api {
        key: server.key("acme", &json!({"runsPerMinute": 1})),
        ..api.clone()
    };
    assert_eq!(own.post("/agent-runs", &agent("say a")).status, 202);
    limited(&own.post("/agent-runs", &agent("say b")));
    assert_eq!(
        replay(&api, &run).unwrap().last().unwrap().kind(),
        "cancelled"
    );
}
