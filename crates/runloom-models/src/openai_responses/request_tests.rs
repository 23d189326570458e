//! Requests to the Responses API, by table.

use std::sync::Arc;

use serde_json::json;

use super::*;

fn target(model: &str) -> Target {
    let settings = ModelSettings {
        vendor_model_id: model.into(),
        ..Default::default()
    };
    Target::new(&settings, model)
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: "Be brief.".into(),
        cache_key: "ses_1".into(),
        ..ModelRequest::new(messages)
    }
}

fn encoded(model: &str, request: &ModelRequest) -> Value {
    let body = encode(&target(model), request).unwrap();
    serde_json::from_slice(&body.to_vec()).unwrap()
}

fn state(owner: &str, model: &str) -> ProviderState {
    let raw = r#"[{"type":"reasoning", "id":"rs_1","encrypted_content":"abc","summary":[]},{"type":"message","id":"m"}]"#;
    ProviderState {
        owner: owner.into(),
        model: model.into(),
        items: Arc::from(RawValue::from_string(raw.into()).unwrap()),
    }
}

fn assistant(state: Option<ProviderState>) -> Message {
    Message::Assistant {
        text: "Hi".into(),
        calls: vec![],
        state,
    }
}

#[test]
fn replays_state_to_its_model() {
    let asked = request(vec![assistant(Some(state(OWNER, "gpt-5.5")))]);
    let body = encode(&target("gpt-5.5"), &asked).unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(
        body.contains(
            r#"{"type":"reasoning", "id":"rs_1","encrypted_content":"abc","summary":[]}"#
        )
    );
}

#[test]
fn rebuilds_turns_of_other_models() {
    for foreign in [
        state("anthropic/1", "gpt-5.5"),
        state(OWNER, "gpt-4.1"),
        ProviderState {
            items: Arc::from(RawValue::from_string("{\"not\":\"a list\"}".into()).unwrap()),
            ..state(OWNER, "gpt-5.5")
        },
    ] {
        let body = encoded("gpt-5.5", &request(vec![assistant(Some(foreign))]));
        assert_eq!(
            body["input"],
            json!([{"role": "assistant", "content": "Hi"}])
        );
    }
}

#[test]
fn maps_the_level_to_an_effort() {
    let table = [
        ("gpt-5.5", None, json!(null)),
        ("gpt-5.5", Some(0), json!({"effort": "none"})),
        ("gpt-5-mini", Some(0), json!({"effort": "minimal"})),
        ("gpt-5-codex", Some(0), json!({"effort": "low"})),
        ("o3", Some(0), json!({"effort": "low"})),
        ("gpt-5-pro", Some(0), json!(null)),
        ("gpt-5-pro", Some(20), json!({"summary": "auto"})),
        (
            "gpt-5.5",
            Some(30),
            json!({"effort": "low", "summary": "auto"}),
        ),
        (
            "o4-mini",
            Some(50),
            json!({"effort": "medium", "summary": "auto"}),
        ),
        (
            "openai/gpt-6",
            Some(80),
            json!({"effort": "high", "summary": "auto"}),
        ),
        ("gpt-4.1", Some(80), json!(null)),
        ("gpt-5-chat-latest", Some(80), json!(null)),
    ];
    for (model, level, wanted) in table {
        let mut asked = request(vec![]);
        asked.reasoning_level = level;
        let body = encoded(model, &asked);
        assert_eq!(body["reasoning"], wanted, "{model} {level:?}");
        assert_eq!(
            body.get("include").is_some(),
            family(model).reasons(),
            "{model}"
        );
    }
}

#[test]
fn keeps_the_limits_of_the_api() {
    let mut asked = request(vec![]);
    asked.cache_key = "é".repeat(50).into();
    asked.max_output_tokens = Some(1);
    let body = encoded("gpt-4.1", &asked);
    assert_eq!(body["prompt_cache_key"], json!("é".repeat(32)));
    assert_eq!(body["max_output_tokens"], json!(16));
    asked.cache_key = "".into();
    assert!(encoded("gpt-4.1", &asked).get("prompt_cache_key").is_none());
}
