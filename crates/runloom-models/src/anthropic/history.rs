//! The conversation for the Messages API: it begins and ends with the user, roles alternate, tool results come first in
//! the message after their calls, and no block is empty.

use runloom_ports::model::{CallRequest, Message, ModelError, ModelRequest, ProviderState};
use serde_json::value::RawValue;

use super::wire::{Block, StoredBlock};
use super::{OWNER, files};
use crate::alternating_roles::RoleFormat;
use crate::request_body::Items;

/// The roles of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
}

/// Writes the messages of a request.
#[derive(Debug)]
pub(crate) struct History<'a> {
    /// The vendor's name of the model.
    pub(crate) model: &'a str,
    /// Whether the model is sent its earlier thinking.
    pub(crate) replay_thinking: bool,
}

impl History<'_> {
    /// Cache key: everything that the blocks of a message depend on.
    pub(crate) fn cache_key(&self) -> String {
        format!("{OWNER} {} {}", self.model, self.replay_thinking)
    }

    fn stored<'a>(
        &self,
        state: Option<&'a ProviderState>,
        calls: &[CallRequest],
    ) -> Option<Vec<&'a RawValue>> {
        let state = state.filter(|_| self.replay_thinking)?;
        stored(state, self.model, calls)
    }
}

impl RoleFormat for History<'_> {
    type Role = Role;

    /// The end of the previous request, so that its cache entry is found, and the end of this one, for the next.
    const MARKED_ENTRIES: usize = 2;

    const CACHE_MARK: &'static str = r#","cache_control":{"type":"ephemeral"}"#;

    fn opening(role: Role) -> &'static str {
        match role {
            Role::User => r#"{"role":"user","content":["#,
            Role::Assistant => r#"{"role":"assistant","content":["#,
        }
    }

    fn is_user(role: Role) -> bool {
        role == Role::User
    }

    /// The API rejects text that is empty or white space.
    fn role(&self, message: &Message) -> Option<Role> {
        let (role, is_sent) = match message {
            Message::System { text } | Message::User { text } => (Role::User, !is_blank(text)),
            Message::UserFiles { .. } => (Role::User, true),
            Message::Assistant { text, calls, state } => (
                Role::Assistant,
                !is_blank(text)
                    || !calls.is_empty()
                    || self.stored(state.as_ref(), calls).is_some(),
            ),
            Message::Tool { .. } => (Role::User, true),
        };
        is_sent.then_some(role)
    }

    fn parts(&mut self, message: &Message, blocks: &mut Items<'_>) -> Result<(), ModelError> {
        match message {
            // Only some models accept the role `system` in the middle; all understand the tag.
            Message::System { text } => blocks.push(&Block::Text {
                text: &format!("<system>\n{text}\n</system>"),
            }),
            Message::User { text } => blocks.push(&Block::Text { text }),
            Message::UserFiles { text, files } => {
                if !is_blank(text) {
                    blocks.push(&Block::Text { text })?;
                }
                files
                    .iter()
                    .try_for_each(|file| files::blocks(file, blocks))
            }
            Message::Assistant { text, calls, state } => match self.stored(state.as_ref(), calls) {
                Some(stored) => stored.into_iter().try_for_each(|block| blocks.push(block)),
                None => plain(text, calls, blocks),
            },
            Message::Tool {
                call_id,
                content,
                is_error,
                ..
            } => blocks.push(&Block::ToolResult {
                tool_use_id: call_id,
                // The API rejects an error without content.
                content: if *is_error && is_blank(content) {
                    "failed"
                } else {
                    content
                },
                is_error: *is_error,
            }),
        }
    }
}

/// Whether the last turn of the model has tool calls whose thinking cannot be replayed, so that the API rejects further
/// thinking. Later messages of the user do not change that, nor does an empty turn, which is not sent.
pub(crate) fn continues_without_thinking(request: &ModelRequest, model: &str) -> bool {
    let of_this_model = |state: &Option<ProviderState>, calls: &[CallRequest]| {
        let state = state.as_ref();
        state
            .and_then(|state| stored(state, model, calls))
            .is_some()
    };
    let mut turns = request.messages.iter().rev();
    turns
        .find_map(|message| match message {
            Message::Assistant { text, calls, state } => {
                let replayed = of_this_model(state, calls);
                let sent = replayed || !calls.is_empty() || !is_blank(text);
                sent.then_some(!calls.is_empty() && !replayed)
            }
            _ => None,
        })
        .unwrap_or(false)
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn plain(text: &str, calls: &[CallRequest], blocks: &mut Items<'_>) -> Result<(), ModelError> {
    if !is_blank(text) {
        blocks.push(&Block::Text { text })?;
    }
    calls.iter().try_for_each(|call| {
        blocks.push(&Block::ToolUse {
            id: &call.id,
            name: &call.name,
            input: &call.input,
        })
    })
}

/// The blocks of a turn as the model sent them, if they are from this model and have the same calls.
fn stored<'a>(
    state: &'a ProviderState,
    model: &str,
    calls: &[CallRequest],
) -> Option<Vec<&'a RawValue>> {
    if state.owner != OWNER || state.model != model {
        return None;
    }
    let items: Vec<&'a RawValue> = serde_json::from_str(state.items.get()).ok()?;
    let mut ids = Vec::new();
    for item in &items {
        let block: StoredBlock<'_> = serde_json::from_str(item.get()).ok()?;
        if block.kind == "tool_use" {
            ids.push(block.id?);
        }
    }
    let same = ids
        .iter()
        .map(|id| id.as_ref())
        .eq(calls.iter().map(|call| call.id.as_str()));
    (same && !items.is_empty()).then_some(items)
}
