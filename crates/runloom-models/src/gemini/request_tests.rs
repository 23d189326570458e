//! Requests to Gemini, by table.

use std::sync::Arc;

use runloom_ports::model::{CallRequest, Message, ProviderState};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

const NEW: &str = "gemini-3.1-pro-preview";
const OLD: &str = "gemini-2.5-flash";

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

fn result(call_id: &str, content: &str, is_error: bool) -> Message {
    Message::Tool {
        call_id: call_id.into(),
        name: "search".into(),
        content: content.into(),
        is_error,
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

fn signed_state(model: &str, call: Value) -> ProviderState {
    let items = json!([{"functionCall": call, "thoughtSignature": "c2ln"}]);
    ProviderState {
        owner: "gemini/1".into(),
        model: model.into(),
        items: RawValue::from_string(items.to_string()).unwrap().into(),
    }
}

fn with_schema(mut request: ModelRequest) -> ModelRequest {
    let schema = json!({"name": "report", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    request.output_schema = Some(Arc::new(serde_json::from_value(schema).unwrap()));
    request
}

fn settings(model: &str) -> ModelSettings {
    ModelSettings {
        vendor_model_id: model.into(),
        ..Default::default()
    }
}

fn encoded(model: &str, request: &ModelRequest) -> Value {
    let encoded = encode(&settings(model), request).unwrap();
    serde_json::from_slice(&encoded.body.to_vec()).unwrap()
}

#[test]
fn model_settings_are_defaults_of_the_request() {
    let settings = ModelSettings {
        reasoning: Some(false),
        max_output_tokens: Some(500),
        ..settings(OLD)
    };
    let mut request = ModelRequest::new(vec![user("Hi")]);
    request.reasoning_level = Some(90);
    let encoded = encode(&settings, &request).unwrap();
    let body: Value = serde_json::from_slice(&encoded.body.to_vec()).unwrap();
    assert_eq!(body["generationConfig"], json!({"maxOutputTokens": 500}));
    assert!(!encoded.info.show_thinking);
}

#[test]
fn a_plain_request_is_minimal() {
    assert_eq!(
        encoded(NEW, &ModelRequest::new(vec![user("Hi")])),
        json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": {}})
    );
}

#[test]
fn requests_thinking_as_each_generation_expects() {
    for (model, level, expected) in [
        ("gemini-2.0-flash", Some(100), Value::Null),
        (OLD, None, json!({"thinkingBudget": 0})),
        (OLD, Some(0), json!({"thinkingBudget": 0})),
        (
            OLD,
            Some(1),
            json!({"includeThoughts": true, "thinkingBudget": 512}),
        ),
        (
            OLD,
            Some(100),
            json!({"includeThoughts": true, "thinkingBudget": 24_576}),
        ),
        ("gemini-2.5-pro", None, json!({"thinkingBudget": 128})),
        (
            "gemini-2.5-pro",
            Some(50),
            json!({"includeThoughts": true, "thinkingBudget": 12_422}),
        ),
        (NEW, None, Value::Null),
        (NEW, Some(0), json!({"thinkingLevel": "LOW"})),
        (
            NEW,
            Some(35),
            json!({"includeThoughts": true, "thinkingLevel": "LOW"}),
        ),
        (
            NEW,
            Some(36),
            json!({"includeThoughts": true, "thinkingLevel": "MEDIUM"}),
        ),
        (
            NEW,
            Some(66),
            json!({"includeThoughts": true, "thinkingLevel": "HIGH"}),
        ),
        (
            "gemini-3-pro-preview",
            Some(50),
            json!({"includeThoughts": true, "thinkingLevel": "HIGH"}),
        ),
        (
            "gemini-3-flash-preview",
            Some(0),
            json!({"thinkingLevel": "MINIMAL"}),
        ),
    ] {
        let mut request = ModelRequest::new(vec![user("Hi")]);
        request.reasoning_level = level;
        assert_eq!(
            encoded(model, &request)["generationConfig"]["thinkingConfig"],
            expected,
            "{model} at {level:?}"
        );
    }
}

#[test]
fn declares_tools_with_both_schemas() {
    let mut declared = tool("search");
    declared.output_schema = Some(json!({"type": "object"}));
    let mut request = ModelRequest::new(vec![user("Hi")]);
    request.tools = Arc::new(vec![declared]);
    let body = encoded(NEW, &request);
    assert_eq!(
        body["tools"],
        json!([{"functionDeclarations": [{
            "name": "search",
            "description": "Finds things.",
            "parametersJsonSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
            "responseJsonSchema": {"type": "object"},
        }]}])
    );
    assert!(body.get("toolConfig").is_none());
    request.tools_enabled = false;
    assert_eq!(
        encoded(NEW, &request)["toolConfig"],
        json!({"functionCallingConfig": {"mode": "NONE"}})
    );
}

#[test]
fn replays_signed_parts_and_ids_to_their_model() {
    let state = signed_state(
        NEW,
        json!({"id": "c1", "name": "search", "args": {"q": "c1"}}),
    );
    let messages = vec![
        user("Find x"),
        assistant("", &["c1"], Some(state)),
        result("c1", "{\"n\":1}", false),
    ];
    let body = encoded(NEW, &ModelRequest::new(messages.clone()));
    assert_eq!(
        body["contents"][1],
        json!({"role": "model", "parts": [
            {"functionCall": {"id": "c1", "name": "search", "args": {"q": "c1"}}, "thoughtSignature": "c2ln"},
        ]})
    );
    assert_eq!(
        body["contents"][2],
        json!({"role": "user", "parts": [
            {"functionResponse": {"id": "c1", "name": "search", "response": {"n": 1}}},
        ]})
    );

    let body = encoded("gemini-3-flash-preview", &ModelRequest::new(messages));
    assert_eq!(
        body["contents"][1]["parts"],
        json!([{"functionCall": {"name": "search", "args": {"q": "c1"}},
                "thoughtSignature": "skip_thought_signature_validator"}])
    );
    assert!(
        body["contents"][2]["parts"][0]["functionResponse"]
            .get("id")
            .is_none()
    );
}

#[test]
fn keeps_call_ids_across_cached_blocks() {
    let call = json!({"id": "c1", "name": "search", "args": {}});
    let asked = assistant("", &["c1"], Some(signed_state(NEW, call)));
    let mut request = ModelRequest::new(vec![user("Find x"), asked]);
    request.messages.append(vec![result("c1", "x", false)]);
    for _ in 0..2 {
        let body = encoded(NEW, &request);
        let response = &body["contents"][2]["parts"][0]["functionResponse"];
        assert_eq!(response["id"], "c1");
    }
}

#[test]
fn signs_the_first_call_of_a_foreign_turn() {
    let messages = vec![
        user("Find"),
        assistant("Looking.", &["c1", "c2"], None),
        result("c1", "plain", false),
        result("c2", "broken", true),
        user("And?"),
    ];
    let body = encoded(NEW, &ModelRequest::new(messages.clone()));
    let parts = body["contents"][1]["parts"].as_array().unwrap();
    assert_eq!(parts[0], json!({"text": "Looking."}));
    assert!(
        parts[1].get("thoughtSignature").is_some() && parts[2].get("thoughtSignature").is_none()
    );
    assert!(
        !encoded(OLD, &ModelRequest::new(messages))
            .to_string()
            .contains("thoughtSignature")
    );
    // The responses are in one entry without anything else.
    assert_eq!(
        body["contents"][2]["parts"],
        json!([
            {"functionResponse": {"name": "search", "response": {"output": "plain"}}},
            {"functionResponse": {"name": "search", "response": {"error": "broken"}}},
        ])
    );
    assert_eq!(
        body["contents"][3],
        json!({"role": "user", "parts": [{"text": "And?"}]})
    );
}

#[test]
fn begins_and_ends_with_the_user_and_joins_roles() {
    let mut request = ModelRequest::new(vec![
        Message::System {
            text: "Context.".into(),
        },
        assistant("I was here first.", &[], None),
        user(" "),
        assistant("And again.", &[], None),
        Message::System {
            text: "Now.".into(),
        },
        user("Go."),
    ]);
    request.system = "Be brief.".into();
    let body = encoded(NEW, &request);
    assert_eq!(
        body["systemInstruction"],
        json!({"parts": [{"text": "Be brief."}, {"text": "Context."}]})
    );
    let roles: Vec<&str> = body["contents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|content| content["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "model", "user"]);
    assert_eq!(body["contents"][1]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(
        body["contents"][2]["parts"],
        json!([{"text": "<system>\nNow.\n</system>"}, {"text": "Go."}])
    );
}

#[test]
fn prefers_the_native_schema_mode() {
    let mut request = with_schema(ModelRequest::new(vec![user("Hi")]));
    for model in [NEW, OLD] {
        let config = &encoded(model, &request)["generationConfig"];
        assert_eq!(config["responseMimeType"], "application/json", "{model}");
        assert_eq!(
            config["responseJsonSchema"]["properties"],
            json!({"a": {"type": "string"}}),
            "{model}"
        );
    }
    request.tools = Arc::new(vec![tool("search")]);
    let config = &encoded(NEW, &request)["generationConfig"];
    assert_eq!(config["responseMimeType"], "application/json");
    assert_eq!(
        encode(&settings(NEW), &request).unwrap().info.structured,
        structured::NATIVE
    );
}

#[test]
fn forces_the_hidden_function_only_on_the_final_turn() {
    let mut request = with_schema(ModelRequest::new(vec![user("Hi")]));
    request.tools = Arc::new(vec![tool("search")]);
    let body = encoded(OLD, &request);
    assert!(body["generationConfig"].get("responseMimeType").is_none());
    assert_eq!(
        body["tools"][0]["functionDeclarations"][1]["name"],
        "set_model_response"
    );
    assert!(
        body["systemInstruction"]["parts"][0]["text"]
            .as_str()
            .unwrap()
            .contains("`set_model_response`")
    );
    assert!(body.get("toolConfig").is_none());
    let forced = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["set_model_response"]}});
    request.force_output = true;
    assert_eq!(encoded(OLD, &request)["toolConfig"], forced);
    request.force_output = false;
    request.tools_enabled = false;
    assert_eq!(encoded(OLD, &request)["toolConfig"], forced);
}
