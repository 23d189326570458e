//! The conversation as Gemini wants it: it starts and ends with the user, and the responses to a turn's calls stand
//! together in the content right after it.

use runloom_core::ports::model::{CallRequest, Message, ModelRequest, ProviderState};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OWNER;
use super::wire::{Call, Content, Part, Response, Role, StoredPart};
use crate::conversation::split_instructions;

/// Said in the user's place where the API wants the user to speak and nobody did.
const FILLER: &str = "Continue.";

/// What the API documents for calls that never had a signature, because another model made them.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The encoded conversation.
#[derive(Debug)]
pub(crate) struct History<'a> {
    /// Instructions that stood before anything was said; they belong to the system instruction.
    pub(crate) leading_system: Vec<&'a str>,
    /// The contents.
    pub(crate) contents: Vec<Content<'a>>,
}

/// Encodes the conversation of a request to `model`.
pub(crate) fn encode<'a>(
    request: &'a ModelRequest,
    model: &str,
    wants_signatures: bool,
) -> History<'a> {
    let (leading_system, rest) = split_instructions(&request.messages);
    let mut writer = Writer {
        contents: Vec::new(),
        own_ids: Vec::new(),
        wants_signatures,
    };
    for message in rest {
        writer.message(message, model);
    }
    let mut contents = writer.contents;
    if contents
        .first()
        .is_none_or(|content| content.role != Role::User)
    {
        contents.insert(0, filler());
    }
    if contents
        .last()
        .is_some_and(|content| content.role != Role::User)
    {
        contents.push(filler());
    }
    History {
        leading_system,
        contents,
    }
}

struct Writer<'a> {
    contents: Vec<Content<'a>>,
    /// Ids that the model itself gave the calls of its last turn: only those mean something to it.
    own_ids: Vec<String>,
    wants_signatures: bool,
}

impl<'a> Writer<'a> {
    fn message(&mut self, message: &'a Message, model: &str) {
        match message {
            Message::System { text } if text.trim().is_empty() => {}
            Message::System { text } => {
                self.say(Role::User, format!("<system>\n{text}\n</system>").into())
            }
            Message::User { text } => self.say(Role::User, (&**text).into()),
            Message::Assistant { text, calls, state } => {
                let stored = state.as_ref().and_then(|state| stored(state, model, calls));
                let (parts, own_ids) =
                    stored.unwrap_or_else(|| (self.plain(text, calls), Vec::new()));
                self.own_ids = own_ids;
                if !parts.is_empty() {
                    self.push(Role::Model, parts);
                }
            }
            Message::Tool {
                call_id,
                name,
                content,
                is_error,
            } => {
                let part = Part::Response {
                    function_response: Response {
                        id: self
                            .own_ids
                            .iter()
                            .any(|id| id == call_id)
                            .then_some(call_id),
                        name,
                        response: response(content, *is_error),
                    },
                };
                self.respond(part);
            }
        }
    }

    fn say(&mut self, role: Role, text: std::borrow::Cow<'a, str>) {
        if !text.trim().is_empty() {
            self.push(role, vec![Part::Text { text }]);
        }
    }

    /// Speech joins speech of the same role; responses stand alone, because the API counts them against the calls.
    fn push(&mut self, role: Role, parts: Vec<Part<'a>>) {
        match self.contents.last_mut() {
            Some(last) if last.role == role && !has_response(last) => last.parts.extend(parts),
            _ => self.contents.push(Content { role, parts }),
        }
    }

    fn respond(&mut self, part: Part<'a>) {
        match self.contents.last_mut() {
            Some(last) if has_response(last) => last.parts.push(part),
            _ => self.contents.push(Content {
                role: Role::User,
                parts: vec![part],
            }),
        }
    }

    fn plain(&self, text: &'a str, calls: &'a [CallRequest]) -> Vec<Part<'a>> {
        let text = Some(text)
            .filter(|text| !text.trim().is_empty())
            .map(|text| Part::Text { text: text.into() });
        let calls = calls.iter().enumerate().map(|(index, call)| Part::Call {
            function_call: Call {
                name: &call.name,
                args: &call.input,
            },
            // The first call of a turn carries the signature for all.
            thought_signature: (self.wants_signatures && index == 0).then_some(NO_SIGNATURE),
        });
        text.into_iter().chain(calls).collect()
    }
}

fn has_response(content: &Content<'_>) -> bool {
    matches!(content.parts.first(), Some(Part::Response { .. }))
}

fn filler<'a>() -> Content<'a> {
    Content {
        role: Role::User,
        parts: vec![Part::Text {
            text: FILLER.into(),
        }],
    }
}

/// The API takes objects only: a result that is one goes as it is, anything else under the documented key.
fn response(content: &str, is_error: bool) -> Value {
    if is_error {
        return json!({ "error": content });
    }
    match serde_json::from_str(content) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({ "output": content }),
    }
}

/// The parts of a turn as the model sent them, and the ids of its calls, when they are this model's and still tell of
/// the same calls.
fn stored<'a>(
    state: &'a ProviderState,
    model: &str,
    calls: &[CallRequest],
) -> Option<(Vec<Part<'a>>, Vec<String>)> {
    if state.owner != OWNER || state.model != model {
        return None;
    }
    let items: Vec<&'a RawValue> = serde_json::from_str(state.items.get()).ok()?;
    let (mut names, mut ids) = (Vec::new(), Vec::new());
    for item in &items {
        let part: StoredPart<'_> = serde_json::from_str(item.get()).ok()?;
        if let Some(call) = part.function_call {
            names.push(call.name);
            ids.extend(call.id.map(std::borrow::Cow::into_owned));
        }
    }
    let same = names
        .iter()
        .map(|name| name.as_ref())
        .eq(calls.iter().map(|call| call.name.as_str()));
    (same && !items.is_empty()).then(|| (items.into_iter().map(Part::Raw).collect(), ids))
}
