//! Conformance cases of successful responses. The fixtures differ by vendor, the events do not.

use std::sync::Arc;

use futures_util::StreamExt;
use runloom_ports::model::{
    CallRequest, Done, Message, Model, ModelError, ModelEvent, ModelRequest, StructuredSupport,
    ToolDeclaration,
};
use runloom_protocol::outcome::{EnforcementMechanism, Tokens};
use runloom_protocol::spec::OutputSchema;
use serde_json::{Value, json};

use crate::providers::Row;
use crate::server::{Reply, Server, Then};

/// The fixtures of this file, each `<case>.sse`.
pub const FIXTURES: &[&str] = &[
    "text",
    "thinking",
    "tool_call",
    "several_calls",
    "text_and_tools",
    "refusal",
    "truncation",
    "structured",
    "malformed_call",
    "megabyte",
];

pub async fn text(row: &Row) {
    let heard = hear(row, "text", ask("Hello")).await;
    assert_eq!(heard.said(), "Hello, world!");
    assert!(heard.text.len() >= 2, "deltas are handed on as they come");
    assert_eq!(heard.finish(), "end_turn");
    let wanted = Tokens {
        input_tokens: 20,
        cached_tokens: 8,
        reasoning_tokens: 0,
        output_tokens: 5,
    };
    assert_eq!(heard.usage, wanted);
    assert!(!heard.done().structured.schema_requested);
}

pub async fn thinking(row: &Row) {
    let mut asked = ask("What is 6 × 7?");
    asked.reasoning_level = Some(50);
    let heard = hear(row, "thinking", asked).await;
    assert_eq!(heard.thinking.concat(), "Six times seven.");
    assert_eq!(heard.said(), "42");

    let heard = hear(row, "thinking", ask("What is 6 × 7?")).await;
    assert!(heard.thinking.is_empty(), "thinking was not requested");
    assert_eq!(heard.said(), "42");
}

pub async fn tool_call_in_pieces(row: &Row) {
    let heard = hear(row, "tool_call", ask("Weather in Oslo?")).await;
    assert_eq!(heard.called(), [("get_weather", json!({"city": "Oslo"}))]);
    assert_eq!(heard.finish(), "tool_use");
    assert!(!heard.calls[0].id.is_empty());
}

pub async fn several_calls(row: &Row) {
    let heard = hear(row, "several_calls", ask("Weather and time in Oslo?")).await;
    assert_eq!(
        heard.called(),
        [
            ("get_weather", json!({"city": "Oslo"})),
            ("get_time", json!({}))
        ]
    );
    assert_ne!(heard.calls[0].id, heard.calls[1].id);
    assert_eq!(heard.finish(), "tool_use");
}

pub async fn text_and_tools(row: &Row) {
    let heard = hear(row, "text_and_tools", ask("Weather in Oslo?")).await;
    assert_eq!(heard.said(), "Let me look.");
    assert_eq!(heard.called().len(), 1);
    assert_eq!(heard.finish(), "tool_use");
}

pub async fn multi_turn_with_state(row: &Row) {
    let server = Server::start([stream(row, "tool_call"), stream(row, "text")]).await;
    let model = row.open(&server);
    let mut asked = ask("Weather in Oslo?");
    let heard = listen(model.as_ref(), asked.clone()).await;
    answer_calls(&mut asked, &heard);
    let state = heard.done().state.clone();
    let heard = listen(model.as_ref(), asked).await;
    assert_eq!(heard.said(), "Hello, world!");

    let second = server.asked().pop().unwrap();
    let body = String::from_utf8(second.body.to_vec()).unwrap();
    let items = state.map(|state| {
        assert_eq!(state.model, row.model);
        let items: Value = serde_json::from_str(state.items.get()).unwrap();
        items.as_array().cloned().unwrap_or_default()
    });
    for item in items.unwrap_or_default() {
        assert!(
            body.contains(&item.to_string()),
            "{item} is replayed verbatim in {body}"
        );
    }
    assert!(body.contains("It is sunny."));
}

pub async fn refusal(row: &Row) {
    let heard = hear(row, "refusal", ask("Something bad")).await;
    assert!(
        ["refusal", "content_filter"].contains(&heard.finish()),
        "{}",
        heard.finish()
    );
}

pub async fn truncation(row: &Row) {
    let heard = hear(row, "truncation", ask("Tell me a story")).await;
    assert_eq!(heard.said(), "Once upon a");
    assert_eq!(heard.finish(), "max_tokens");
}

pub async fn structured_output(row: &Row) {
    let mut asked = ask("The answer?");
    asked.output_schema = Some(Arc::new(schema()));
    let server = Server::start([stream(row, "structured")]).await;
    let model = row.open(&server);
    asked.force_output = model.capabilities().structured == StructuredSupport::SyntheticTool;
    let heard = listen(model.as_ref(), asked).await;
    let said: Value = serde_json::from_str(&heard.said()).unwrap();
    assert_eq!(said, json!({"answer": 42}));
    assert!(heard.calls.is_empty(), "a hidden tool is not shown");
    let structured = heard.done().structured;
    let (enforced, mechanism) = match model.capabilities().structured {
        StructuredSupport::Native => (true, EnforcementMechanism::NativeSchema),
        StructuredSupport::SyntheticTool => (true, EnforcementMechanism::SyntheticTool),
        StructuredSupport::None => (false, EnforcementMechanism::None),
    };
    assert!(structured.schema_requested);
    assert_eq!(structured.schema_enforced, enforced);
    assert_eq!(structured.enforcement_mechanism, mechanism);
}

/// Most adapters end the turn with the reason; an error with the same reason is accepted too.
pub async fn malformed_call(row: &Row) {
    let heard = hear(row, "malformed_call", ask("Weather in Oslo?")).await;
    let reason = match (&heard.done, &heard.error) {
        (Some(done), None) => done.finish_reason.clone(),
        (None, Some(error)) => error.finish_reason.clone().unwrap(),
        both => panic!("{both:?}"),
    };
    assert_eq!(reason, "malformed_function_call");
    assert!(heard.calls.is_empty());
    assert!(heard.usage.output_tokens > 0, "the usage is reported");
}

pub async fn megabyte_frame(row: &Row) {
    let heard = hear(row, "megabyte", ask("Much")).await;
    assert_eq!(heard.said().len(), 1024 * 1024);
    assert_eq!(heard.finish(), "end_turn");
}

/// The events do not depend on the chunks of the connection.
pub async fn any_chunks(row: &Row) {
    for name in ["text", "several_calls"] {
        let whole = hear(row, name, ask("Hello")).await;
        for size in [1, 7, 64] {
            let chunks = row.fixture(name).chunks(size).map(<[u8]>::to_vec).collect();
            let server = Server::start([Reply::Chunks {
                content_type: row.content_type,
                chunks,
                then: Then::Close,
            }])
            .await;
            let heard = listen(row.open(&server).as_ref(), ask("Hello")).await;
            assert_eq!(heard.said(), whole.said());
            assert_eq!(heard.called(), whole.called());
            assert_eq!(heard.usage, whole.usage);
        }
    }
}

/// The events of one call.
#[derive(Debug, Default)]
pub struct Heard {
    pub text: Vec<String>,
    pub thinking: Vec<String>,
    pub calls: Vec<CallRequest>,
    pub usage: Tokens,
    pub done: Option<Done>,
    pub error: Option<ModelError>,
}

impl Heard {
    pub fn said(&self) -> String {
        self.text.concat()
    }

    pub fn called(&self) -> Vec<(&str, Value)> {
        let calls = self.calls.iter();
        calls
            .map(|call| (call.name.as_str(), call.input.clone()))
            .collect()
    }

    pub fn done(&self) -> &Done {
        match &self.done {
            Some(done) => done,
            None => panic!("the call failed: {:?}", self.error),
        }
    }

    pub fn finish(&self) -> &str {
        &self.done().finish_reason
    }

    pub fn error(&self) -> &ModelError {
        self.error.as_ref().expect("the call fails")
    }
}

/// Calls once and reads the response to its end; checks what holds for every call.
pub async fn listen(model: &dyn Model, request: ModelRequest) -> Heard {
    let mut heard = Heard::default();
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
    assert!(
        heard.done.is_some() || heard.error.is_some(),
        "every stream ends with one of them"
    );
    heard
}

/// One call whose response is a fixture.
pub async fn hear(row: &Row, fixture: &str, request: ModelRequest) -> Heard {
    let server = Server::start([stream(row, fixture)]).await;
    listen(row.open(&server).as_ref(), request).await
}

pub fn stream(row: &Row, fixture: &str) -> Reply {
    Reply::Chunks {
        content_type: row.content_type,
        chunks: vec![row.fixture(fixture)],
        then: Then::Close,
    }
}

/// A prompt with two tools.
pub fn ask(prompt: &str) -> ModelRequest {
    ModelRequest {
        system: "You are brief.".into(),
        tools: Arc::new(vec![
            ToolDeclaration {
                name: "get_weather".into(),
                description: "The weather of a city.".into(),
                parameters: json!({
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                }),
                output_schema: Some(json!({
                    "type": "object",
                    "properties": {"degrees": {"type": "number"}},
                })),
            },
            ToolDeclaration {
                name: "get_time".into(),
                description: "The time.".into(),
                parameters: json!({"type": "object", "properties": {}}),
                output_schema: None,
            },
        ]),
        cache_key: "ses_0123456789".into(),
        ..ModelRequest::new(vec![Message::User {
            text: prompt.into(),
        }])
    }
}

pub fn schema() -> OutputSchema {
    let schema = json!({
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": false,
    });
    OutputSchema {
        name: "answer".into(),
        schema: schema.as_object().unwrap().clone(),
        enforcement: Default::default(),
    }
}

/// Adds the model's turn and a result for each of its calls.
pub fn answer_calls(request: &mut ModelRequest, heard: &Heard) {
    let mut messages = vec![Message::Assistant {
        text: heard.said().into(),
        calls: heard.calls.clone(),
        state: heard.done().state.clone(),
    }];
    messages.extend(heard.calls.iter().map(|call| Message::Tool {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: "It is sunny.".into(),
        is_error: false,
    }));
    request.messages.append(messages);
}
