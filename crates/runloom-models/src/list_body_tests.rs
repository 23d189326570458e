//! Whatever was remembered on the way, the body is that of the whole conversation.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use runloom_core::ports::model::{CallRequest, ModelRequest, ProviderState};
use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::probe::encode;

const KINDS: [&str; 4] = ["openai", "openai-compatible", "anthropic", "google"];
const MODELS: [&str; 2] = ["gpt-5.5", "gpt-4.1"];

fn request(messages: Conversation, system: &str) -> ModelRequest {
    ModelRequest {
        system: system.into(),
        cache_key: "ses_1".into(),
        ..ModelRequest::new(messages)
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => any::<String>(),
        1 => Just(String::new()),
        // Large enough for a piece of its own.
        1 => Just("a \"quoted\" line\n".repeat(LEAST_PIECE / 10)),
    ]
}

fn state() -> impl Strategy<Value = Option<ProviderState>> {
    let items = select(vec![r#"[{"id":"rs_1"}, {"id":"m"}]"#, "[]", "{}"]);
    let owner = select(vec!["openai-responses/1", "anthropic/1"]);
    let state = (owner, select(MODELS.to_vec()), items);
    proptest::option::of(state.prop_map(|(owner, model, items)| ProviderState {
        owner: owner.to_owned(),
        model: model.to_owned(),
        items: Arc::from(RawValue::from_string(items.to_owned()).unwrap()),
    }))
}

fn message() -> impl Strategy<Value = Message> {
    let calls = prop::collection::vec(any::<String>(), 0..3);
    prop_oneof![
        text().prop_map(|text| Message::System { text: text.into() }),
        text().prop_map(|text| Message::User { text: text.into() }),
        (text(), calls, state()).prop_map(|(text, calls, state)| Message::Assistant {
            text: text.into(),
            calls: calls
                .into_iter()
                .map(|id| CallRequest {
                    input: json!({ "id": id }),
                    name: "look".to_owned(),
                    id,
                })
                .collect(),
            state,
        }),
        (any::<String>(), text(), any::<bool>()).prop_map(|(call_id, content, is_error)| {
            Message::Tool {
                call_id,
                name: "look".to_owned(),
                content,
                is_error,
            }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_body_of_remembered_parts_is_that_of_the_whole(
        steps in prop::collection::vec(
            (prop::collection::vec(message(), 0..4), any::<bool>(), select(KINDS.to_vec()), select(MODELS.to_vec())),
            0..12,
        ),
        system in prop_oneof![Just(String::new()), any::<String>()],
    ) {
        let mut asked = request(Conversation::default(), &system);
        let mut flat = Vec::new();
        for (messages, compact, kind, model) in steps {
            flat.extend(messages.iter().cloned());
            if compact {
                asked.messages.compact();
            }
            asked.messages.append(messages);
            encode(kind, model, &asked).unwrap();
        }
        let whole = request(flat.into(), &system);
        for (kind, model) in KINDS.iter().flat_map(|kind| MODELS.map(|model| (kind, model))) {
            let expected = encode(kind, model, &whole).unwrap();
            // Twice: the second time with what the first has left behind.
            for _ in 0..2 {
                prop_assert!(encode(kind, model, &asked).unwrap() == expected, "{kind} {model}");
            }
        }
    }
}

#[test]
fn large_fragments_are_shared_and_small_ones_joined() {
    let said = |length: usize| Message::User {
        text: "a".repeat(length).into(),
    };
    let mut conversation = Conversation::default();
    for length in [LEAST_PIECE, 10, 20, LEAST_PIECE, 30] {
        conversation.append(vec![said(length)]);
    }
    let body = || {
        let mut body = ListBody::open(&json!({"model": "m"}), "input").unwrap();
        let write = |message: &Message, items: &mut Items<'_>| items.push(message);
        body.conversation(&conversation, "test", write).unwrap();
        body.open.push(b' ');
        body.pieces
    };
    let (first, second) = (body(), body());
    // The head, a large one, two small ones, a large one; the rest is still open.
    assert_eq!(first.len(), 4);
    for (at, shared) in [(0, false), (1, true), (2, false), (3, true)] {
        let same = first[at].as_ptr() == second[at].as_ptr();
        assert_eq!(same, shared, "piece {at}");
        assert_eq!(first[at], second[at]);
    }
}

#[test]
fn a_list_may_stay_empty() {
    let mut body = ListBody::open(&json!({"model": "m"}), "input").unwrap();
    let write = |_: &Message, _: &mut Items<'_>| Ok(());
    let silent = Message::User { text: "".into() };
    let mut conversation = Conversation::from(vec![silent.clone()]);
    conversation.append(vec![silent]);
    body.conversation(&conversation, "test", write).unwrap();
    let body = body.close(&json!({"stream": true})).unwrap();
    assert_eq!(body.to_vec(), br#"{"model":"m","input":[],"stream":true}"#);
}
