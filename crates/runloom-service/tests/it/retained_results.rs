//! Results of tools that later messages of a session are told.

use runloom_ports::conversation::Conversation;
use runloom_ports::model::Message;
use runloom_protocol::spec::{Budgets, CreateMessage, CreateSession};
use serde_json::json;

use crate::scripted::Piece;
use crate::world::{World, asked, spec, user};

async fn session(world: &World) -> String {
    let mut spec = spec();
    let tools = json!([{"kind": "local", "name": "keep", "retain": true}, {"kind": "local", "name": "drop"}]);
    spec.tools = serde_json::from_value(tools).unwrap();
    let request = CreateSession { spec };
    let created = world
        .service
        .sessions()
        .create(&world.caller, request, None);
    created.await.unwrap().session_id.to_string()
}

/// A conversation, a line for each message.
fn lines(messages: &Conversation) -> Vec<String> {
    let line = |message: &Message| match message {
        Message::System { text } => format!("system {text}"),
        Message::User { text } | Message::UserFiles { text, .. } => format!("user {text}"),
        Message::Assistant { text, calls, state } => {
            assert!(state.is_none());
            let calls: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            format!("assistant {text}{}", calls.join("+"))
        }
        Message::Tool { name, content, .. } => format!("tool {name} {content}"),
    };
    messages.iter().map(line).collect()
}

/// A message of two calls, both answered.
async fn call_both(world: &World, session: &str) {
    for tool in ["keep", "drop"] {
        world.model.script([Piece::Call(tool, json!({"n": 1}))]);
    }
    world.model.script([Piece::Text("done")]);
    let run = world.message(session, "go").await;
    let mut seen = 0;
    for answer in ["kept", "dropped"] {
        let mut watcher = world.watch(&run, seen).await;
        let call = asked(&watcher.until("local_tool_call").await);
        seen += watcher.events.len() as u64;
        world.answer(&run, &call, answer).await.unwrap();
    }
    world.events(&run).await;
}

const TOLD: [&str; 5] = [
    "user go",
    "assistant keep",
    "tool keep kept",
    "assistant done",
    "user and?",
];

#[tokio::test]
async fn a_retained_result_is_told_to_later_runs_and_shown_to_nobody() {
    let world = World::new().await;
    let session = session(&world).await;
    call_both(&world, &session).await;
    let next = world.message(&session, "and?").await;
    world.events(&next).await;
    let requests = world.model.requests();
    assert_eq!(lines(&requests[3].messages), TOLD);
    let ids: Vec<String> = requests[3]
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Assistant { calls, .. } => calls.first().map(|call| call.id.clone()),
            Message::Tool { call_id, .. } => Some(call_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1], "a pair");
    assert_eq!(
        world.history(&session).await,
        ["User: go", "Assistant: done", "User: and?", "Assistant: ok"]
    );
    let shown = world
        .service
        .sessions()
        .snapshot(&world.caller, &session)
        .await
        .unwrap();
    let shown = serde_json::to_string(&shown).unwrap();
    assert!(!shown.contains("kept"), "{shown}");
    world.stop().await;
}

#[tokio::test]
async fn a_run_without_tools_is_told_what_was_said_and_no_calls() {
    let world = World::new().await;
    let session = session(&world).await;
    call_both(&world, &session).await;
    let request = CreateMessage {
        compaction: None,
        max_depth: None,
        messages: vec![user("and?")],
        tools: Some(Vec::new()),
        reasoning_level: None,
        output_schema: None,
        loop_detection: None,
        tool_budgets: None,
        budgets: Budgets::default(),
        policy: None,
        metadata: Default::default(),
    };
    let sent = world
        .service
        .sessions()
        .send_message(&world.caller, &session, request, None)
        .await;
    world.events(sent.unwrap().run_id.as_str()).await;
    let told = lines(&world.model.requests()[3].messages);
    assert_eq!(told, ["user go", "assistant done", "user and?"]);
    // The next one knows all of it again.
    let next = world.message(&session, "and then?").await;
    world.events(&next).await;
    let told = lines(&world.model.requests()[4].messages);
    assert_eq!(told[..4], TOLD[..4]);
    world.stop().await;
}

#[tokio::test]
async fn another_process_is_told_the_same() {
    let world = World::new().await;
    let session = session(&world).await;
    call_both(&world, &session).await;
    world.stop().await;
    let peer = world.peer();
    let next = peer.message(&session, "and?").await;
    peer.events(&next).await;
    assert_eq!(lines(&peer.model.requests()[0].messages), TOLD);
    peer.stop().await;
}
