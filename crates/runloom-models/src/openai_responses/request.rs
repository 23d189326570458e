//! From a neutral request to the vendor's JSON.

use runloom_ports::model::{Message, ModelError, ModelRequest, ProviderState};
use runloom_protocol::outcome::effort_of_level;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::parts::{self, Part};
use super::{OWNER, Schema};
use crate::list_body::{Items, ListBody};
use crate::payload::Payload;
use crate::settings::ModelSettings;
use crate::tools;

/// The API refuses a smaller budget.
const MIN_OUTPUT_TOKENS: u64 = 16;

/// The API refuses longer keys, in bytes.
const MAX_CACHE_KEY: usize = 64;

/// The model that requests are made for.
#[derive(Debug)]
pub(crate) struct Target {
    /// What stands in `model`.
    pub(crate) model: String,
    /// What provider state is tagged with: the vendor's name, which survives a renamed deployment.
    pub(super) state_model: String,
    /// What the items of messages depend on: state is replayed to its own model only.
    format: String,
    pub(super) reasons: bool,
    pub(crate) max_output_tokens: Option<u64>,
}

impl Target {
    /// `name` is what the API calls the model; on Azure that is the deployment.
    pub(crate) fn new(model: &ModelSettings, name: &str) -> Self {
        Self {
            model: name.to_owned(),
            state_model: model.vendor_model_id.clone(),
            format: format!("{OWNER} {}", model.vendor_model_id),
            reasons: model
                .reasoning
                .unwrap_or_else(|| family(&model.vendor_model_id).reasons()),
            max_output_tokens: model.max_output_tokens,
        }
    }
}

/// What stands before the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
}

/// What stands behind it.
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
    /// An item of an earlier turn, as the vendor sent it.
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

/// The body of one call.
pub(crate) fn encode(
    target: &Target,
    request: &ModelRequest,
    schema: Schema,
) -> Result<Payload, ModelError> {
    let format = request
        .output_schema
        .as_deref()
        .filter(|_| schema == Schema::AsAsked)
        .map(|schema| Text {
            format: Format {
                kind: "json_schema",
                name: &schema.name,
                schema: &schema.schema,
                strict: true,
            },
        });
    let tools: Vec<Tool<'_>> = request.tools.iter().map(tool).collect();
    let budget = request.max_output_tokens.or(target.max_output_tokens);
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
        max_output_tokens: budget.map(|tokens| tokens.max(MIN_OUTPUT_TOKENS)),
        prompt_cache_key: cache_key(&request.cache_key),
        include: target.reasons.then_some(["reasoning.encrypted_content"]),
        store: false,
        stream: true,
    };
    let mut body = ListBody::open(&head, "input")?;
    body.conversation(&request.messages, &target.format, |message, input| {
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
        // Strict tools forbid most schemas that people write; the server checks arguments itself.
        strict: false,
    }
}

/// The items of a message.
fn push(target: &Target, message: &Message, input: &mut Items<'_>) -> Result<(), ModelError> {
    match message {
        Message::System { text } => say(input, "system", text),
        Message::User { text } => say(input, "user", text),
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
                say(input, "assistant", text)?;
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

fn say(input: &mut Items<'_>, role: &'static str, content: &str) -> Result<(), ModelError> {
    input.push(&Item::Message { role, content })
}

/// The items of an earlier turn, when they are ours and of this model.
fn replay<'a>(target: &Target, state: &'a ProviderState) -> Option<Vec<&'a RawValue>> {
    if state.owner != OWNER || state.model != target.state_model {
        return None;
    }
    serde_json::from_str(state.items.get()).ok()
}

fn cache_key(key: &str) -> &str {
    // The end of an id is what differs.
    let from = (key.len().saturating_sub(MAX_CACHE_KEY)..key.len())
        .find(|at| key.is_char_boundary(*at))
        .unwrap_or(0);
    &key[from..]
}

/// `None` when the family has no word for the level and its own default is nearest.
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
        // The pro models know no low effort.
        ("low", Family::Pro) => None,
        (effort, _) => Some(effort),
    };
    Some(Reasoning {
        effort,
        summary: Some("auto"),
    })
}

/// Families differ in how little they can reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `o1`, `o3`, `o4-mini`, …: low at least.
    OSeries,
    /// `gpt-5` itself, mini and nano: minimal.
    Gpt5,
    /// The codex models of that generation: low at least.
    Gpt5Codex,
    /// From `gpt-5.1` on: none.
    Later,
    /// The pro models always reason hard.
    Pro,
    /// Does not reason, as far as the name tells.
    Plain,
}

impl Family {
    fn reasons(self) -> bool {
        self != Self::Plain
    }

    /// The word for level 0.
    fn least_effort(self) -> Option<&'static str> {
        match self {
            Self::Later => Some("none"),
            Self::Gpt5 => Some("minimal"),
            // A model of an unknown name that is configured as reasoning: every one of them takes low.
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
