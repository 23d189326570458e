//! The history of a session: every run, stable ids, pages.

use runloom_protocol::resource::{HistoryMessage, HistoryRole, SessionHistory};
use runloom_service::HistoryRequest;
use runloom_service::error::Error;
use serde_json::json;

use crate::scripted::{Gate, Piece, server_error};
use crate::world::{World, asked, settings, soon};

async fn page(world: &World, session: &str, limit: usize, before: Option<&str>) -> SessionHistory {
    let before = before.map(str::to_owned);
    let request = HistoryRequest { limit, before };
    let history = world
        .service
        .sessions()
        .history(&world.caller, session, request);
    history.await.unwrap()
}

fn lines(messages: &[HistoryMessage]) -> Vec<String> {
    let line = |message: &HistoryMessage| {
        let role = match message.role {
            HistoryRole::User => "user",
            HistoryRole::Assistant => "assistant",
            HistoryRole::Tool => "tool",
        };
        let text = message.content.as_deref().unwrap_or("-");
        let calls = message.tool_calls.iter();
        let calls: String = calls
            .map(|call| format!(" +{}", call.function.name))
            .collect();
        format!("{role}: {text}{calls}")
    };
    messages.iter().map(line).collect()
}

/// A session with a run that called a tool, one that failed, one that was cancelled, and one in progress.
async fn eventful(world: &World, gate: &Gate) -> String {
    let session = world.session().await;
    world.model.script([
        Piece::Text("Let me look."),
        Piece::Call("look", json!({"at": "sky"})),
    ]);
    world.model.script([Piece::Text("Blue.")]);
    let first = world.message(&session, "Which colour?").await;
    let mut watcher = world.watch(&first, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    world.answer(&first, &call, "blue").await.unwrap();
    watcher.rest().await;
    world
        .model
        .script([Piece::Text("Hm"), Piece::Break(server_error())]);
    let failed = world.message(&session, "Fail.").await;
    world.watch(&failed, 0).await.rest().await;
    let never = Gate::new();
    world.model.script([
        Piece::Text("On and "),
        Piece::Text("on"),
        Piece::Hold(never),
    ]);
    let endless = world.message(&session, "Go on.").await;
    let mut watcher = world.watch(&endless, 0).await;
    watcher.until("assistant_delta").await;
    let cancelled = world.service.runs().cancel(&world.caller, &endless).await;
    cancelled.unwrap();
    watcher.rest().await;
    world
        .model
        .script([Piece::Text("Not yet"), Piece::Hold(gate.clone())]);
    let live = world.message(&session, "Now?").await;
    world.watch(&live, 0).await.until("assistant_delta").await;
    session
}

#[tokio::test]
async fn shows_every_run_however_it_ended() {
    let world = World::new().await;
    let gate = Gate::new();
    let session = eventful(&world, &gate).await;
    let history = page(&world, &session, 100, None).await;
    assert_eq!(history.session_id.as_str(), session);
    assert_eq!((history.thread_id, history.next_before), (None, None));
    let shown = lines(&history.messages);
    assert_eq!(
        shown[..6],
        [
            "user: Which colour?",
            "assistant: Let me look. +look",
            "tool: blue",
            "assistant: Blue.",
            "user: Fail.",
            "assistant: Hm",
        ]
    );
    assert_eq!(shown[6], "user: Go on.");
    assert!(shown[7].starts_with("assistant: On and"), "{shown:?}");
    assert_eq!(shown[8..], ["user: Now?"]);
    let call = &history.messages[1].tool_calls[0];
    assert_eq!(call.function.arguments, r#"{"at":"sky"}"#);
    assert_eq!(history.messages[2].tool_call_id.as_ref(), Some(&call.id));
    gate.open();
    world.stop().await;
}

#[tokio::test]
async fn pages_backwards_with_the_same_ids_at_every_process() {
    let world = World::new().await;
    let gate = Gate::new();
    let session = eventful(&world, &gate).await;
    let whole = page(&world, &session, 100, None).await.messages;
    let peer = world.peer();
    for limit in [1, 2, 3, 8, 9] {
        let mut found: Vec<HistoryMessage> = Vec::new();
        let mut before = None;
        loop {
            let part = page(&peer, &session, limit, before.as_deref()).await;
            assert!(part.messages.len() <= limit);
            found.splice(0..0, part.messages);
            match part.next_before {
                Some(next) => before = Some(next),
                None => break,
            }
        }
        assert_eq!(found, whole, "by {limit}");
    }
    gate.open();
    world.stop().await;
    peer.stop().await;
}

#[tokio::test]
async fn rejects_unknown_before_and_other_workspaces() {
    let world = World::with(settings()).await;
    let session = world.session().await;
    let run = world.message(&session, "hi").await;
    soon(world.events(&run)).await;
    let suffix = run.strip_prefix("run_").unwrap();
    for before in ["nothing", "msg_x_1", &format!("msg_{suffix}_999")] {
        let request = HistoryRequest {
            limit: 5,
            before: Some(before.to_owned()),
        };
        let refused = world
            .service
            .sessions()
            .history(&world.caller, &session, request)
            .await;
        let Err(Error::Invalid(issues)) = refused else {
            panic!("{before}: {refused:?}");
        };
        assert_eq!(issues[0].path, "before");
    }
    let request = HistoryRequest {
        limit: 5,
        before: None,
    };
    let missing = world
        .service
        .sessions()
        .history(&world.caller, "ses_missing", request)
        .await;
    assert!(matches!(missing, Err(Error::NotFound { what: "session" })));
    world.stop().await;
}
