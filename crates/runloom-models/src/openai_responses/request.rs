//! Encoder of the Responses API.

use runloom_ports::model::{Message, ModelError, ModelRequest, ProviderState};
use runloom_protocol::outcome::effort_of_level;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::OWNER;
use super::parts::{self, Part};
use crate::payload::Payload;
use crate::request_body::{Items, RequestBody};
use crate::settings::ModelSettings;
use crate::tools;

/// Smallest `max_output_tokens` that the API accepts.
const MIN_OUTPUT_TOKENS: u64 = 16;

/// Longest `prompt_cache_key` that the API accepts, in bytes.
const MAX_CACHE_KEY: usize = 64;

/// The model that requests are encoded for.
#[derive(Debug)]
pub(super) struct Target {
    /// The member `model`.
    pub(super) model: String,
    /// Owner of provider state: the vendor's name of the model, which does not change with the deployment.
    pub(super) state_model: String,
    /// Cache key: everything that the items of a message depend on.
    cache_key: String,
    /// Whether the model reasons.
    pub(super) reasons: bool,
    pub(super) max_output_tokens: Option<u64>,
}

impl Target {
    /// `name` is the member `model`; on Azure that is the deployment.
    pub(super) fn new(model: &ModelSettings, name: &str) -> Self {
        Self {
            model: name.to_owned(),
            state_model: model.vendor_model_id.clone(),
            cache_key: format!("{OWNER} {}", model.vendor_model_id),
            reasons: model
                .reasoning
                .unwrap_or_else(|| family(&model.vendor_model_id).reasons()),
            max_output_tokens: model.max_output_tokens,
        }
    }
}

/// The members before the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
}

/// The members after the conversation.
#[derive(Serialize)]
struct Tail<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt_cache_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    store: bool,
    stream: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    /// An item of an earlier turn, verbatim.
    Replayed(&'a RawValue),
    Message {
        role: &'static str,
        content: &'a str,
    },
    Parts {
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    Call {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: String,
    },
    Output {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: &'a str,
        output: &'a str,
    },
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: std::borrow::Cow<'a, str>,
    parameters: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    schema: &'a Map<String, Value>,
    strict: bool,
}

/// Encodes a request.
pub(super) fn encode(target: &Target, request: &ModelRequest) -> Result<Payload, ModelError> {
    let format = request.output_schema.as_deref().map(|schema| Text {
        format: Format {
            kind: "json_schema",
            name: &schema.name,
            schema: &schema.schema,
            strict: true,
        },
    });
    let tools: Vec<Tool<'_>> = request.tools.iter().map(tool).collect();
    let max_output_tokens = request.max_output_tokens.or(target.max_output_tokens);
    let head = Head {
        model: &target.model,
        instructions: &request.system,
    };
    let tail = Tail {
        tool_choice: (!tools.is_empty() && !request.tools_enabled).then_some("none"),
        tools,
        reasoning: request
            .reasoning_level
            .filter(|_| target.reasons)
            .and_then(|level| reasoning(&target.state_model, level)),
        text: format,
        max_output_tokens: max_output_tokens.map(|tokens| tokens.max(MIN_OUTPUT_TOKENS)),
        prompt_cache_key: cache_key(&request.cache_key),
        include: target.reasons.then_some(["reasoning.encrypted_content"]),
        store: false,
        stream: true,
    };
    let mut body = RequestBody::open(&head, "input")?;
    body.conversation(&request.messages, &target.cache_key, |message, input| {
        push(target, message, input)
    })?;
    body.close(&tail)
}

fn tool(tool: &runloom_ports::model::ToolDeclaration) -> Tool<'_> {
    Tool {
        kind: "function",
        name: &tool.name,
        description: tools::description(tool),
        parameters: &tool.parameters,
        // Strict mode rejects most schemas in use; the server validates arguments itself.
        strict: false,
    }
}

/// Writes the items of a message.
fn push(target: &Target, message: &Message, input: &mut Items<'_>) -> Result<(), ModelError> {
    match message {
        Message::System { text } => push_text(input, "system", text),
        Message::User { text } => push_text(input, "user", text),
        Message::UserFiles { text, files } => input.push(&Item::Parts {
            role: "user",
            content: parts::of(text, files),
        }),
        Message::Assistant { text, calls, state } => {
            if let Some(replayed) = state.as_ref().and_then(|state| replay(target, state)) {
                let mut replayed = replayed.into_iter();
                return replayed.try_for_each(|item| input.push(&Item::Replayed(item)));
            }
            if !text.is_empty() {
                push_text(input, "assistant", text)?;
            }
            calls.iter().try_for_each(|call| {
                input.push(&Item::Call {
                    kind: "function_call",
                    call_id: &call.id,
                    name: &call.name,
                    arguments: call.input.to_string(),
                })
            })
        }
        Message::Tool {
            call_id, content, ..
        } => input.push(&Item::Output {
            kind: "function_call_output",
            call_id,
            output: content,
        }),
    }
}

fn push_text(input: &mut Items<'_>, role: &'static str, content: &str) -> Result<(), ModelError> {
    input.push(&Item::Message { role, content })
}

/// The items of an earlier turn, if they are from this model.
fn replay<'a>(target: &Target, state: &'a ProviderState) -> Option<Vec<&'a RawValue>> {
    if state.owner != OWNER || state.model != target.state_model {
        return None;
    }
    serde_json::from_str(state.items.get()).ok()
}

fn cache_key(key: &str) -> &str {
    // Ids differ at their end.
    let from = (key.len().saturating_sub(MAX_CACHE_KEY)..key.len())
        .find(|at| key.is_char_boundary(*at))
        .unwrap_or(0);
    &key[from..]
}

/// `None` if the family has no effort for the level, so that its default is nearest.
fn reasoning(model: &str, level: u8) -> Option<Reasoning> {
    let family = family(model);
    if level == 0 {
        let effort = family.least_effort()?;
        return Some(Reasoning {
            effort: Some(effort),
            summary: None,
        });
    }
    let effort = match (effort_of_level(level), family) {
        // The pro models have no low effort.
        ("low", Family::Pro) => None,
        (effort, _) => Some(effort),
    };
    Some(Reasoning {
        effort,
        summary: Some("auto"),
    })
}

/// Model families, which differ in their least effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `o1`, `o3`, `o4-mini`, …: at least `low`.
    OSeries,
    /// `gpt-5`, mini and nano: at least `minimal`.
    Gpt5,
    /// The codex models of that generation: at least `low`.
    Gpt5Codex,
    /// From `gpt-5.1` on: `none` is possible.
    Later,
    /// The pro models: no low effort.
    Pro,
    /// Does not reason, by its name.
    Plain,
}

impl Family {
    fn reasons(self) -> bool {
        self != Self::Plain
    }

    /// The effort for level 0.
    fn least_effort(self) -> Option<&'static str> {
        match self {
            Self::Later => Some("none"),
            Self::Gpt5 => Some("minimal"),
            // `Plain` here is an unknown model that is configured as reasoning; all of them accept `low`.
            Self::OSeries | Self::Gpt5Codex | Self::Plain => Some("low"),
            Self::Pro => None,
        }
    }
}

fn family(model: &str) -> Family {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.to_ascii_lowercase();
    if name
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return if name.contains("-pro") {
            Family::Pro
        } else {
            Family::OSeries
        };
    }
    let Some(rest) = name.strip_prefix("gpt-") else {
        return Family::Plain;
    };
    let version = rest.split('-').next().unwrap_or(rest);
    let (major, minor) = version.split_once('.').unwrap_or((version, ""));
    match major.parse::<u32>() {
        Ok(major) if major >= 5 => {}
        _ => return Family::Plain,
    }
    if rest.contains("-chat") {
        return Family::Plain;
    }
    if rest.contains("-pro") {
        return Family::Pro;
    }
    match (major, minor, rest.contains("codex")) {
        ("5", "", true) => Family::Gpt5Codex,
        ("5", "", false) => Family::Gpt5,
        _ => Family::Later,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
