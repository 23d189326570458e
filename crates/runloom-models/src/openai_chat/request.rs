//! From a neutral request to the vendors' JSON.

use std::borrow::Cow;

use runloom_ports::file::FileSupport;
use runloom_ports::model::{CallRequest, Message, ModelError, ModelRequest};
use serde::Serialize;
use serde_json::Value;

use super::parts::{self, Said};
use crate::list_body::ListBody;
use crate::payload::Payload;
use crate::tools;

/// The model that requests are made for.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) model: String,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) dialect: Dialect,
}

/// What differs between the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Has replaced `max_tokens` by `max_completion_tokens`.
    Xai,
    /// Knows `max_tokens`, as nearly every server does.
    Compatible,
}

impl Dialect {
    /// What the items of messages depend on: nothing else.
    fn format(self) -> &'static str {
        match self {
            Self::Xai => "openai-chat/1 xai",
            Self::Compatible => "openai-chat/1",
        }
    }

    /// Which files its servers take.
    pub(crate) fn files(self) -> FileSupport {
        match self {
            Self::Xai => parts::XAI,
            Self::Compatible => parts::COMPATIBLE,
        }
    }
}

/// What stands before the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
}

/// What stands behind it.
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
enum Turn<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Said<'a>,
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

/// The body of one call.
pub(crate) fn encode(target: &Target, request: &ModelRequest) -> Result<Payload, ModelError> {
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
    let budget = request.max_output_tokens.or(target.max_output_tokens);
    let head = Head {
        model: &target.model,
    };
    let tail = Tail {
        tool_choice: (!tools.is_empty() && !request.tools_enabled).then_some("none"),
        tools,
        max_tokens: budget.filter(|_| target.dialect == Dialect::Compatible),
        max_completion_tokens: budget.filter(|_| target.dialect == Dialect::Xai),
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
    };
    let mut body = ListBody::open(&head, "messages")?;
    if !request.system.is_empty() {
        body.item(&Turn::System {
            content: &request.system,
        })?;
    }
    let dialect = target.dialect;
    body.conversation(&request.messages, dialect.format(), |message, turns| {
        turn(message, dialect).map_or(Ok(()), |turn| turns.push(&turn))
    })?;
    body.close(&tail)
}

fn turn(message: &Message, dialect: Dialect) -> Option<Turn<'_>> {
    Some(match message {
        Message::System { text } => Turn::System { content: text },
        Message::User { text } => Turn::User {
            content: Said::Text(text),
        },
        Message::UserFiles { text, files } => Turn::User {
            content: Said::Parts(parts::of(dialect.files(), text, files)),
        },
        // Servers refuse a message with neither.
        Message::Assistant { text, calls, .. } if text.is_empty() && calls.is_empty() => {
            return None;
        }
        Message::Assistant { text, calls, .. } => Turn::Assistant {
            content: (!text.is_empty()).then_some(text),
            tool_calls: calls.iter().map(call).collect(),
        },
        Message::Tool {
            call_id, content, ..
        } => Turn::Tool {
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
