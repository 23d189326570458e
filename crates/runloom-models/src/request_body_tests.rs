//! A body that is assembled from cached parts equals the body of the whole conversation.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;
use crate::arbitrary::{MODELS, message, request};
use crate::test_support::encode;

const APIS: [&str; 4] = ["openai_responses", "openai_chat", "anthropic", "gemini"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cached_parts_do_not_change_the_body(
        steps in prop::collection::vec(
            (prop::collection::vec(message(), 0..4), any::<bool>(), select(APIS.to_vec()), select(MODELS.to_vec())),
            0..12,
        ),
        system in prop_oneof![Just(String::new()), any::<String>()],
    ) {
        let mut asked = request(Conversation::default(), &system);
        let mut flat = Vec::new();
        for (messages, compact, api, model) in steps {
            flat.extend(messages.iter().cloned());
            if compact {
                asked.messages.compact();
            }
            asked.messages.append(messages);
            encode(api, model, &asked).unwrap().unwrap();
        }
        let whole = request(flat.into(), &system);
        for (api, model) in APIS.iter().flat_map(|api| MODELS.map(|model| (api, model))) {
            let expected = encode(api, model, &whole).unwrap().unwrap();
            // Twice: the second time with what the first has cached.
            for _ in 0..2 {
                prop_assert!(encode(api, model, &asked).unwrap().unwrap() == expected, "{api} {model}");
            }
        }
    }
}

#[test]
fn shares_large_fragments_and_joins_small_ones() {
    let message = |length: usize| Message::User {
        text: "a".repeat(length).into(),
    };
    let mut conversation = Conversation::default();
    for length in [MIN_PIECE_BYTES, 10, 20, MIN_PIECE_BYTES, 30] {
        conversation.append(vec![message(length)]);
    }
    let body = || {
        let mut body = RequestBody::open(&json!({"model": "m"}), "input").unwrap();
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
fn a_list_may_be_empty() {
    let mut body = RequestBody::open(&json!({"model": "m"}), "input").unwrap();
    let write = |_: &Message, _: &mut Items<'_>| Ok(());
    let empty = Message::User { text: "".into() };
    let mut conversation = Conversation::from(vec![empty.clone()]);
    conversation.append(vec![empty]);
    body.conversation(&conversation, "test", write).unwrap();
    let body = body.close(&json!({"stream": true})).unwrap();
    assert_eq!(body.to_vec(), br#"{"model":"m","input":[],"stream":true}"#);
}
