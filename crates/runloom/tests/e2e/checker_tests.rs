//! The checker itself: it accepts a good run, and each violation that is planted in it is found.

use serde_json::{Value, json};

use crate::checker::{Evidence, Seen, violations};
use crate::sse::Frame;

fn frame(seq: u64, kind: &str, data: &Value) -> Frame {
    let mut json = json!({"seq": seq, "type": kind, "at": 1_793_491_200_000_u64 + seq});
    for (key, value) in data.as_object().unwrap() {
        json[key] = value.clone();
    }
    json["data"] = data.clone();
    Frame(format!("id: {seq}\nevent: {kind}\ndata: {json}\n\n").into_bytes())
}

fn numbered(events: &[(&str, Value)]) -> Vec<Frame> {
    events
        .iter()
        .zip(1..)
        .map(|((kind, data), seq)| frame(seq, kind, data))
        .collect()
}

fn events() -> Vec<(&'static str, Value)> {
    let tokens =
        json!({"inputTokens": 9, "cachedTokens": 0, "reasoningTokens": 1, "outputTokens": 4});
    let calls = json!([{"id": "tu_1", "name": "act", "input": {}}, {"id": "tu_2", "name": "act", "input": {}}]);
    vec![
        ("started", json!({})),
        ("assistant_delta", json!({"text": "lost "})),
        (
            "turn_restarted",
            json!({"turn": 0, "reason": "interrupted"}),
        ),
        ("assistant_delta", json!({"text": "so"})),
        (
            "assistant_message",
            json!({"text": "so", "turn": 0, "toolCalls": calls}),
        ),
        (
            "local_tool_call",
            json!({"toolUseId": "tu_1", "name": "act", "args": {}, "kind": "local"}),
        ),
        (
            "local_tool_result_in",
            json!({"toolUseId": "tu_1", "output": "a"}),
        ),
        (
            "local_tool_call",
            json!({"toolUseId": "tu_2", "name": "act", "args": {}, "kind": "local"}),
        ),
        (
            "local_tool_result_in",
            json!({"toolUseId": "tu_2", "output": "b"}),
        ),
        ("assistant_delta", json!({"text": "done"})),
        ("assistant_message", json!({"text": "done", "turn": 1})),
        (
            "result",
            json!({"text": "done", "tokens": tokens, "turns": 2}),
        ),
    ]
}

/// Evidence of a run with these events, all of which one client saw.
fn evidence(events: &[(&str, Value)]) -> Evidence {
    let log = numbered(events);
    let end = log.last().unwrap().data();
    let acknowledged = vec![
        ("tu_1".to_owned(), "a".to_owned()),
        ("tu_2".to_owned(), "b".to_owned()),
    ];
    Evidence {
        events: log
            .iter()
            .map(|frame| frame.field("data").unwrap().to_owned())
            .collect(),
        snapshot: json!({
            "status": "succeeded", "finalText": "done", "tokens": end["tokens"], "turns": end["turns"],
            "createdAt": "t", "startedAt": "t", "completedAt": "t",
        }),
        seen: vec![Seen {
            frames: log.clone(),
            acknowledged,
            ..Seen::default()
        }],
        log,
        ..Evidence::default()
    }
}

fn found_in(evidence: &Evidence, expected: &str) {
    let found = violations(evidence);
    assert!(
        found.iter().any(|text| text.contains(expected)),
        "{expected:?} is not in {found:#?}"
    );
}

/// The good run with its events changed.
fn changed(change: impl FnOnce(&mut Vec<(&'static str, Value)>)) -> Evidence {
    let mut events = events();
    change(&mut events);
    evidence(&events)
}

#[test]
fn accepts_a_valid_run() {
    assert_eq!(violations(&evidence(&events())), Vec::<String>::new());
}

#[test]
fn finds_gaps_and_wrong_numbers() {
    let mut gap = evidence(&events());
    gap.log.remove(3);
    found_in(&gap, "event 4 is numbered 5");
    let mut twice = evidence(&events());
    let frame = twice.log[1].clone();
    twice.log.insert(1, frame);
    found_in(&twice, "event 3 is numbered 2");
}

#[test]
fn finds_contradictory_frames() {
    let mut kind = evidence(&events());
    kind.log[1].0 = String::from_utf8(kind.log[1].0.clone())
        .unwrap()
        .replace("event: assistant", "event: thinking")
        .into_bytes();
    found_in(&kind, "event 2 is thinking_delta");
    let mut payload = evidence(&events());
    payload.log[1].0 = String::from_utf8(payload.log[1].0.clone())
        .unwrap()
        .replacen("lost", "kept", 1)
        .into_bytes();
    found_in(&payload, "does not show its payload twice");
}

#[test]
fn finds_missing_repeated_and_early_ends() {
    let missing = changed(|events| drop(events.pop()));
    found_in(&missing, "has 0 ends");
    let twice = changed(|events| events.push(events[11].clone()));
    found_in(&twice, "has 2 ends");
    let early = changed(|events| events.swap(10, 11));
    found_in(&early, "events after its end");
    let unstarted = changed(|events| drop(events.remove(0)));
    found_in(&unstarted, "does not begin with its one `started`");
}

#[test]
fn finds_events_missing_in_the_log() {
    let mut other = evidence(&events());
    other.seen[0].frames[1] = frame(2, "assistant_delta", &json!({"text": "else"}));
    found_in(&other, "saw another event 2");
    let mut lost = evidence(&events());
    lost.seen[0]
        .frames
        .push(frame(13, "assistant_delta", &json!({"text": "more"})));
    found_in(&lost, "saw another event 13");
    let mut again = evidence(&events());
    let frame = again.seen[0].frames[5].clone();
    again.seen[0].frames.insert(6, frame);
    found_in(&again, "saw event 6 after 6");
    let mut skipped = evidence(&events());
    skipped.seen[0].frames.remove(5);
    found_in(&skipped, "saw event 7 after 5");
    let mut endless = evidence(&events());
    endless.seen[0].frames.pop();
    found_in(&endless, "did not see the end");
    let mut list = evidence(&events());
    list.events.pop();
    found_in(&list, "the list of events is not the stream");
}

#[test]
fn finds_unannounced_restarts() {
    let silent = changed(|events| drop(events.remove(2)));
    found_in(&silent, "streamed \"lost so\"");
    let wrong = changed(|events| events[2].1["turn"] = json!(2));
    found_in(&wrong, "restarts turn 2 in turn 0");
    let twice = changed(|events| events.insert(4, events[4].clone()));
    found_in(&twice, "ends turn 0 instead of 1");
}

#[test]
fn finds_lost_and_repeated_calls() {
    let again = changed(|events| events.insert(7, events[5].clone()));
    found_in(&again, "call tu_1 was asked 2 times");
    let answered = changed(|events| events.insert(7, events[6].clone()));
    found_in(&answered, "call tu_1 was answered 2 times");
    let open = changed(|events| drop(events.remove(8)));
    found_in(&open, "without an answer to call tu_2");
    let together = changed(|events| events.swap(6, 7));
    found_in(&together, "were open together");
    let mut harmless = changed(|events| events.swap(6, 7));
    harmless.read_only.insert("act".to_owned());
    assert_eq!(violations(&harmless), Vec::<String>::new());
    let reversed = changed(|events| events.swap(5, 6));
    found_in(&reversed, "in the wrong order");
    let stray = changed(|events| events[6].1["toolUseId"] = json!("tu_9"));
    found_in(&stray, "a call that no turn requested");
}

#[test]
fn finds_lost_and_changed_results() {
    let changed_answer = changed(|events| events[6].1["output"] = json!("z"));
    found_in(
        &changed_answer,
        "the accepted answer \"a\" to tu_1 is Some(\"z\")",
    );
    let mut refused = evidence(&events());
    refused.seen[0].refused.push(("tu_1".to_owned(), 404));
    found_in(&refused, "was refused with 404");
}

#[test]
fn finds_wrong_totals() {
    let none = changed(|events| events[11].1["tokens"] = Value::Null);
    found_in(&none, "these are no tokens");
    let cached = changed(|events| events[11].1["tokens"]["cachedTokens"] = json!(10));
    found_in(&cached, "these are no tokens");
    let turns = changed(|events| events[11].1["turns"] = json!(3));
    found_in(&turns, "3 turns are counted and 2 are in the log");
    let mut row = evidence(&events());
    row.snapshot["status"] = json!("running");
    row.snapshot["turns"] = json!(7);
    row.snapshot["finalText"] = json!("other");
    row.snapshot["completedAt"] = Value::Null;
    for expected in [
        "is \"running\"",
        "turns are 2",
        "the answer is \"done\"",
        "completedAt is null",
    ] {
        found_in(&row, expected);
    }
}
