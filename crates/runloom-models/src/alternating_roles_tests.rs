//! The order of roles, cache marks, and what is cached.

use proptest::prelude::*;
use runloom_ports::conversation::Block;
use runloom_ports::model::{CallRequest, ModelRequest};
use serde_json::{Value, json};

use super::*;
use crate::anthropic::request::{self as anthropic, Endpoint};
use crate::arbitrary::{MODELS, message, request};
use crate::gemini::request as gemini;
use crate::payload::Payload;
use crate::settings::ModelSettings;

const MODEL: &str = MODELS[0];
const FORMATS: [&str; 2] = ["anthropic/1 gpt-5.5 true", "gemini/1 gpt-5.5"];

fn encode(format: &str, request: &ModelRequest) -> Payload {
    if format.starts_with("anthropic") {
        let endpoint = Endpoint::Anthropic { model: MODEL };
        return anthropic::encode(endpoint, request).unwrap().body;
    }
    let settings = ModelSettings {
        vendor_model_id: MODEL.to_owned(),
        ..Default::default()
    };
    gemini::encode(&settings, request).unwrap().body
}

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn assistant(text: &str) -> Message {
    Message::Assistant {
        text: text.into(),
        calls: Vec::new(),
        state: None,
    }
}

/// The messages of a turn with a tool call.
fn tool_turn(id: usize) -> Vec<Message> {
    let id = id.to_string();
    let call = CallRequest {
        id: id.clone(),
        name: "look".to_owned(),
        input: json!({}),
    };
    vec![
        Message::Assistant {
            text: "".into(),
            calls: vec![call],
            state: None,
        },
        Message::Tool {
            call_id: id,
            name: "look".to_owned(),
            content: "seen".to_owned(),
            is_error: false,
        },
    ]
}

fn entries<'a>(body: &'a Value, list: &str) -> &'a [Value] {
    body[list].as_array().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn begins_and_ends_with_the_user_and_marks_the_last_two_entries(
        messages in prop::collection::vec(message(), 0..8),
    ) {
        let request = request(messages.into(), "");
        for (format, list, parts) in [(FORMATS[0], "messages", "content"), (FORMATS[1], "contents", "parts")] {
            let body: Value = serde_json::from_slice(&encode(format, &request).to_vec()).unwrap();
            let entries = entries(&body, list);
            prop_assert_eq!(&entries[0]["role"], "user");
            prop_assert_eq!(&entries[entries.len() - 1]["role"], "user");
            for entry in entries {
                prop_assert!(!entry[parts].as_array().unwrap().is_empty());
            }
        }
        let body: Value = serde_json::from_slice(&encode(FORMATS[0], &request).to_vec()).unwrap();
        let entries = entries(&body, "messages");
        for (index, entry) in entries.iter().enumerate() {
            prop_assert_eq!(&entry["role"], ["user", "assistant"][index % 2]);
            let (last, others) = entry["content"].as_array().unwrap().split_last().unwrap();
            prop_assert!(others.iter().all(|block| block.get("cache_control").is_none()));
            // A filler at the beginning is not the end of an earlier request.
            let is_filler = index == 0 && entries.len() > 1 && last["text"] == FILLER;
            let is_marked = index % 2 == 0 && index + 3 >= entries.len() && !is_filler;
            prop_assert_eq!(last.get("cache_control").is_some(), is_marked, "entry {}", index);
        }
    }
}

#[test]
fn sessions_and_tool_loops_encode_only_new_messages() {
    for format in FORMATS {
        let is_cached = |block: &Block| block.written(format, |_| Err(())).is_ok();
        let mut session = Conversation::default();
        for message in 0..20 {
            let mut run = session.clone();
            run.append(vec![user("And?")]);
            for turn in 0..message {
                encode(format, &request(run.clone(), ""));
                run.compact();
                run.append(tool_turn(turn));
                // The last block but one was the last one until now.
                let (earlier, _) = run.blocks().split_at(run.blocks().len() - 2);
                assert!(earlier.iter().all(|block| is_cached(block)), "{format}");
            }
            encode(format, &request(run, ""));
            session.compact();
            session.append(vec![user("And?"), assistant("So.")]);
            let cached = session.blocks().iter().filter(|block| is_cached(block));
            assert_eq!(cached.count(), session.blocks().len() - 1, "{format}");
        }
    }
}

#[test]
fn a_mark_inside_a_cached_block_copies_no_large_piece() {
    let large = "a".repeat(100_000);
    let mut conversation = Conversation::from(vec![user("1"), assistant(&large), user(&large)]);
    conversation.append(vec![assistant("2"), assistant("3")]);
    conversation.append(vec![user("4")]);
    let request = request(conversation, "");
    let (first, second) = (encode(FORMATS[0], &request), encode(FORMATS[0], &request));
    let large = |body: &Payload| {
        let pieces = body.pieces().iter().filter(|piece| piece.len() > 100_000);
        pieces.map(|piece| piece.as_ptr()).collect::<Vec<_>>()
    };
    assert_eq!(large(&first).len(), 1);
    assert_eq!(large(&first), large(&second));
    let body: Value = serde_json::from_slice(&second.to_vec()).unwrap();
    let marked = entries(&body, "messages")
        .iter()
        .map(|entry| entry["content"][0].get("cache_control").is_some());
    assert_eq!(
        marked.collect::<Vec<_>>(),
        [false, false, true, false, true]
    );
}
