//! From log events to AG-UI events.

use runloom_protocol::event::{
    LocalToolCall, LocalToolResultIn, LoopDetected, RequestedCall, Started, TextDelta, ToolCall,
    ToolResult, TurnRestarted,
};
use runloom_protocol::outcome::{RunCancelled, RunResult};
use serde_json::{from_value, json, to_value};

use super::*;

fn translator(calls: KnownCalls) -> Translator {
    let ids = [("tu_2".to_owned(), "t2".to_owned())];
    let run = RunId::parse("run_a").unwrap();
    Translator::new(run, std::sync::Arc::new(ids.into()), calls)
}

/// What a log becomes, each event as a line: its type and what tells it from others.
fn lines(events: Vec<Event>) -> Vec<String> {
    let mut translator = translator(KnownCalls::default());
    let numbered = events.into_iter().zip(1..);
    let out = numbered.flat_map(|(event, seq)| {
        translator.apply(
            Place {
                seq,
                at: Millis(1000),
            },
            event,
        )
    });
    out.map(line).collect()
}

fn line(output: Output) -> String {
    let event = match output {
        Output::Event(event) => to_value(event).unwrap(),
        Output::Snapshot { through } => return format!("snapshot {through}"),
        Output::End(end) => {
            let words = match end {
                RunEnd::Succeeded { .. } => "succeeded",
                RunEnd::Cancelled { .. } => "cancelled",
                RunEnd::Failed { .. } => "failed",
            };
            return format!("end {words}");
        }
    };
    let text = |key: &str| event[key].as_str().map(|text| format!(" {text}"));
    let keys = [
        "messageId",
        "toolCallId",
        "parentMessageId",
        "delta",
        "content",
        "name",
    ];
    let rest: String = keys.iter().filter_map(|key| text(key)).collect();
    format!("{}{rest}", event["type"].as_str().unwrap())
}

fn said(text: &str) -> Event {
    Event::AssistantDelta(TextDelta {
        text: text.to_owned(),
    })
}

fn thought(text: &str) -> Event {
    Event::ThinkingDelta(TextDelta {
        text: text.to_owned(),
    })
}

fn turn(text: &str, calls: &[&str]) -> Event {
    let call = |id: &&str| RequestedCall {
        id: (*id).to_owned(),
        name: "look".to_owned(),
        input: json!({"at": 1}),
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

fn asked(id: &str) -> Event {
    let call = json!({"toolUseId": id, "name": "look", "args": {}, "kind": "local"});
    Event::LocalToolCall(from_value::<LocalToolCall>(call).unwrap())
}

fn answered(id: &str) -> Event {
    Event::LocalToolResultIn(LocalToolResultIn {
        tool_use_id: id.to_owned(),
        output: Some("blue".to_owned()),
        error: None,
    })
}

fn executing(id: &str) -> Event {
    let call = json!({"toolUseId": id, "name": "look", "input": {}});
    Event::ToolCall(from_value::<ToolCall>(call).unwrap())
}

fn executed(id: &str) -> Event {
    let result =
        json!({"toolUseId": id, "name": "look", "ok": true, "result": "red", "summary": ""});
    Event::ToolResult(from_value::<ToolResult>(result).unwrap())
}

fn restarted() -> Event {
    Event::TurnRestarted(TurnRestarted {
        turn: 0,
        reason: String::new(),
    })
}

fn cancelled() -> Event {
    let receipt = json!({"reason": "user"});
    Event::Cancelled(from_value::<RunCancelled>(receipt).unwrap())
}

fn result() -> Event {
    let result = json!({
        "ok": true, "subtype": "success", "text": "x", "turns": 1,
        "tokens": {"inputTokens": 10, "cachedTokens": 2, "reasoningTokens": 3, "outputTokens": 5},
        "model": {"id": "m", "provider": "p", "vendorModelId": "v"},
        "structuredOutput": {"schemaRequested": false, "schemaEnforced": false,
            "enforcementMechanism": "none", "unconstrainedFallbackOccurred": false},
    });
    Event::Result(from_value::<RunResult>(result).unwrap())
}

#[test]
fn a_turn_is_reasoning_then_text_then_calls() {
    let shown = lines(vec![
        Event::Started(Started {}),
        thought("hm"),
        thought("m"),
        said(""),
        said("Hel"),
        said("lo"),
        turn("Hello!", &["tu_1"]),
        result(),
    ]);
    assert_eq!(
        shown,
        [
            "REASONING_START rsn_a_2",
            "REASONING_MESSAGE_START rsn_a_2",
            "REASONING_MESSAGE_CONTENT rsn_a_2 hm",
            "REASONING_MESSAGE_CONTENT rsn_a_2 m",
            "REASONING_MESSAGE_END rsn_a_2",
            "REASONING_END rsn_a_2",
            "TEXT_MESSAGE_START msg_a_5",
            "TEXT_MESSAGE_CONTENT msg_a_5 Hel",
            "TEXT_MESSAGE_CONTENT msg_a_5 lo",
            "TEXT_MESSAGE_CONTENT msg_a_5 !",
            "TEXT_MESSAGE_END msg_a_5",
            "TOOL_CALL_START tu_1 msg_a_5",
            "TOOL_CALL_ARGS tu_1 {\"at\":1}",
            "TOOL_CALL_END tu_1",
            "end succeeded",
        ]
    );
}

#[test]
fn a_turn_without_deltas_is_told_whole_and_one_without_text_not_at_all() {
    let shown = lines(vec![turn("Hello", &[]), turn("", &["tu_1"])]);
    assert_eq!(
        shown,
        [
            "TEXT_MESSAGE_START msg_a_1",
            "TEXT_MESSAGE_CONTENT msg_a_1 Hello",
            "TEXT_MESSAGE_END msg_a_1",
            "TOOL_CALL_START tu_1 msg_a_2",
            "TOOL_CALL_ARGS tu_1 {\"at\":1}",
            "TOOL_CALL_END tu_1",
        ]
    );
}

#[test]
fn a_restart_ends_what_is_open_and_sends_a_snapshot() {
    let shown = lines(vec![thought("hm"), said("Hal"), restarted(), said("Hello")]);
    assert_eq!(
        shown[5..],
        [
            "TEXT_MESSAGE_START msg_a_2",
            "TEXT_MESSAGE_CONTENT msg_a_2 Hal",
            "TEXT_MESSAGE_END msg_a_2",
            "snapshot 3",
            "TEXT_MESSAGE_START msg_a_4",
            "TEXT_MESSAGE_CONTENT msg_a_4 Hello",
        ]
    );
}

#[test]
fn an_interrupted_turn_is_ended_before_the_run() {
    let shown = lines(vec![said("Hal"), cancelled()]);
    assert_eq!(shown[2..], ["TEXT_MESSAGE_END msg_a_1", "end cancelled"]);
}

#[test]
fn other_events_are_custom() {
    let event = Event::LoopDetected(LoopDetected {
        consecutive_count: 3,
        hard_cutoff: false,
        tools: vec!["look".to_owned()],
    });
    let out = translator(KnownCalls::default()).apply(
        Place {
            seq: 1,
            at: Millis(0),
        },
        event,
    );
    let [Output::Event(event)] = &out[..] else {
        panic!("{out:?}");
    };
    assert_eq!(
        to_value(event).unwrap(),
        json!({"type": "CUSTOM", "name": "runloom.loop_detected",
            "value": {"consecutiveCount": 3, "hardCutoff": false, "tools": ["look"]}})
    );
}

#[test]
fn results_are_sent_with_the_ids_of_the_history_unless_the_client_has_them() {
    let calls = KnownCalls {
        client_has: HashSet::from(["tu_1".to_owned()]),
        answered: HashSet::new(),
    };
    let mut translator = translator(calls);
    let log = [
        executing("tu_3"),
        executed("tu_3"),
        answered("tu_1"),
        answered("tu_2"),
    ];
    let out = log.into_iter().zip(1..).flat_map(|(event, seq)| {
        let at = Millis(1000);
        translator.apply(Place { seq, at }, event)
    });
    let out: Vec<Output> = out.collect();
    let Output::Event(first) = &out[0] else {
        panic!("{out:?}");
    };
    assert_eq!(
        to_value(first).unwrap(),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "msg_a_2", "toolCallId": "tu_3", "role": "tool",
            "content": "red", "metadata": {"runId": "run_a", "createdAt": "1970-01-01T00:00:01.000Z"}})
    );
    let rest: Vec<String> = out.into_iter().skip(1).map(line).collect();
    assert_eq!(rest, ["TOOL_CALL_RESULT t2 tu_2 blue"]);
}

#[test]
fn a_run_waits_for_calls_that_nobody_answered() {
    let calls = KnownCalls {
        client_has: HashSet::new(),
        answered: HashSet::from(["tu_2".to_owned()]),
    };
    let mut translator = translator(calls);
    let log = [
        (turn("", &["tu_1", "tu_2", "tu_3", "tu_4"]), vec![]),
        (executing("tu_4"), vec![]),
        (asked("tu_1"), vec![]),
        (asked("tu_2"), vec![]),
        (asked("tu_3"), vec![]),
        (executed("tu_4"), vec!["tu_1", "tu_3"]),
        (answered("tu_1"), vec!["tu_3"]),
        (answered("tu_3"), vec![]),
    ];
    for ((event, pending), seq) in log.into_iter().zip(1..) {
        let at = Millis(0);
        translator.apply(Place { seq, at }, event);
        assert_eq!(translator.pending(), pending, "after {seq}");
    }
}

#[test]
fn a_run_tells_what_it_used() {
    let at = Place {
        seq: 1,
        at: Millis(0),
    };
    let out = translator(KnownCalls::default()).apply(at, result());
    let [Output::End(RunEnd::Succeeded { usage })] = &out[..] else {
        panic!("{out:?}");
    };
    assert_eq!(
        to_value(usage).unwrap(),
        json!([{"provider": "p", "model": "m", "inputTokens": 10, "outputTokens": 5, "totalTokens": 15,
            "reasoningTokens": 3, "cachedInputTokens": 2}])
    );
}
