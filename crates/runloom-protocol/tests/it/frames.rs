//! The bytes of every event, and the way back.

use std::collections::HashSet;

use bytes::BytesMut;
use proptest::prelude::*;
use runloom_protocol::event::{
    AssistantMessage, ContextCompacted, Event, EventKind, FileInfo, LocalToolCall,
    LocalToolResultIn, LoopDetected, ModelFallback, RequestedCall, Sequenced, Started, TextDelta,
    ToolBudgetExceeded, ToolCall, ToolFiles, ToolResult, TurnRestarted, frame_json, frame_kind,
    parse_frame, split_frames,
};
use runloom_protocol::outcome::{
    ErrorClass, ModelInfo, RunCancelled, RunError, RunResult, StructuredOutput, Tokens,
};
use serde_json::{Value, json};

fn model() -> ModelInfo {
    ModelInfo {
        id: "platform:demo".into(),
        provider: "demo".into(),
        vendor_model_id: "demo".into(),
        reasoning_effort: None,
    }
}

const TOKENS: Tokens = Tokens {
    input_tokens: 4,
    cached_tokens: 3,
    reasoning_tokens: 1,
    output_tokens: 2,
};
const TOKENS_JSON: &str =
    r#""tokens":{"inputTokens":4,"cachedTokens":3,"reasoningTokens":1,"outputTokens":2}"#;
const MODEL_JSON: &str =
    r#""model":{"id":"platform:demo","provider":"demo","vendorModelId":"demo"}"#;
const STRUCTURED_JSON: &str = r#""structuredOutput":{"schemaRequested":false,"schemaEnforced":false,"enforcementMechanism":"none","unconstrainedFallbackOccurred":false}"#;

/// Every event with its kind and the inside of its payload.
fn every_event() -> Vec<(Event, &'static str, String)> {
    [
        text_events(),
        tool_events(),
        approval_events(),
        terminal_events(),
    ]
    .concat()
}

/// An event that is read from the inside of its payload.
fn read(kind: &'static str, inside: String) -> (Event, &'static str, String) {
    let json = format!(r#"{{"seq":1,"type":"{kind}","data":{{{inside}}}}}"#);
    let read: Sequenced = serde_json::from_str(&json).unwrap();
    (read.event, kind, inside)
}

fn approval_events() -> Vec<(Event, &'static str, String)> {
    let call =
        r#""approvalId":"apr_1","runId":"run_1","depth":1,"toolUseId":"tu_1","name":"write""#;
    vec![
        read(
            "approval_requested",
            format!(
                r#"{call},"input":{{"path":"a"}},"effect":"once","annotations":{{"destructiveHint":true}},"rule":"writes","reason":"It writes.","expiresAt":"2026-11-18T10:00:00Z""#
            ),
        ),
        read(
            "approval_decided",
            format!(
                r#"{call},"decision":"approve","status":"approved","input":{{"path":"b"}},"note":"Not a.","by":{{"kind":"key","id":"key_1"}},"decidedAt":"2026-11-17T10:00:03Z""#
            ),
        ),
        read(
            "sub_action",
            r#""toolUseId":"tu_1","subActionId":"0","name":"batch.write","phase":"completed","result":"done""#.to_owned(),
        ),
        read(
            "subagent",
            format!(
                r#""phase":"completed","name":"librarian","toolUseId":"tu_1","runId":"run_2","parentRunId":"run_1","depth":1,"spanId":"b7ad6b7169203331","parentSpanId":"00f067aa0ba902b7",{TOKENS_JSON},"turns":2,{MODEL_JSON}"#
            ),
        ),
    ]
}

fn text_events() -> Vec<(Event, &'static str, String)> {
    let call = RequestedCall {
        id: "tu_1".into(),
        name: "f".into(),
        input: json!({"b": 1, "a": 2}),
    };
    let message = AssistantMessage {
        text: "Hi".into(),
        turn: 1,
        finish_reason: Some("tool_use".into()),
        tool_calls: vec![call],
        model: Some("platform:demo".into()),
        tokens: Some(Tokens {
            input_tokens: 9,
            output_tokens: 3,
            ..Tokens::default()
        }),
        cost_usd: Some(0.25),
        duration_ms: Some(800),
        time_to_first_token_ms: Some(120),
        attempts: Some(2),
    };
    let text = |text: &str| TextDelta { text: text.into() };
    vec![
        (Event::Started(Started {}), "started", String::new()),
        (Event::AssistantDelta(text("a\n\n\"ü")), "assistant_delta", r#""text":"a\n\n\"ü""#.into()),
        (Event::ThinkingDelta(text("")), "thinking_delta", r#""text":"""#.into()),
        (
            Event::AssistantMessage(message),
            "assistant_message",
            r#""text":"Hi","turn":1,"finishReason":"tool_use","toolCalls":[{"id":"tu_1","name":"f","input":{"b":1,"a":2}}],"model":"platform:demo","tokens":{"inputTokens":9,"cachedTokens":0,"reasoningTokens":0,"outputTokens":3},"costUsd":0.25,"durationMs":800,"timeToFirstTokenMs":120,"attempts":2"#.into(),
        ),
        (
            Event::TurnRestarted(TurnRestarted { turn: 2, reason: "worker lost".into() }),
            "turn_restarted",
            r#""turn":2,"reason":"worker lost""#.into(),
        ),
        (
            Event::ModelFallback(ModelFallback {
                error_class: ErrorClass::Overloaded,
                model: model(),
                primary_model_id: "provider:oa:gpt".into(),
                fallback_model_id: "platform:demo".into(),
            }),
            "model_fallback",
            format!(
                r#""errorClass":"overloaded",{MODEL_JSON},"primaryModelId":"provider:oa:gpt","fallbackModelId":"platform:demo""#
            ),
        ),
    ]
}

/// A call of an A2A agent and one of an MCP tool, both executed by the client.
fn client_calls() -> [LocalToolCall; 2] {
    let card = json!({"name": "HR", "x": null}).as_object().cloned();
    let local = LocalToolCall {
        tool_use_id: "tu_1".into(),
        name: "f".into(),
        args: json!({}),
        kind: "a2a_local".into(),
        agent_card: card,
        mcp_server: None,
        mcp_tool_name: None,
        mcp_server_info: None,
        annotations: None,
    };
    let mcp = LocalToolCall {
        kind: "mcp_local".into(),
        agent_card: None,
        mcp_server: Some("fs".into()),
        mcp_tool_name: Some("fs_read".into()),
        mcp_server_info: json!({"name": "s"}).as_object().cloned(),
        annotations: Some(json!({"readOnlyHint": true})),
        ..local.clone()
    };
    [local, mcp]
}

fn tool_events() -> Vec<(Event, &'static str, String)> {
    let [local, mcp] = client_calls();
    let answered = |output: Option<&str>, error: Option<&str>| LocalToolResultIn {
        tool_use_id: "tu_1".into(),
        output: output.map(str::to_owned),
        error: error.map(str::to_owned),
    };
    let result = ToolResult {
        tool_use_id: "tu_1".into(),
        name: "f".into(),
        ok: true,
        result: "r".into(),
        summary: "s".into(),
        metadata: None,
        duration_ms: Some(41),
    };
    vec![
        (
            Event::ToolCall(ToolCall { tool_use_id: "tu_1".into(), name: "f".into(), input: json!({"q": [1]}) }),
            "tool_call",
            r#""toolUseId":"tu_1","name":"f","input":{"q":[1]}"#.into(),
        ),
        (
            Event::ToolResult(result),
            "tool_result",
            r#""toolUseId":"tu_1","name":"f","ok":true,"result":"r","summary":"s","durationMs":41"#.into(),
        ),
        (
            Event::ToolFiles(ToolFiles {
                name: "f".into(),
                files: vec![FileInfo { filename: "a.png".into(), mime_type: "image/png".into(), size_bytes: 3 }],
            }),
            "tool_files",
            r#""name":"f","files":[{"filename":"a.png","mimeType":"image/png","sizeBytes":3}]"#.into(),
        ),
        (
            Event::LocalToolCall(local),
            "local_tool_call",
            r#""toolUseId":"tu_1","name":"f","args":{},"kind":"a2a_local","agentCard":{"name":"HR","x":null}"#.into(),
        ),
        (
            Event::LocalToolCall(mcp),
            "local_tool_call",
            r#""toolUseId":"tu_1","name":"f","args":{},"kind":"mcp_local","mcpServer":"fs","mcpToolName":"fs_read","mcpServerInfo":{"name":"s"},"annotations":{"readOnlyHint":true}"#.into(),
        ),
        (
            Event::LocalToolResultIn(answered(Some(""), None)),
            "local_tool_result_in",
            r#""toolUseId":"tu_1","output":"""#.into(),
        ),
        (
            Event::LocalToolResultIn(answered(None, Some("no"))),
            "local_tool_result_in",
            r#""toolUseId":"tu_1","error":"no""#.into(),
        ),
        (
            Event::LoopDetected(LoopDetected { consecutive_count: 3, hard_cutoff: false, tools: vec!["f".into()] }),
            "loop_detected",
            r#""consecutiveCount":3,"hardCutoff":false,"tools":["f"]"#.into(),
        ),
        (
            Event::ToolBudgetExceeded(ToolBudgetExceeded { tool: "f".into(), max_calls: 4, call_index: 5 }),
            "tool_budget_exceeded",
            r#""tool":"f","maxCalls":4,"callIndex":5"#.into(),
        ),
        (
            Event::ContextCompacted(ContextCompacted {
                before_tokens: 900,
                after_tokens: 300,
                turns: 6,
                model: "demo".into(),
                summarised: false,
                reason: Some("busy".into()),
            }),
            "context_compacted",
            r#""beforeTokens":900,"afterTokens":300,"turns":6,"model":"demo","summarised":false,"reason":"busy""#.into(),
        ),
    ]
}

fn terminal_events() -> Vec<(Event, &'static str, String)> {
    let result = RunResult {
        subagents: None,
        ok: true,
        subtype: "success".into(),
        text: "Done".into(),
        tokens: TOKENS,
        turns: 1,
        model: model(),
        structured_output: StructuredOutput::default(),
        cost_usd: Some(0.5),
    };
    let error = RunError {
        subagents: None,
        error: "Cut off".into(),
        code: ErrorClass::Truncation,
        error_class: ErrorClass::Truncation,
        finish_reason: Some("max_tokens".into()),
        partial_text: Some("Do".into()),
        retryable: Some(false),
        tokens: TOKENS,
        turns: 1,
        model: model(),
        structured_output: StructuredOutput::default(),
        api_status: Some(200),
        api_code: Some("length".into()),
        cost_usd: None,
    };
    let cancelled = RunCancelled {
        subagents: None,
        reason: "user".into(),
        requested_at: Some("2026-11-01T00:00:00Z".into()),
        stopped_at: None,
        interrupted: vec!["model".into()],
        tokens: TOKENS,
        turns: 1,
        model: Some(model()),
        cost_usd: None,
    };
    vec![
        (
            Event::Result(result),
            "result",
            format!(
                r#""ok":true,"subtype":"success","text":"Done",{TOKENS_JSON},"turns":1,{MODEL_JSON},{STRUCTURED_JSON},"costUsd":0.5"#
            ),
        ),
        (
            Event::Error(error),
            "error",
            format!(
                r#""error":"Cut off","code":"truncation","errorClass":"truncation","finishReason":"max_tokens","partialText":"Do","retryable":false,{TOKENS_JSON},"turns":1,{MODEL_JSON},{STRUCTURED_JSON},"apiStatus":200,"apiCode":"length""#
            ),
        ),
        (
            Event::Cancelled(cancelled),
            "cancelled",
            format!(
                r#""reason":"user","requestedAt":"2026-11-01T00:00:00Z","interrupted":["model"],{TOKENS_JSON},"turns":1,{MODEL_JSON}"#
            ),
        ),
    ]
}

/// When the events of these tests were written.
const AT: u64 = 1_793_491_200_123;

fn frame_of(event: &Event, seq: u64) -> BytesMut {
    let mut out = BytesMut::new();
    event.write_frame(seq, AT, &mut out).unwrap();
    out
}

#[test]
fn each_event_has_exactly_these_bytes() {
    for (event, kind, inside) in every_event() {
        let flat = if inside.is_empty() {
            String::new()
        } else {
            format!(",{inside}")
        };
        let wanted = format!(
            "id: 7\nevent: {kind}\ndata: {{\"seq\":7,\"type\":\"{kind}\",\"at\":{AT}{flat},\"data\":{{{inside}}}}}\n\n"
        );
        assert_eq!(std::str::from_utf8(&frame_of(&event, 7)).unwrap(), wanted);
        assert_eq!(event.kind().as_str(), kind);
    }
}

#[test]
fn each_event_is_read_back_by_both_readers() {
    for (event, kind, _) in every_event() {
        let frame = frame_of(&event, 9);
        let wanted = Sequenced {
            seq: 9,
            at: Some(AT),
            event,
        };
        assert_eq!(frame_kind(&frame), EventKind::parse(kind));
        assert!(frame_kind(&frame).is_some(), "{kind}");
        assert_eq!(parse_frame(&frame).unwrap().unwrap(), wanted);
        let derived: Sequenced = serde_json::from_slice(frame_json(&frame).unwrap()).unwrap();
        assert_eq!(derived, wanted);
    }
}

#[test]
fn covers_every_kind() {
    let seen: HashSet<EventKind> = every_event()
        .iter()
        .map(|(event, ..)| event.kind())
        .collect();
    assert_eq!(seen, EventKind::ALL.iter().copied().collect());
}

#[test]
fn the_payload_is_the_same_at_both_places() {
    for (event, _, _) in every_event() {
        let frame = frame_of(&event, 1);
        let mut json: Value = serde_json::from_slice(frame_json(&frame).unwrap()).unwrap();
        let object = json.as_object_mut().unwrap();
        let nested = object.remove("data").unwrap();
        object.remove("seq");
        object.remove("type");
        assert_eq!(object.remove("at"), Some(AT.into()));
        assert_eq!(json, nested);
    }
}

#[test]
fn only_the_last_three_kinds_are_terminal() {
    for (event, kind, _) in every_event() {
        assert_eq!(
            event.is_terminal(),
            ["result", "error", "cancelled"].contains(&kind),
            "{kind}"
        );
        assert_eq!(event.terminal().is_some(), event.is_terminal(), "{kind}");
    }
}

#[test]
fn every_sequence_number_is_written_in_full() {
    for seq in [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX] {
        let frame = frame_of(&Event::Started(Started {}), seq);
        assert!(frame.starts_with(format!("id: {seq}\n").as_bytes()));
        assert_eq!(parse_frame(&frame).unwrap().unwrap().seq, seq);
    }
}

#[test]
fn frames_are_appended_and_split_again() {
    let events = every_event();
    let mut log = BytesMut::new();
    for (seq, (event, _, _)) in (1..).zip(&events) {
        event.write_frame(seq, AT, &mut log).unwrap();
    }
    let frames: Vec<&[u8]> = split_frames(&log).collect();
    assert_eq!(frames.len(), events.len());
    assert_eq!(frames.concat(), log);
    for (frame, (seq, (event, _, _))) in frames.iter().zip((1..).zip(events)) {
        assert_eq!(
            parse_frame(frame).unwrap().unwrap(),
            Sequenced {
                seq,
                at: Some(AT),
                event
            }
        );
    }
}

#[test]
fn an_unfinished_frame_is_not_a_frame() {
    let mut log = frame_of(&Event::Started(Started {}), 1);
    let whole = log.len();
    log.extend_from_slice(b"id: 2\nevent: started\n");
    let frames: Vec<&[u8]> = split_frames(&log).collect();
    assert_eq!(frames, [&log[..whole]]);
    assert_eq!(split_frames(b"").count(), 0);
}

#[test]
fn a_comment_is_no_event() {
    assert_eq!(frame_kind(b": keep-alive\n\n"), None);
    assert!(parse_frame(b": keep-alive\n\n").is_none());
    assert_eq!(frame_json(b"id: 1\ndata: {}"), None);
}

#[test]
fn the_kind_is_read_from_the_line_and_never_from_the_data() {
    assert_eq!(frame_kind(b"event:started\n\n"), Some(EventKind::Started));
    assert_eq!(frame_kind(b"id: 1\ndata: {\nevent: x\n\n"), None);
    assert_eq!(frame_kind(b"event: \xff\n\n"), None);
}

#[test]
fn an_event_of_a_newer_server_is_an_error_that_names_it() {
    let frame =
        b"id: 1\nevent: task_plan\ndata: {\"seq\":1,\"type\":\"task_plan\",\"data\":{}}\n\n";
    let error = parse_frame(frame).unwrap().unwrap_err();
    assert!(error.to_string().contains("task_plan"), "{error}");
    assert!(parse_frame(b"id: 1\ndata: nonsense\n\n").unwrap().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_comes_back_unchanged(
        texts in prop::collection::vec(prop_oneof![any::<String>(), "[\n\r\"\\\\{},: \u{2028}é]{0,20}"], 1..8),
        start in 1_u64..1 << 40,
    ) {
        let event = |text: &String| Event::AssistantDelta(TextDelta { text: text.clone() });
        let mut log = BytesMut::new();
        for (seq, text) in (start..).zip(&texts) {
            event(text).write_frame(seq, AT, &mut log).unwrap();
        }
        let frames: Vec<&[u8]> = split_frames(&log).collect();
        prop_assert_eq!(frames.len(), texts.len());
        for (frame, (seq, text)) in frames.into_iter().zip((start..).zip(&texts)) {
            let sequenced = parse_frame(frame).unwrap().unwrap();
            prop_assert_eq!(sequenced, Sequenced { seq, at: Some(AT), event: event(text) });
            let json: Value = serde_json::from_slice(frame_json(frame).unwrap()).unwrap();
            prop_assert_eq!(&json["text"], text);
            prop_assert_eq!(&json["data"]["text"], text);
        }
    }
}
