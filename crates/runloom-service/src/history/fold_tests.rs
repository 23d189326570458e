//! The messages of a run, from its log.

use runloom_protocol::event::{Started, TextDelta, ToolCall, TurnRestarted};
use runloom_protocol::outcome::{RunCancelled, RunError};
use serde_json::json;

use super::*;

fn request(ids: &[&str]) -> RunRequest {
    RunRequest {
        run: RunId::parse("run_a_b").unwrap(),
        created_at: Millis(0),
        messages: vec![
            PromptMessage::new(Role::System, "be brief"),
            PromptMessage::new(Role::User, "hi"),
        ],
        message_ids: ids.iter().map(ToString::to_string).collect(),
    }
}

fn folded(events: Vec<Event>, ids: &[(&str, &str)]) -> RunFold {
    let pairs = ids.iter();
    let ids = pairs.map(|(call, id)| ((*call).to_owned(), (*id).to_owned()));
    let mut fold = RunFold::new(&request(&[]), Arc::new(ids.collect()));
    for (event, seq) in events.into_iter().zip(1..) {
        fold.apply(seq, Millis(1000), event);
    }
    fold
}

fn said(text: &str) -> Event {
    Event::AssistantDelta(TextDelta {
        text: text.to_owned(),
    })
}

fn turn(text: &str, calls: &[&str]) -> Event {
    let call = |id: &&str| RequestedCall {
        id: (*id).to_owned(),
        name: "weather".to_owned(),
        input: json!({"city": "Oslo"}),
    };
    Event::AssistantMessage(AssistantMessage {
        text: text.to_owned(),
        turn: 0,
        finish_reason: None,
        tool_calls: calls.iter().map(call).collect(),
        model: None,
        ..AssistantMessage::default()
    })
}

fn client_result(id: &str, output: Option<&str>, error: Option<&str>) -> Event {
    Event::LocalToolResultIn(LocalToolResultIn {
        tool_use_id: id.to_owned(),
        output: output.map(str::to_owned),
        error: error.map(str::to_owned),
    })
}

/// Role, id and content of each message.
fn shown(fold: RunFold) -> Vec<(HistoryRole, String, Option<String>)> {
    let messages = fold.into_messages().into_iter();
    messages
        .map(|placed| {
            let message = placed.message;
            (message.role, message.id, message.content)
        })
        .collect()
}

fn row(role: HistoryRole, id: &str, content: &str) -> (HistoryRole, String, Option<String>) {
    (role, id.to_owned(), Some(content.to_owned()))
}

#[test]
fn a_message_has_the_number_of_its_first_delta() {
    let started = Event::Started(Started {});
    let fold = folded(
        vec![
            started,
            said(""),
            said("Hel"),
            said("lo"),
            turn("Hello", &[]),
        ],
        &[],
    );
    assert_eq!(fold.complete_through(), 5);
    assert_eq!(
        shown(fold),
        [
            row(HistoryRole::User, "msg_a_b_u1", "hi"),
            row(HistoryRole::Assistant, "msg_a_b_3", "Hello"),
        ]
    );
}

#[test]
fn ids_of_the_client_are_kept() {
    let fold = RunFold::new(&request(&["s", "u"]), ToolMessageIds::default());
    assert_eq!(shown(fold), [row(HistoryRole::User, "u", "hi")]);
}

#[test]
fn calls_and_results_follow_their_turn() {
    let call = Event::ToolCall(ToolCall {
        tool_use_id: "tu_1".to_owned(),
        name: "weather".to_owned(),
        input: json!({}),
    });
    let result = Event::ToolResult(ToolResult {
        tool_use_id: "tu_1".to_owned(),
        name: "weather".to_owned(),
        ok: true,
        result: "12 degrees".to_owned(),
        summary: String::new(),
        metadata: None,
        duration_ms: None,
    });
    let fold = folded(
        vec![
            turn("", &["tu_1", "tu_2", "tu_3"]),
            call,
            result,
            client_result("tu_2", Some("blue"), None),
            client_result("tu_3", None, Some("no screen")),
        ],
        &[("tu_2", "client's")],
    );
    let messages = fold.into_messages();
    let calls = &messages[1].message;
    assert_eq!((calls.id.as_str(), &calls.content), ("msg_a_b_1", &None));
    assert_eq!(calls.tool_calls[2].id, "tu_3");
    assert_eq!(calls.tool_calls[0].function.arguments, r#"{"city":"Oslo"}"#);
    let results: Vec<_> = messages[2..]
        .iter()
        .map(|placed| {
            let message = &placed.message;
            (
                message.id.as_str(),
                message.tool_call_id.as_deref().unwrap(),
                message.content.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        results,
        [
            ("msg_a_b_3", "tu_1", "12 degrees"),
            ("client's", "tu_2", "blue"),
            ("msg_a_b_5", "tu_3", "no screen"),
        ]
    );
    assert_eq!(
        messages[2].message.metadata.created_at,
        "1970-01-01T00:00:01.000Z"
    );
}

#[test]
fn a_restarted_turn_is_told_once() {
    let restarted = Event::TurnRestarted(TurnRestarted {
        turn: 0,
        reason: String::new(),
    });
    let fold = folded(
        vec![said("Hal"), restarted, said("Hello"), turn("Hello", &[])],
        &[],
    );
    assert_eq!(
        shown(fold)[1..],
        [row(HistoryRole::Assistant, "msg_a_b_3", "Hello")]
    );
}

#[test]
fn an_incomplete_turn_is_shown_only_at_the_end_of_its_run() {
    let open = folded(vec![turn("One", &[]), said("Tw")], &[]);
    assert_eq!(open.complete_through(), 1);
    assert_eq!(shown(open).len(), 2);
    let failed = json!({
        "error": "broken", "code": "server", "errorClass": "server", "turns": 2,
        "tokens": {"inputTokens": 0, "cachedTokens": 0, "reasoningTokens": 0, "outputTokens": 0},
        "model": {"id": "m", "provider": "p", "vendorModelId": "m"},
        "structuredOutput": {"schemaRequested": false, "schemaEnforced": false,
            "enforcementMechanism": "none", "unconstrainedFallbackOccurred": false},
    });
    let failed = Event::Error(serde_json::from_value::<RunError>(failed).unwrap());
    let cancelled: RunCancelled = serde_json::from_value(json!({"reason": "user"})).unwrap();
    for end in [failed, Event::Cancelled(cancelled)] {
        let ended = folded(vec![turn("One", &[]), said("Tw"), end], &[]);
        assert_eq!(
            shown(ended)[2..],
            [row(HistoryRole::Assistant, "msg_a_b_2", "Tw")]
        );
    }
}

#[test]
fn an_id_names_its_run() {
    let run = RunId::parse("run_a_b").unwrap();
    assert_eq!(run_of_message(&message_id(&run, 7)), Some(run.clone()));
    assert_eq!(run_of_message(&request_id(&run, 0)), Some(run));
    assert_eq!(run_of_message("6f9619ff"), None);
}
