//! The conversation for Gemini: it begins and ends with the user, and the responses to the calls of a turn are together
//! in the content right after it.

use runloom_ports::file::{File, FileContent, FileSupport};
use runloom_ports::model::{CallRequest, Message, ModelError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OWNER;
use super::wire::{Call, Data, Part, Response, StoredPart};
use crate::alternating_roles::RoleFormat;
use crate::files::named;
use crate::request_body::Items;

/// The documented signature for calls that have none, because another model made them.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Media types that Gemini accepts. Models differ in which URLs they fetch, so the server fetches all of them.
pub(crate) const FILES: FileSupport = FileSupport {
    inline: &[
        "image/jpeg",
        "image/png",
        "image/webp",
        "application/pdf",
        "audio/mp4",
        "audio/mpeg",
        "audio/wav",
        "audio/webm",
    ],
    urls: &[],
};

/// The roles of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Model,
    /// The user's role in an entry of its own: the API matches the responses against the calls.
    Responses,
}

/// Writes the contents of a request.
#[derive(Debug)]
pub(crate) struct History<'a> {
    model: &'a str,
    wants_signatures: bool,
    /// Ids that the model itself gave to the calls of its last turn. Others are not sent.
    own_ids: Vec<String>,
}

impl<'a> History<'a> {
    /// For requests to this model.
    pub(crate) fn new(model: &'a str, wants_signatures: bool) -> Self {
        Self {
            model,
            wants_signatures,
            own_ids: Vec::new(),
        }
    }

    /// Cache key: everything that the parts of a message depend on.
    pub(crate) fn cache_key(&self) -> String {
        format!("{OWNER} {}", self.model)
    }

    fn plain(
        &self,
        text: &str,
        calls: &[CallRequest],
        parts: &mut Items<'_>,
    ) -> Result<(), ModelError> {
        if !is_blank(text) {
            parts.push(&Part::Text { text: text.into() })?;
        }
        for (index, call) in calls.iter().enumerate() {
            parts.push(&Part::Call {
                function_call: Call {
                    name: &call.name,
                    args: &call.input,
                },
                // The first call of a turn has the signature for all.
                thought_signature: (self.wants_signatures && index == 0).then_some(NO_SIGNATURE),
            })?;
        }
        Ok(())
    }
}

impl RoleFormat for History<'_> {
    type Role = Role;

    fn opening(role: Role) -> &'static str {
        match role {
            Role::User | Role::Responses => r#"{"role":"user","parts":["#,
            Role::Model => r#"{"role":"model","parts":["#,
        }
    }

    fn is_user(role: Role) -> bool {
        role != Role::Model
    }

    fn role(&self, message: &Message) -> Option<Role> {
        let (role, is_sent) = match message {
            Message::System { text } | Message::User { text } => (Role::User, !is_blank(text)),
            Message::UserFiles { .. } => (Role::User, true),
            Message::Assistant { text, calls, .. } => (
                Role::Model,
                !is_blank(text) || !calls.is_empty() || stored(message, self.model).is_some(),
            ),
            Message::Tool { .. } => (Role::Responses, true),
        };
        is_sent.then_some(role)
    }

    fn resume<'a>(&mut self, mut earlier: impl Iterator<Item = &'a Message>) {
        let last = earlier.find(|message| self.role(message) == Some(Role::Model));
        let stored = last.and_then(|message| stored(message, self.model));
        self.own_ids = stored.map_or_else(Vec::new, |(_, ids)| ids);
    }

    fn parts(&mut self, message: &Message, parts: &mut Items<'_>) -> Result<(), ModelError> {
        match message {
            Message::System { text } => parts.push(&Part::Text {
                text: format!("<system>\n{text}\n</system>").into(),
            }),
            Message::User { text } => parts.push(&Part::Text {
                text: (&**text).into(),
            }),
            Message::UserFiles { text, files } => {
                if !is_blank(text) {
                    let text = (&**text).into();
                    parts.push(&Part::Text { text })?;
                }
                files.iter().try_for_each(|file| push_file(file, parts))
            }
            Message::Assistant { text, calls, .. } => {
                let Some((stored, ids)) = stored(message, self.model) else {
                    self.own_ids.clear();
                    return self.plain(text, calls, parts);
                };
                self.own_ids = ids;
                stored.into_iter().try_for_each(|part| parts.push(part))
            }
            Message::Tool {
                call_id,
                name,
                content,
                is_error,
            } => parts.push(&Part::Response {
                function_response: Response {
                    id: self.own_ids.contains(call_id).then_some(call_id),
                    name,
                    response: response(content, *is_error),
                },
            }),
        }
    }
}

fn push_file(file: &File, parts: &mut Items<'_>) -> Result<(), ModelError> {
    match &file.content {
        FileContent::Base64(data) if FILES.takes(&file.mime_type) => {
            let text = named(file).into();
            parts.push(&Part::Text { text })?;
            parts.push(&Part::Data {
                inline_data: Data {
                    mime_type: &file.mime_type,
                    data,
                },
            })
        }
        _ => parts.push(&Part::Text {
            text: file.in_words().into(),
        }),
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The API accepts only objects: other results are wrapped under the documented key.
fn response(content: &str, is_error: bool) -> Value {
    if is_error {
        return json!({ "error": content });
    }
    match serde_json::from_str(content) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({ "output": content }),
    }
}

/// The parts of a turn as the model sent them, and the ids of its calls, if they are from this model and have the same
/// calls.
fn stored<'a>(message: &'a Message, model: &str) -> Option<(Vec<&'a RawValue>, Vec<String>)> {
    let Message::Assistant {
        calls,
        state: Some(state),
        ..
    } = message
    else {
        return None;
    };
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
    (same && !items.is_empty()).then_some((items, ids))
}
