//! Compaction through the real binary: a session goes on past the model's window, also across crashes.

use serde_json::{Value, json};

use crate::checker::Evidence;
use crate::server::{Settings, settings};
use crate::world::{Tools, World};

fn quick() -> Settings {
    settings([("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "100000")])
}

fn session(world: &World, compaction: Value) -> String {
    let spec = json!({
        "systemPrompt": "You are tested.", "modelId": "platform:demo", "compaction": compaction,
    });
    let bytes = spec.to_string().into_bytes();
    let made = world.insist(|api| api.send("POST", "/agent-sessions", &[], &bytes));
    assert_eq!(made.status, 201, "{made:?}");
    format!(
        "/agent-sessions/{}",
        made.json()["sessionId"].as_str().unwrap()
    )
}

fn send(world: &World, session: &str, key: &str, prompt: &str) -> Evidence {
    let path = format!("{session}/messages");
    let run = world.create(&path, key, &json!({"prompt": prompt}));
    let seen = world.follow(&run, Tools::Watch);
    world.judge(&run, vec![seen], &[])
}

fn compactions(evidence: &Evidence) -> Vec<Value> {
    let found = evidence.log.iter();
    let found = found.filter(|frame| frame.kind() == "context_compacted");
    found.map(crate::sse::Frame::data).collect()
}

/// A session of six long turns, and a seventh message that the model's window does not hold.
fn long_session(world: &World, compaction: Value) -> (String, Evidence) {
    let session = session(world, compaction);
    for turn in 0..6 {
        let prompt = format!("say answer {turn} {}", "word ".repeat(80));
        let evidence = send(world, &session, &format!("turn{turn}"), &prompt);
        assert_eq!(evidence.log.last().unwrap().kind(), "result");
    }
    let evidence = send(world, &session, "over", "window 900\nhistory");
    (session, evidence)
}

#[test]
fn sessions_continue_past_the_window_across_crashes() {
    for point in ["before_summary", "summary_done", "after_summary"] {
        let world = World::new(quick());
        let crashes = world.survive(point, |world| {
            println!("crashing at {point}");
            goes_on(world);
        });
        assert_eq!(crashes, 1, "{point} was not met");
    }
}

fn goes_on(world: &World) {
    let (session, over) = long_session(world, json!(true));
    let end = over.log.last().unwrap();
    assert_eq!(end.kind(), "result", "{}", end.json());
    let found = compactions(&over);
    assert_eq!(found.len(), 1, "{found:?}");
    let done = &found[0];
    assert_eq!(
        (&done["summarised"], &done["turns"]),
        (&json!(true), &json!(2)),
        "{done}"
    );
    assert_eq!(done["model"], "platform:demo");
    assert!(
        done["afterTokens"].as_u64() < done["beforeTokens"].as_u64(),
        "{done}"
    );
    let told = end.data()["text"].as_str().unwrap().to_owned();
    assert!(told.contains("summarised 4 messages"), "{told}");
    assert!(
        !told.contains("answer 1") && told.contains("answer 2"),
        "{told}"
    );
    // The next message begins with the same summary.
    let next = send(world, &session, "next", "history");
    assert_eq!(compactions(&next), Vec::<Value>::new());
    let again = next.log.last().unwrap().data()["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        again.contains("summarised 4 messages") && !again.contains("answer 1"),
        "{again}"
    );
    // Clients see the whole conversation and no summary.
    let known = world
        .insist(|api| api.send("GET", &session, &[], b""))
        .json();
    let messages = known["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 16);
    assert!(
        messages[0]["content"]
            .as_str()
            .unwrap()
            .contains("answer 0")
    );
    assert!(
        messages
            .iter()
            .all(|message| message.get("compacted").is_none())
    );
}

#[test]
fn turns_are_dropped_when_no_summary_can_be_made() {
    let world = World::new(quick());
    let _server = world.start(&[]);
    let (_, over) = long_session(&world, json!({"keepTurns": 2, "instructions": "fail 400"}));
    let end = over.log.last().unwrap();
    assert_eq!(end.kind(), "result", "{}", end.json());
    let found = compactions(&over);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["summarised"], &found[0]["turns"]),
        (&json!(false), &json!(4))
    );
    assert!(
        found[0]["reason"].as_str().unwrap().contains("400"),
        "{found:?}"
    );
    let told = end.data()["text"].as_str().unwrap().to_owned();
    assert!(
        told.contains("was dropped") && told.contains("answer 4"),
        "{told}"
    );
}

#[test]
fn without_compaction_a_long_session_fails() {
    let world = World::new(quick());
    let _server = world.start(&[]);
    let (_, over) = long_session(&world, json!(false));
    let end = over.log.last().unwrap();
    assert_eq!(
        (end.kind(), &end.data()["errorClass"]),
        ("error", &json!("context_window"))
    );
}

#[test]
fn a_long_run_is_compacted_between_its_tool_turns() {
    let world = World::new(quick());
    let _server = world.start(&[]);
    let prompt = format!(
        "window 300\ncall look {{\"words\":\"{}\"}}\nrepeat 8\nsay done",
        "word ".repeat(30)
    );
    let body = json!({
        "systemPrompt": "You are tested.", "modelId": "platform:demo", "prompt": prompt,
        "compaction": {"keepTurns": 1}, "loopDetection": false,
        "tools": [{"kind": "local", "name": "look", "readOnly": true, "parameters": {"type": "object"}}],
    });
    let run = world.create("/agent-runs", "long", &body);
    let seen = world.follow(&run, Tools::Answer);
    let evidence = world.judge(&run, vec![seen], &["look"]);
    let end = evidence.log.last().unwrap();
    assert_eq!(end.kind(), "result", "{}", end.json());
    assert_eq!(end.data()["text"], "done");
    let calls = evidence
        .log
        .iter()
        .filter(|frame| frame.kind() == "local_tool_call");
    assert_eq!(calls.count(), 8);
    assert!(!compactions(&evidence).is_empty());
}
