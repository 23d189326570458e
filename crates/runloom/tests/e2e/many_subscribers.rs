//! Many subscribers, subscribers that never read, and schemas meant to hurt: everybody else is served, in bounded
//! memory.

use serde_json::{Map, Value, json};

use crate::http::{Api, connect};
use crate::server::{Server, settings};
use crate::sse::{Frame, Stream, replay};

fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt})
}

fn read_all(api: &Api, run: &str, after: u64) -> Vec<u8> {
    let mut stream = Stream::open(api, run, after).unwrap().unwrap();
    let mut bytes = Vec::new();
    while let Some(Frame(frame)) = stream.next().unwrap() {
        bytes.extend_from_slice(&frame);
    }
    bytes
}

/// Resident memory in KiB.
#[cfg(target_os = "linux")]
fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn many_subscribers_get_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(
        folder.path(),
        &settings([("RUNLOOM_LIMITS__READS_PER_MINUTE", "100000")]),
    );
    let api = server.api();
    let run = api.run(&agent("slow 5ms\ntokens 200"));
    // Some come at the beginning, some in the middle, some with a cursor.
    let read: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
        let reading: Vec<_> = (0..300)
            .map(|number| {
                let (api, run) = (&api, &run);
                let after = number % 3 * 10;
                let thread = std::thread::Builder::new().stack_size(256 * 1024);
                thread
                    .spawn_scoped(scope, move || (after, read_all(api, run, after)))
                    .unwrap()
            })
            .collect();
        reading
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let log = replay(&api, &run).unwrap();
    assert_eq!(log.last().unwrap().kind(), "result");
    for (after, bytes) in read {
        let stored: Vec<u8> = log
            .iter()
            .filter(|frame| frame.seq() > after)
            .flat_map(|frame| frame.0.clone())
            .collect();
        assert!(
            bytes == stored,
            "a subscriber after {after} got other bytes"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn slow_subscribers_affect_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    // About 4 MB of events: more than the buffers of a connection that nobody reads.
    let run = api.run(&agent(&format!(
        "say {}",
        "x".repeat(1000).as_str().to_owned() + &" word".repeat(30_000)
    )));
    let before = memory(&server);
    let mut idle: Vec<_> = (0..40)
        .map(|_| {
            use std::io::Write;
            let mut stream = connect(&api.address).unwrap();
            let path = api.path(&format!("/agent-runs/{run}/stream"));
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
                api.key
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let bytes = read_all(&api, &run, 0);
    let log = replay(&api, &run).unwrap();
    assert_eq!(log.last().unwrap().kind(), "result");
    let stored: usize = log.iter().map(|frame| frame.0.len()).sum();
    assert_eq!(bytes.len(), stored);
    assert!(stored > 4_000_000, "{stored}");
    // Forty copies of the log would be far more than this; what there is are pages on their way and the caches of the
    // readers.
    let grown = memory(&server).saturating_sub(before);
    assert!(
        grown < 30 * stored as u64 / 1024,
        "{grown} KiB for a log of {stored} bytes"
    );
    // A subscriber that starts to read late gets everything.
    let late = crate::http::Reading::begin(idle.pop().unwrap()).unwrap();
    let mut stream = Stream::of(late);
    let mut read = Vec::new();
    while let Some(frame) = stream.next().unwrap() {
        read.push(frame);
    }
    assert!(
        read == log,
        "the late reader got {} of {} events",
        read.len(),
        log.len()
    );
}

/// `levels` definitions, each made from the reference to the next.
fn chain(levels: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        defs.insert(
            format!("l{level}"),
            link(json!({"$ref": format!("#/$defs/l{}", level + 1)})),
        );
    }
    defs.insert(format!("l{levels}"), json!({"type": "string"}));
    json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": defs})
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(
        json!({"type": "string"}),
        |inner, _| json!({"type": "object", "properties": {"a": inner}}),
    )
}

fn hostile() -> Vec<(&'static str, Value)> {
    let object = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
    let classes: Vec<Value> = (0..3000)
        .map(|number| json!({"pattern": format!("^\\p{{L}}{{1,{}}}$", number % 50 + 1)}))
        .collect();
    let alternatives: Vec<Value> = (0..20_000).map(|number| json!({"const": number})).collect();
    vec![
        (
            "doubling references",
            chain(30, |next| json!({"allOf": [next, next]})),
        ),
        (
            "doubling alternatives",
            chain(30, |next| json!({"anyOf": [next, next]})),
        ),
        (
            "doubling conditions",
            chain(30, |next| json!({"if": next, "then": next, "else": next})),
        ),
        ("deep nesting", nested(60)),
        (
            "a reference to the network",
            object(json!({"$ref": "http://127.0.0.1:1/schema.json"})),
        ),
        (
            "a reference to a file",
            object(json!({"$ref": "file:///etc/passwd"})),
        ),
        (
            "a reference to nothing",
            object(json!({"$ref": "#/$defs/nowhere"})),
        ),
        (
            "a reference to itself",
            object(json!({"$ref": "#/$defs/x"}))
                .as_object()
                .map(|schema| {
                    let mut schema = schema.clone();
                    schema.insert("$defs".to_owned(), json!({"x": {"$ref": "#/$defs/x"}}));
                    Value::Object(schema)
                })
                .unwrap(),
        ),
        ("thousands of patterns", object(json!({"anyOf": classes}))),
        (
            "a huge pattern",
            object(json!({"pattern": "(a{1,1000}){1,1000}"})),
        ),
        (
            "thousands of alternatives",
            object(json!({"oneOf": alternatives})),
        ),
        ("no pattern", object(json!({"pattern": "(unclosed"}))),
        ("a wrong type", object(json!({"type": 7}))),
        (
            "an unknown draft",
            json!({"$schema": "http://127.0.0.1:1/draft", "type": "object"}),
        ),
    ]
}

#[test]
fn refuses_hostile_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    std::thread::scope(|scope| {
        for (what, schema) in hostile() {
            let api = &api;
            scope.spawn(move || {
                for field in ["tool", "output"] {
                    let mut body = agent("say hi");
                    if field == "tool" {
                        body["tools"] =
                            json!([{"kind": "local", "name": "t", "parameters": schema}]);
                    } else {
                        body["outputSchema"] = json!({"schema": schema});
                    }
                    let answer = api.post("/agent-runs", &body);
                    assert_eq!(
                        answer.refusal(),
                        (400, "invalid_request".to_owned()),
                        "{what} as {field}"
                    );
                }
            });
        }
        assert_eq!(api.get("/models").status, 200);
    });
    assert_eq!(api.get("/agent-runs?includeTotal=1").json()["total"], 0);
    // A pattern that makes other engines run for ever is harmless here, and its verdict reaches the model.
    let schema =
        json!({"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}});
    let mut body = agent(&format!("call t {{\"s\":\"{}!\"}}", "a".repeat(5000)));
    body["tools"] = json!([{"kind": "local", "name": "t", "parameters": schema}]);
    let run = api.run(&body);
    let log = replay(&api, &run).unwrap();
    let refused = log
        .iter()
        .find(|frame| frame.kind() == "tool_result")
        .unwrap();
    assert!(
        refused.data()["result"]
            .as_str()
            .unwrap()
            .contains("tool_input_invalid"),
        "{}",
        refused.json()
    );
}
