//! Requests to the Messages API, by table.

use std::sync::Arc;

use runloom_ports::conversation::Conversation;
use runloom_ports::model::{CallRequest, Message, ProviderState};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

const OLD: &str = "claude-sonnet-4-5";
const ADAPTIVE: &str = "claude-opus-4-7";
const DEFAULT_ON: &str = "claude-opus-5";
const ALWAYS_ON: &str = "claude-opus-5-5";

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: "Be brief.".into(),
        ..ModelRequest::new(messages)
    }
}

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn assistant(text: &str, calls: &[&str], state: Option<ProviderState>) -> Message {
    let call = |id: &&str| CallRequest {
        id: (*id).to_owned(),
        name: "search".into(),
        input: json!({"q": id}),
    };
    Message::Assistant {
        text: text.into(),
        calls: calls.iter().map(call).collect(),
        state,
    }
}

fn result(call_id: &str, content: &str) -> Message {
    Message::Tool {
        call_id: call_id.into(),
        name: "search".into(),
        content: content.into(),
        is_error: false,
    }
}

fn tool(name: &str) -> ToolDeclaration {
    ToolDeclaration {
        name: name.into(),
        description: "Finds things.".into(),
        parameters: json!({"type": "object", "properties": {"q": {"type": "string"}}}),
        output_schema: None,
    }
}

fn thinking_state(model: &str, call: &str) -> ProviderState {
    let items = json!([
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "tool_use", "id": call, "name": "search", "input": {"q": call}},
    ]);
    ProviderState {
        owner: "anthropic/1".into(),
        model: model.into(),
        items: RawValue::from_string(items.to_string()).unwrap().into(),
    }
}

fn with_schema(mut request: ModelRequest) -> ModelRequest {
    let schema = json!({"name": "report", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    request.output_schema = Some(Arc::new(serde_json::from_value(schema).unwrap()));
    request
}

fn encoded(model: &str, request: &ModelRequest) -> Value {
    let encoded = encode(Endpoint::Anthropic { model }, request).unwrap();
    serde_json::from_slice(&encoded.body.to_vec()).unwrap()
}

fn roles(body: &Value) -> Vec<&str> {
    body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["role"].as_str().unwrap())
        .collect()
}

#[test]
fn a_plain_request_is_minimal() {
    let body = encoded(OLD, &request(vec![user("Hi")]));
    assert_eq!(
        body,
        json!({
            "model": OLD,
            "max_tokens": 32_000,
            "stream": true,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
            ]}],
        })
    );
}

#[test]
fn bedrock_has_the_version_in_the_body() {
    let road = Endpoint::Bedrock {
        model: OLD,
        version: "bedrock-2023-05-31",
    };
    let encoded = encode(road, &request(vec![user("Hi")])).unwrap();
    let body: Value = serde_json::from_slice(&encoded.body.to_vec()).unwrap();
    assert_eq!(body["anthropic_version"], "bedrock-2023-05-31");
    assert!(body.get("model").is_none() && body.get("stream").is_none());
}

#[test]
fn scales_the_thinking_budget_within_the_limits() {
    for (level, max_tokens, expected) in [
        (1, 32_000, Some(1_024)),
        (30, 32_000, Some(1_024)),
        (50, 32_000, Some(3_814)),
        (80, 32_000, Some(8_000)),
        (100, 32_000, Some(10_790)),
        (100, 4_096, Some(4_095)),
        (100, 1_025, Some(1_024)),
        (100, 1_024, None),
    ] {
        assert_eq!(
            budget(level, max_tokens),
            expected,
            "level {level}, {max_tokens} tokens"
        );
    }
}

#[test]
fn requests_thinking_as_each_generation_expects() {
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    for (model, level, thinking, effort) in [
        (OLD, None, Value::Null, Value::Null),
        (OLD, Some(0), Value::Null, Value::Null),
        (
            OLD,
            Some(100),
            json!({"type": "enabled", "budget_tokens": 10_790}),
            Value::Null,
        ),
        (
            "claude-3-5-haiku-20241022",
            Some(100),
            Value::Null,
            Value::Null,
        ),
        (ADAPTIVE, None, Value::Null, Value::Null),
        (ADAPTIVE, Some(20), adaptive.clone(), json!("low")),
        (ADAPTIVE, Some(50), adaptive.clone(), json!("medium")),
        (DEFAULT_ON, None, json!({"type": "disabled"}), Value::Null),
        (DEFAULT_ON, Some(80), adaptive.clone(), json!("high")),
        (
            "claude-sonnet-5-5",
            None,
            json!({"type": "between_tools"}),
            Value::Null,
        ),
        (ALWAYS_ON, None, Value::Null, Value::Null),
        (ALWAYS_ON, Some(0), Value::Null, json!("low")),
        (ALWAYS_ON, Some(80), adaptive, json!("high")),
    ] {
        let mut request = request(vec![user("Hi")]);
        request.reasoning_level = level;
        let body = encoded(model, &request);
        assert_eq!(body["thinking"], thinking, "{model} at {level:?}");
        assert_eq!(
            body["output_config"]["effort"], effort,
            "{model} at {level:?}"
        );
    }
}

#[test]
fn replays_thinking_only_to_its_model() {
    let conversation = |model: &str| {
        let mut request = request(vec![
            user("Find x"),
            assistant("", &["c1"], Some(thinking_state(model, "c1"))),
            result("c1", "found"),
        ]);
        request.reasoning_level = Some(100);
        request
    };
    let body = encoded(OLD, &conversation(OLD));
    assert_eq!(
        body["messages"][1]["content"][0],
        json!({"type": "thinking", "thinking": "hm", "signature": "sig"})
    );
    assert_eq!(body["messages"][1]["content"][1]["type"], "tool_use");
    assert_eq!(body["thinking"]["type"], "enabled");

    // Thinking of another model is dropped, and then the API rejects further thinking.
    let body = encoded(OLD, &conversation("claude-haiku-4-5"));
    assert_eq!(body["messages"][1]["content"][0]["type"], "tool_use");
    assert!(body.get("thinking").is_none());

    // Adaptive models accept it.
    let body = encoded(ADAPTIVE, &conversation("claude-haiku-4-5"));
    assert_eq!(body["thinking"]["type"], "adaptive");
}

#[test]
fn does_not_replay_thinking_when_thinking_is_off() {
    let mut request = request(vec![
        user("Find x"),
        assistant("", &["c1"], Some(thinking_state(OLD, "c1"))),
        result("c1", "found"),
    ]);
    assert_eq!(
        encoded(OLD, &request)["messages"][1]["content"][0]["type"],
        "tool_use"
    );
    request.messages = Conversation::from(vec![
        user("Find x"),
        assistant("", &["c1"], Some(thinking_state(ALWAYS_ON, "c1"))),
        result("c1", "found"),
    ]);
    assert_eq!(
        encoded(ALWAYS_ON, &request)["messages"][1]["content"][0]["type"],
        "thinking"
    );
}

#[test]
fn drops_thinking_of_other_calls() {
    let state = thinking_state(ALWAYS_ON, "another");
    let messages = vec![
        user("Find x"),
        assistant("", &["c1"], Some(state)),
        result("c1", "found"),
    ];
    let body = encoded(ALWAYS_ON, &request(messages));
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 1);
    assert_eq!(body["messages"][1]["content"][0]["id"], "c1");
}

#[test]
fn puts_tool_results_before_the_next_user_text() {
    let body = encoded(
        OLD,
        &request(vec![
            user("Find x and y"),
            assistant("Looking.", &["c1", "c2"], None),
            result("c1", "x"),
            result("c2", ""),
            Message::System {
                text: "Be quick.".into(),
            },
            user("And z?"),
        ]),
    );
    assert_eq!(roles(&body), ["user", "assistant", "user"]);
    let kinds: Vec<&str> = body["messages"][2]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["tool_result", "tool_result", "text", "text"]);
    assert_eq!(
        body["messages"][2]["content"][1],
        json!({"type": "tool_result", "tool_use_id": "c2"})
    );
    assert_eq!(
        body["messages"][2]["content"][2]["text"],
        "<system>\nBe quick.\n</system>"
    );
}

#[test]
fn a_failed_result_is_never_empty() {
    let failed = Message::Tool {
        call_id: "c1".into(),
        name: "search".into(),
        content: String::new(),
        is_error: true,
    };
    let body = encoded(
        OLD,
        &request(vec![user("Find x"), assistant("", &["c1"], None), failed]),
    );
    assert_eq!(
        body["messages"][2]["content"][0],
        json!({"type": "tool_result", "tool_use_id": "c1", "content": "failed", "is_error": true,
               "cache_control": {"type": "ephemeral"}})
    );
}

#[test]
fn has_no_empty_block_and_begins_and_ends_with_the_user() {
    let body = encoded(
        OLD,
        &request(vec![
            Message::System {
                text: "Context.".into(),
            },
            assistant("I was here first.", &[], None),
            user("  "),
            assistant("", &[], None),
            assistant("And again.", &[], None),
        ]),
    );
    assert_eq!(body["system"][0]["text"], "Be brief.\n\nContext.");
    assert_eq!(roles(&body), ["user", "assistant", "user"]);
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn sets_at_most_four_cache_breakpoints() {
    let mut request = request(vec![
        user("1"),
        assistant("2", &[], None),
        user("3"),
        assistant("4", &[], None),
        user("5"),
    ]);
    request.tools = Arc::new(vec![tool("a"), tool("b")]);
    let body = encoded(OLD, &request);
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
    assert!(body["tools"][0].get("cache_control").is_none());
    assert!(body["tools"][1].get("cache_control").is_some());
    for (turn, marked) in [(0, false), (2, true), (4, true)] {
        assert_eq!(
            body["messages"][turn]["content"][0]
                .get("cache_control")
                .is_some(),
            marked,
            "turn {turn}"
        );
    }
}

#[test]
fn disabled_tools_stay_declared() {
    let mut request = request(vec![user("Hi")]);
    request.tools = Arc::new(vec![tool("search")]);
    assert!(encoded(OLD, &request).get("tool_choice").is_none());
    request.tools_enabled = false;
    let body = encoded(OLD, &request);
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["tools"][0]["name"], "search");
}

#[test]
fn describes_the_output_schema_of_a_tool() {
    let mut declared = tool("search");
    declared.output_schema = Some(json!({"type": "object"}));
    let mut request = request(vec![user("Hi")]);
    request.tools = Arc::new(vec![declared]);
    let body = encoded(OLD, &request);
    assert_eq!(
        body["tools"][0]["description"],
        "Finds things.\n\nThe result is JSON that follows this schema: {\"type\":\"object\"}"
    );
}

#[test]
fn forces_the_hidden_tool_only_on_the_final_turn() {
    let forced = json!({"type": "tool", "name": "final_report", "disable_parallel_tool_use": true});
    let mut request = with_schema(request(vec![user("Hi")]));
    request.reasoning_level = Some(100);
    // Without other tools the first turn is the final one.
    let body = encoded(OLD, &request);
    assert_eq!(body["tool_choice"], forced);
    assert!(body.get("thinking").is_none());

    request.tools = Arc::new(vec![tool("search")]);
    let body = encoded(OLD, &request);
    assert!(body.get("tool_choice").is_none());
    assert_eq!(body["thinking"]["type"], "enabled");
    assert_eq!(body["tools"][1]["name"], "final_report");
    assert_eq!(
        body["tools"][1]["input_schema"]["properties"],
        json!({"a": {"type": "string"}})
    );
    assert!(
        body["system"][0]["text"]
            .as_str()
            .unwrap()
            .contains("`final_report`")
    );

    request.force_output = true;
    let body = encoded(OLD, &request);
    assert_eq!(body["tool_choice"], forced);
    assert!(body.get("thinking").is_none());
    assert_eq!(
        encoded(DEFAULT_ON, &request)["thinking"],
        json!({"type": "disabled"})
    );

    request.force_output = false;
    request.tools_enabled = false;
    assert_eq!(encoded(OLD, &request)["tool_choice"], forced);
}

#[test]
fn uses_native_schemas_without_forced_tools() {
    let mut request = with_schema(request(vec![user("Hi")]));
    request.tools = Arc::new(vec![tool("search")]);
    request.tools_enabled = false;
    let body = encoded(ALWAYS_ON, &request);
    assert_eq!(
        body["output_config"],
        json!({"format": {"type": "json_schema",
                          "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}})
    );
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    let info = encode(Endpoint::Anthropic { model: ALWAYS_ON }, &request)
        .unwrap()
        .info;
    assert!(info.structured.schema_enforced && info.hidden.is_none());
}

#[test]
fn model_settings_are_defaults_of_the_request() {
    let settings = ModelSettings {
        reasoning: Some(false),
        max_output_tokens: Some(500),
        ..Default::default()
    };
    let mut asked = request(vec![user("Hi")]);
    asked.reasoning_level = Some(90);
    let filled = for_model(asked.clone(), &settings);
    assert_eq!(
        (filled.reasoning_level, filled.max_output_tokens),
        (None, Some(500))
    );
    asked.max_output_tokens = Some(7);
    assert_eq!(for_model(asked, &settings).max_output_tokens, Some(7));
}

#[test]
fn does_not_think_after_a_tool_turn_without_thinking() {
    let thinks = |state: Option<ProviderState>, behind: Vec<Message>| {
        let mut messages = vec![
            user("go"),
            assistant("", &["a"], state),
            result("a", "found"),
        ];
        messages.extend(behind);
        let mut request = request(messages);
        request.reasoning_level = Some(50);
        !encoded(OLD, &request)["thinking"].is_null()
    };
    let own = || Some(thinking_state(OLD, "a"));
    // The final turn adds a user message after the results, and a turn may have been empty.
    assert!(!thinks(None, vec![user("and now?")]));
    assert!(!thinks(None, vec![assistant(" ", &[], None), user("and?")]));
    assert!(thinks(own(), vec![user("and now?")]));
    assert!(thinks(
        None,
        vec![assistant("done", &[], None), user("and?")]
    ));
}
