//! The conversation as the Messages API wants it: it starts and ends with the user, roles take turns, the results of a
//! turn's tools come first in the message after it, and no block is empty.

use runloom_ports::model::{CallRequest, Message, ModelError, ModelRequest, ProviderState};
use serde_json::value::RawValue;

use super::wire::{Block, StoredBlock};
use super::{OWNER, files};
use crate::list_body::Items;
use crate::turns::Voices;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
}

/// The conversation of a request.
#[derive(Debug)]
pub(crate) struct History<'a> {
    /// Vendor's name of the model.
    pub(crate) model: &'a str,
    /// The model is told what it thought.
    pub(crate) replay_thinking: bool,
}

impl History<'_> {
    /// What the blocks of a message depend on.
    pub(crate) fn format(&self) -> String {
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

impl Voices for History<'_> {
    type Side = Role;

    /// What the last call ended with, so that it is found again, and what this call ends with, for the next.
    const MARKED: usize = 2;

    const MARK: &'static str = r#","cache_control":{"type":"ephemeral"}"#;

    fn opening(side: Role) -> &'static str {
        match side {
            Role::User => r#"{"role":"user","content":["#,
            Role::Assistant => r#"{"role":"assistant","content":["#,
        }
    }

    fn is_user(side: Role) -> bool {
        side == Role::User
    }

    /// The API refuses empty text, and text of white space only.
    fn side(&self, message: &Message) -> Option<Role> {
        let (side, speaks) = match message {
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
        speaks.then_some(side)
    }

    fn parts(&mut self, message: &Message, blocks: &mut Items<'_>) -> Result<(), ModelError> {
        match message {
            // An instruction in the middle: only some models know the role, all understand the tag.
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
                // A failure must say something, a success need not.
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

/// The model's last turn called tools, and its thinking cannot be replayed: the API refuses to think on. What the user said behind the
/// results does not change that, nor does an answer that was empty, which is not sent.
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

/// The blocks of a turn as the model sent them, when they are this model's and still tell of the same calls.
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
