//! The demo model's directives, one by one.

use std::time::Duration;

use runloom_ports::file::{File, FileContent};
use runloom_ports::model::{CallRequest, Done, Message, ModelEvent, ToolDeclaration};
use runloom_protocol::outcome::{EnforcementMechanism, ErrorClass, Tokens};
use runloom_protocol::spec::OutputSchema;
use serde_json::{Value, json};

use super::*;

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn assistant(text: &str, calls: Vec<CallRequest>) -> Message {
    Message::Assistant {
        text: text.into(),
        calls,
        state: None,
    }
}

fn tool(call: &CallRequest, content: &str, is_error: bool) -> Message {
    Message::Tool {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: content.into(),
        is_error,
    }
}

#[derive(Debug, Default)]
struct Heard {
    text: Vec<String>,
    thinking: Vec<String>,
    calls: Vec<CallRequest>,
    usage: Tokens,
    done: Option<Done>,
    error: Option<ModelError>,
}

impl Heard {
    fn said(&self) -> String {
        self.text.concat()
    }

    fn finish(&self) -> &str {
        &self.done.as_ref().unwrap().finish_reason
    }
}

async fn hear(request: ModelRequest) -> Heard {
    hear_from(&ModelSettings::default(), request).await
}

async fn hear_from(model: &ModelSettings, request: ModelRequest) -> Heard {
    let mut heard = Heard::default();
    let model = open(&ProviderSettings::default(), model).unwrap();
    let mut stream = match model.call(request).await {
        Ok(stream) => stream,
        Err(error) => {
            heard.error = Some(error);
            return heard;
        }
    };
    while let Some(event) = stream.next().await {
        assert!(
            heard.done.is_none() && heard.error.is_none(),
            "nothing follows the end"
        );
        match event {
            Ok(ModelEvent::Text(piece)) => heard.text.push(piece),
            Ok(ModelEvent::Thinking(piece)) => heard.thinking.push(piece),
            Ok(ModelEvent::Call(call)) => heard.calls.push(call),
            Ok(ModelEvent::Usage(tokens)) => heard.usage = tokens,
            Ok(ModelEvent::Done(done)) => heard.done = Some(done),
            Err(error) => heard.error = Some(error),
        }
    }
    heard
}

async fn hear_prompt(prompt: &str) -> Heard {
    hear(ModelRequest::new(vec![user(prompt)])).await
}

/// Runs the loop with tools that always return `ok`; the turns.
async fn run(prompt: &str, turns: usize) -> Vec<Heard> {
    let mut request = ModelRequest::new(vec![user(prompt)]);
    let mut all = Vec::new();
    for _ in 0..turns {
        let heard = hear(request.clone()).await;
        let mut messages = vec![assistant(&heard.said(), heard.calls.clone())];
        messages.extend(heard.calls.iter().map(|call| tool(call, "ok", false)));
        request.messages.append(messages);
        let over = heard.calls.is_empty();
        all.push(heard);
        if over {
            break;
        }
    }
    all
}

#[tokio::test]
async fn quotes_a_prompt_without_directives() {
    let heard = hear_prompt("Hello there").await;
    assert!(heard.said().starts_with("You said: \"Hello there\". "));
    assert!(heard.text.len() > 5, "one word per delta");
    assert_eq!(heard.text[0], "You ");
    assert_eq!(heard.finish(), "end_turn");

    let mut with_tools = ModelRequest::new(vec![user("Hi")]);
    with_tools.tools = Arc::new(vec![ToolDeclaration {
        name: "weather".into(),
        description: String::new(),
        parameters: json!({}),
        output_schema: None,
    }]);
    assert!(hear(with_tools).await.said().contains("call weather"));
}

#[tokio::test]
async fn makes_the_calls_of_a_batch_in_one_turn() {
    let prompt = "text Looking it up.\ncall weather {\"city\":\"Oslo\"}\ncall time";
    let turns = run(prompt, 9).await;
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].said(), "Looking it up.");
    assert_eq!(turns[0].finish(), "tool_use");
    let calls: Vec<(&str, &str, &Value)> = turns[0]
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), &call.input))
        .collect();
    let (oslo, nothing) = (json!({"city": "Oslo"}), json!({}));
    assert_eq!(
        calls,
        [
            ("demo_1_1", "weather", &oslo),
            ("demo_1_2", "time", &nothing)
        ]
    );
    assert_eq!(turns[1].said(), "weather returned: ok\ntime returned: ok");
    assert_eq!(turns[1].finish(), "end_turn");
}

#[tokio::test]
async fn reports_a_failed_tool() {
    let call = CallRequest {
        id: "demo_1_1".into(),
        name: "weather".into(),
        input: json!({}),
    };
    let heard = hear(ModelRequest::new(vec![
        user("call weather"),
        assistant("", vec![call.clone()]),
        tool(&call, "no network", true),
    ]))
    .await;
    assert_eq!(heard.said(), "weather failed: no network");
}

#[tokio::test]
async fn then_and_repeat_make_more_turns() {
    let names = |turns: &[Heard]| -> Vec<String> {
        let calls = turns.iter().flat_map(|turn| turn.calls.iter());
        calls.map(|call| call.name.clone()).collect()
    };
    let turns = run("call a\nthen\ncall b\nsay bye", 9).await;
    assert_eq!(names(&turns), ["a", "b"]);
    assert_eq!(turns[2].said(), "bye");

    let turns = run("call a\nthen\ncall b\nrepeat 3", 9).await;
    assert_eq!(names(&turns), ["a", "b", "b", "b"]);

    let turns = run("call a\nrepeat", 9).await;
    assert_eq!(names(&turns).len(), 9, "without end");
}

#[tokio::test]
async fn only_disabled_tools_stop_a_repeating_script() {
    let mut asked = ModelRequest::new(vec![user("call a\nrepeat")]);
    let call = hear(asked.clone()).await.calls.remove(0);
    asked.messages.append(vec![
        assistant("", vec![call.clone()]),
        tool(&call, "already made", true),
        user("Change your strategy or finish."),
    ]);
    let heard = hear(asked.clone()).await;
    assert_eq!(heard.calls.len(), 1);
    assert_eq!(heard.calls[0].id, "demo_2_1");
    asked.tools_enabled = false;
    let heard = hear(asked).await;
    assert!(heard.calls.is_empty());
    assert_eq!(heard.said(), "a failed: already made");
}

#[tokio::test]
async fn obeys_the_last_prompt_with_unique_ids() {
    let heard = hear(ModelRequest::new(vec![
        user("call a"),
        assistant("a returned: ok", vec![]),
        user("call b"),
    ]))
    .await;
    assert_eq!(heard.calls[0].name, "b");
    assert_eq!(heard.calls[0].id, "demo_2_1");
    let heard = hear(ModelRequest::new(vec![
        user("call a"),
        assistant("fine", vec![]),
        user("thanks"),
    ]))
    .await;
    assert!(heard.said().starts_with("You said: \"thanks\""));
}

#[tokio::test]
async fn explains_bad_arguments() {
    let heard = hear_prompt("call weather {\"city\":").await;
    assert!(heard.calls.is_empty());
    assert!(heard.said().contains("`weather`"), "{}", heard.said());
}

#[tokio::test]
async fn tokens_sets_the_number_of_deltas() {
    let heard = hear_prompt("tokens 25").await;
    assert_eq!(heard.text.len(), 25);
    assert_eq!(heard.said().split(' ').count(), 25);
}

#[tokio::test(start_paused = true)]
async fn slow_waits_before_each_delta() {
    let before = tokio::time::Instant::now();
    hear_prompt("slow 2s\ntokens 5").await;
    assert_eq!(before.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn hangs_after_the_calls() {
    let silence = tokio::time::timeout(Duration::from_secs(86_400), hear_prompt("hang")).await;
    assert!(silence.is_err());
    let heard = hear_prompt("call a\nhang").await;
    assert_eq!(heard.calls.len(), 1);
}

#[tokio::test]
async fn classifies_failures_like_http_errors() {
    let table = [
        ("400", ErrorClass::InvalidRequest, Some(400), false),
        ("401", ErrorClass::Auth, Some(401), false),
        ("403", ErrorClass::Auth, Some(403), false),
        ("429", ErrorClass::RateLimit, Some(429), true),
        ("500", ErrorClass::Server, Some(500), true),
        ("503", ErrorClass::Overloaded, Some(503), true),
        ("529", ErrorClass::Overloaded, Some(529), true),
        ("context", ErrorClass::ContextWindow, Some(400), false),
        ("timeout", ErrorClass::Timeout, None, true),
    ];
    for (code, class, status, retryable) in table {
        let heard = hear_prompt(&format!("fail {code}")).await;
        let error = heard.error.unwrap();
        assert_eq!(
            (error.class, error.api_status, error.retryable),
            (class, status, retryable),
            "{code}"
        );
        assert_eq!(error.retry_after.is_some(), code == "429");
        assert!(heard.text.is_empty());
    }
}

#[tokio::test]
async fn reset_breaks_after_two_deltas() {
    for prompt in [
        "fail reset\ntokens 9",
        "fail reset",
        "fail reset\ncall a",
        "fail reset\nsay x",
    ] {
        let heard = hear_prompt(prompt).await;
        assert_eq!(heard.text.len(), 2, "{prompt}");
        assert_eq!(heard.error.unwrap().class, ErrorClass::Server);
        assert!(heard.done.is_none());
    }
}

#[tokio::test]
async fn the_spare_model_ignores_failures() {
    let spare = ModelSettings {
        vendor_model_id: SPARE.to_owned(),
        ..ModelSettings::default()
    };
    for prompt in ["fail 503\nsay hello", "fail timeout 3\nsay hello"] {
        let user = Message::User {
            text: prompt.into(),
        };
        let heard = hear_from(&spare, ModelRequest::new(vec![user])).await;
        assert_eq!(heard.said(), "hello");
    }
}

#[tokio::test]
async fn counts_failures_per_run() {
    for run in ["counted-1", "counted-2"] {
        let mut asked = ModelRequest::new(vec![user("fail 429 2\nsay fine")]);
        asked.cache_key = run.into();
        assert!(hear(asked.clone()).await.error.is_some());
        assert!(hear(asked.clone()).await.error.is_some());
        assert_eq!(hear(asked.clone()).await.said(), "fine");
        assert_eq!(hear(asked).await.said(), "fine");
    }
}

#[tokio::test]
async fn endings_have_their_finish_reason() {
    let heard = hear_prompt("truncate\nsay one two three four").await;
    assert_eq!(
        (heard.said().as_str(), heard.finish()),
        ("one two ", "max_tokens")
    );
    assert_eq!(hear_prompt("refuse").await.finish(), "refusal");
    let heard = hear_prompt("malformed").await;
    assert_eq!(heard.finish(), "malformed_function_call");
    assert!(heard.calls.is_empty());
}

#[tokio::test]
async fn respects_the_output_limit() {
    let mut asked = ModelRequest::new(vec![user("tokens 1000")]);
    asked.max_output_tokens = Some(10);
    let heard = hear(asked).await;
    assert_eq!(heard.finish(), "max_tokens");
    assert!(heard.usage.output_tokens <= 10 && !heard.text.is_empty());
}

#[tokio::test]
async fn thinks_only_on_request() {
    for level in [None, Some(0)] {
        let mut asked = ModelRequest::new(vec![user("think deeply\nsay x")]);
        asked.reasoning_level = level;
        assert!(hear(asked).await.thinking.is_empty());
    }
    let mut asked = ModelRequest::new(vec![user("think about it deeply\nsay xx")]);
    asked.reasoning_level = Some(50);
    let heard = hear(asked).await;
    assert_eq!(heard.thinking, ["about ", "it ", "deeply"]);
    assert_eq!(heard.usage.reasoning_tokens, 4);
    assert_eq!(heard.usage.output_tokens, 5);
    let mut asked = ModelRequest::new(vec![user("call weather")]);
    asked.reasoning_level = Some(50);
    assert!(hear(asked).await.thinking.concat().contains("weather"));
}

#[tokio::test]
async fn history_lists_earlier_messages() {
    let call = CallRequest {
        id: "1".into(),
        name: "t".into(),
        input: json!({}),
    };
    let heard = hear(ModelRequest::new(vec![
        Message::System { text: "s".into() },
        user("one two"),
        assistant("", vec![call.clone()]),
        tool(&call, "r", false),
        assistant("three", vec![]),
        user("history"),
    ]))
    .await;
    assert_eq!(
        heard.said(),
        r#"[{"role":"user","content":"one two"},{"role":"tool","name":"t","content":"r"},{"role":"assistant","content":"three"}]"#
    );
    assert_eq!(hear_prompt("history").await.said(), "[]");
}

#[tokio::test]
async fn output_schemas_get_a_valid_instance() {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "degrees": {"type": "integer", "minimum": 3}},
        "required": ["city", "degrees"],
    });
    for (prompt, wanted) in [
        ("weather?", r#"{"city":"demo","degrees":3}"#),
        ("say plain words", r#"{"city":"demo","degrees":3}"#),
        ("say {\"city\": 1}", r#"{"city": 1}"#),
    ] {
        let mut asked = ModelRequest::new(vec![user(prompt)]);
        asked.output_schema = Some(Arc::new(OutputSchema {
            name: "weather".into(),
            schema: schema.as_object().unwrap().clone(),
            enforcement: Default::default(),
        }));
        let heard = hear(asked).await;
        assert_eq!(heard.said(), wanted);
        let structured = heard.done.unwrap().structured;
        assert!(structured.schema_requested && structured.schema_enforced);
        assert_eq!(
            structured.enforcement_mechanism,
            EnforcementMechanism::NativeSchema
        );
    }
}

#[tokio::test]
async fn usage_counts_four_characters_per_token() {
    let mut asked = ModelRequest::new(vec![user("say 12345678")]);
    asked.system = "abcde".into();
    let heard = hear(asked).await;
    let wanted = Tokens {
        input_tokens: 5,
        cached_tokens: 0,
        reasoning_tokens: 0,
        output_tokens: 2,
    };
    assert_eq!(heard.usage, wanted);
}

#[tokio::test]
async fn responses_are_deterministic() {
    let prompt = "say  a\tb   c\u{a0}d é ";
    let (first, second) = (hear_prompt(prompt).await, hear_prompt(prompt).await);
    assert_eq!(first.text, second.text);
    assert_eq!(first.said(), "a\tb   c\u{a0}d é");
}

#[test]
fn rejects_unknown_keys() {
    let settings = ProviderSettings {
        extra: serde_json::Map::from_iter([("speed".to_owned(), json!(1))]),
        ..Default::default()
    };
    assert!(open(&settings, &ModelSettings::default()).is_err());
}

fn file(name: &str, mime_type: &str, content: FileContent) -> File {
    File {
        name: name.into(),
        mime_type: mime_type.into(),
        size: Some(3),
        content,
    }
}

#[tokio::test]
async fn describes_files() {
    let picture = file("a.png", "image/png", FileContent::Base64("QUJD".into()));
    let notes = file("n.txt", "text/plain", FileContent::Text("abc".into()));
    let given = |text: &str| Message::UserFiles {
        text: text.into(),
        files: vec![picture.clone(), notes.clone()].into(),
    };
    let told = "a.png (image/png, 3 bytes)\nn.txt (text/plain, 3 bytes): abc";
    let heard = hear(ModelRequest::new(vec![given("files")])).await;
    assert_eq!(heard.said(), told);
    let heard = hear(ModelRequest::new(vec![given("What is this?")])).await;
    assert!(
        heard
            .said()
            .contains("You gave me a.png (image/png, 3 bytes), n.txt")
    );
    let heard = hear(ModelRequest::new(vec![user("files")])).await;
    assert_eq!(heard.said(), "I was given no files.");
    let call = CallRequest {
        id: "demo_1_1".into(),
        name: "draw".into(),
        input: json!({}),
    };
    let turn = vec![
        user("call draw"),
        assistant("", vec![call.clone()]),
        tool(&call, "done", false),
        given("Files that the tool draw returned:"),
    ];
    let heard = hear(ModelRequest::new(turn)).await;
    assert_eq!(heard.said(), format!("draw returned: done\n{told}"));
}
