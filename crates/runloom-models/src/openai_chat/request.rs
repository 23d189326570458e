//! Encoder of chat completions.

use std::borrow::Cow;

use runloom_ports::file::FileSupport;
use runloom_ports::model::{CallRequest, Message, ModelError, ModelRequest};
use serde::Serialize;
use serde_json::Value;

use super::parts::{self, UserContent};
use crate::payload::Payload;
use crate::request_body::RequestBody;
use crate::tools;

/// The model that requests are encoded for.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) model: String,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) dialect: Dialect,
}

/// The differences between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Uses `max_completion_tokens` instead of `max_tokens`.
    Xai,
    /// Uses `max_tokens`, as nearly every server does.
    Compatible,
}

impl Dialect {
    /// Cache key: everything that the items of a message depend on.
    fn cache_key(self) -> &'static str {
        match self {
            Self::Xai => "openai-chat/1 xai",
            Self::Compatible => "openai-chat/1",
        }
    }

    /// The media types that the servers accept.
    pub(super) fn files(self) -> FileSupport {
        match self {
            Self::Xai => parts::XAI,
            Self::Compatible => parts::COMPATIBLE,
        }
    }
}

/// The members before the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
}

/// The members after the conversation.
#[derive(Serialize)]
struct Tail<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: Cow<'a, str>,
    parameters: &'a Value,
}

/// Encodes a request.
pub(super) fn encode(target: &Target, request: &ModelRequest) -> Result<Payload, ModelError> {
    let tools: Vec<Tool<'_>> = request
        .tools
        .iter()
        .map(|tool| Tool {
            kind: "function",
            function: Function {
                name: &tool.name,
                description: tools::description(tool),
                parameters: &tool.parameters,
            },
        })
        .collect();
    let max_tokens = request.max_output_tokens.or(target.max_output_tokens);
    let head = Head {
        model: &target.model,
    };
    let tail = Tail {
        tool_choice: (!tools.is_empty() && !request.tools_enabled).then_some("none"),
        tools,
        max_tokens: max_tokens.filter(|_| target.dialect == Dialect::Compatible),
        max_completion_tokens: max_tokens.filter(|_| target.dialect == Dialect::Xai),
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
    };
    let mut body = RequestBody::open(&head, "messages")?;
    if !request.system.is_empty() {
        body.item(&WireMessage::System {
            content: &request.system,
        })?;
    }
    let dialect = target.dialect;
    body.conversation(&request.messages, dialect.cache_key(), |message, items| {
        wire_message(message, dialect).map_or(Ok(()), |message| items.push(&message))
    })?;
    body.close(&tail)
}

/// `None` if nothing of the message is sent.
fn wire_message(message: &Message, dialect: Dialect) -> Option<WireMessage<'_>> {
    Some(match message {
        Message::System { text } => WireMessage::System { content: text },
        Message::User { text } => WireMessage::User {
            content: UserContent::Text(text),
        },
        Message::UserFiles { text, files } => WireMessage::User {
            content: UserContent::Parts(parts::of(dialect.files(), text, files)),
        },
        // Servers reject a message with neither text nor calls.
        Message::Assistant { text, calls, .. } if text.is_empty() && calls.is_empty() => {
            return None;
        }
        Message::Assistant { text, calls, .. } => WireMessage::Assistant {
            content: (!text.is_empty()).then_some(text),
            tool_calls: calls.iter().map(call).collect(),
        },
        Message::Tool {
            call_id, content, ..
        } => WireMessage::Tool {
            tool_call_id: call_id,
            content,
        },
    })
}

fn call(call: &CallRequest) -> Call<'_> {
    Call {
        id: &call.id,
        kind: "function",
        function: CalledFunction {
            name: &call.name,
            arguments: call.input.to_string(),
        },
    }
}
