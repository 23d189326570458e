//! Arbitrary conversations for property tests, valid or not.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use runloom_ports::conversation::Conversation;
use runloom_ports::file::{File, FileContent};
use runloom_ports::model::{CallRequest, Message, ModelRequest, ProviderState};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// By their names, the first replays thinking and the second does not.
pub(crate) const MODELS: [&str; 2] = ["gpt-5.5", "gpt-4.1"];

const CALLS: [&str; 3] = ["c1", "c2", "c3"];

/// A request with only a conversation.
pub(crate) fn request(messages: Conversation, system: &str) -> ModelRequest {
    ModelRequest {
        system: system.into(),
        cache_key: "ses_1".into(),
        ..ModelRequest::new(messages)
    }
}

/// One message.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        1 => text().prop_map(|text| Message::System { text: text.into() }),
        2 => text().prop_map(|text| Message::User { text: text.into() }),
        1 => (text(), proptest::collection::vec(file(), 1..3)).prop_map(|(text, files)| {
            Message::UserFiles { text: text.into(), files: files.into() }
        }),
        3 => assistant(),
        2 => (select(CALLS.to_vec()), text(), any::<bool>()).prop_map(|(call_id, content, is_error)| {
            Message::Tool {
                call_id: call_id.to_owned(),
                name: "look".to_owned(),
                content,
                is_error,
            }
        }),
    ]
}

fn file() -> impl Strategy<Value = File> {
    let kinds = vec!["image/png", "application/pdf", "audio/wav", "text/plain"];
    (select(kinds), text(), 0..3_u8).prop_map(|(kind, text, content)| File {
        name: "a \"name\"".into(),
        mime_type: kind.into(),
        size: Some(text.len() as u64),
        content: match content {
            0 => FileContent::Text(text.into()),
            1 => FileContent::Base64("QUI=".into()),
            _ => FileContent::Url("https://h.example/a".into()),
        },
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        7 => any::<String>(),
        2 => select(vec![String::new(), " \n".to_owned()]),
        // Large enough to be a separate piece.
        1 => Just("a \"quoted\" line\n".repeat(2_000)),
    ]
}

fn assistant() -> impl Strategy<Value = Message> {
    let calls = subsequence(CALLS.to_vec(), 0..3);
    let owner = select(vec!["openai-responses/1", "anthropic/1", "gemini/1"]);
    let state = (owner, select(MODELS.to_vec()), any::<bool>(), 0..2_usize);
    (text(), calls, proptest::option::of(state)).prop_map(|(text, ids, state)| Message::Assistant {
        text: text.into(),
        calls: ids
            .iter()
            .map(|id| CallRequest {
                id: (*id).to_owned(),
                name: "look".to_owned(),
                input: json!({ "id": id }),
            })
            .collect(),
        state: state.map(|(owner, model, is_known, more)| {
            let items = if is_known {
                items(owner, &ids, more)
            } else {
                json!({})
            };
            ProviderState {
                owner: owner.to_owned(),
                model: model.to_owned(),
                items: Arc::from(RawValue::from_string(items.to_string()).unwrap()),
            }
        }),
    })
}

/// Provider state with the calls and some other items.
fn items(owner: &str, calls: &[&str], more: usize) -> Value {
    let call = |id: &&str| match owner {
        "anthropic/1" => json!({"type": "tool_use", "id": id, "name": "look", "input": {}}),
        "gemini/1" => json!({"functionCall": {"id": id, "name": "look", "args": {}}}),
        _ => json!({"type": "function_call", "call_id": id}),
    };
    let thought = json!({"type": "thinking", "text": "hm"});
    let thoughts = std::iter::repeat_n(thought, more);
    thoughts.chain(calls.iter().map(call)).collect()
}
