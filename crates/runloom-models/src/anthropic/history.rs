//! The conversation as the Messages API wants it: it starts and ends with the user, roles take turns, the results of a
//! turn's tools come first in the message after it, and no block is empty.

use runloom_core::ports::model::{CallRequest, Message, ModelRequest, ProviderState};
use serde_json::value::RawValue;

use super::OWNER;
use super::wire::{Block, CacheControl, OurBlock, Role, StoredBlock, Turn};
use crate::conversation::split_instructions;

/// Said in the user's place where the API wants the user to speak and nobody did.
const FILLER: &str = "Continue.";

/// The encoded conversation.
#[derive(Debug)]
pub(crate) struct History<'a> {
    /// Instructions that stood before anything was said; they belong to the system prompt.
    pub(crate) leading_system: Vec<&'a str>,
    /// The turns, with cache breakpoints.
    pub(crate) turns: Vec<Turn<'a>>,
}

/// Encodes the conversation of a request to `model`.
pub(crate) fn encode<'a>(
    request: &'a ModelRequest,
    model: &str,
    replay_thinking: bool,
) -> History<'a> {
    let (leading_system, rest) = split_instructions(&request.messages);
    let mut turns = Vec::new();
    for message in rest {
        match message {
            Message::System { text } => push(&mut turns, Role::User, instruction(text)),
            Message::User { text } => push(&mut turns, Role::User, text_block(text)),
            Message::Assistant { text, calls, state } => {
                let stored = state
                    .as_ref()
                    .filter(|_| replay_thinking)
                    .and_then(|state| stored(state, model, calls));
                let blocks = stored.unwrap_or_else(|| plain(text, calls));
                push(&mut turns, Role::Assistant, blocks);
            }
            Message::Tool {
                call_id,
                content,
                is_error,
                ..
            } => push(
                &mut turns,
                Role::User,
                vec![tool_result(call_id, content, *is_error)],
            ),
        }
    }
    if turns
        .first()
        .is_none_or(|turn: &Turn<'_>| turn.role != Role::User)
    {
        turns.insert(0, filler());
    }
    if turns.last().is_some_and(|turn| turn.role != Role::User) {
        turns.push(filler());
    }
    mark_breakpoints(&mut turns);
    History {
        leading_system,
        turns,
    }
}

/// The conversation goes on with the results of a turn whose thinking cannot be replayed.
pub(crate) fn continues_without_thinking(request: &ModelRequest, model: &str) -> bool {
    let last = request
        .messages
        .iter()
        .rev()
        .find(|message| !matches!(message, Message::System { .. }));
    if !matches!(last, Some(Message::Tool { .. })) {
        return false;
    }
    let asked = request
        .messages
        .iter()
        .rev()
        .find_map(|message| match message {
            Message::Assistant { calls, state, .. } => Some((calls, state)),
            _ => None,
        });
    asked.is_some_and(|(calls, state)| {
        state
            .as_ref()
            .and_then(|state| stored(state, model, calls))
            .is_none()
    })
}

/// Adds blocks to the last turn when the role is the same: the API joins them anyway, and refuses some that it does not.
fn push<'a>(turns: &mut Vec<Turn<'a>>, role: Role, blocks: Vec<Block<'a>>) {
    if blocks.is_empty() {
        return;
    }
    match turns.last_mut() {
        Some(turn) if turn.role == role => turn.content.extend(blocks),
        _ => turns.push(Turn {
            role,
            content: blocks,
        }),
    }
}

fn filler<'a>() -> Turn<'a> {
    Turn {
        role: Role::User,
        content: text_block(FILLER),
    }
}

/// The API refuses empty text, and text of white space only.
fn text_block(text: &str) -> Vec<Block<'_>> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    vec![Block::Ours(OurBlock::Text {
        text: text.into(),
        cache_control: None,
    })]
}

/// An instruction in the middle: only some models know the role, all understand the tag.
fn instruction<'a>(text: &str) -> Vec<Block<'a>> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    vec![Block::Ours(OurBlock::Text {
        text: format!("<system>\n{text}\n</system>").into(),
        cache_control: None,
    })]
}

fn tool_result<'a>(call_id: &'a str, content: &'a str, is_error: bool) -> Block<'a> {
    // A failure must say something, a success need not.
    let content = if is_error && content.trim().is_empty() {
        "failed"
    } else {
        content
    };
    Block::Ours(OurBlock::ToolResult {
        tool_use_id: call_id,
        content,
        is_error,
        cache_control: None,
    })
}

fn plain<'a>(text: &'a str, calls: &'a [CallRequest]) -> Vec<Block<'a>> {
    let mut blocks = text_block(text);
    blocks.extend(calls.iter().map(|call| {
        Block::Ours(OurBlock::ToolUse {
            id: &call.id,
            name: &call.name,
            input: &call.input,
        })
    }));
    blocks
}

/// The blocks of a turn as the model sent them, when they are this model's and still tell of the same calls.
fn stored<'a>(
    state: &'a ProviderState,
    model: &str,
    calls: &[CallRequest],
) -> Option<Vec<Block<'a>>> {
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
    (same && !items.is_empty()).then(|| items.into_iter().map(Block::Raw).collect())
}

/// Two breakpoints: what the last call ended with, so that it is found again, and what this call ends with, for the next.
fn mark_breakpoints(turns: &mut [Turn<'_>]) {
    for turn in turns
        .iter_mut()
        .rev()
        .filter(|turn| turn.role == Role::User)
        .take(2)
    {
        if let Some(Block::Ours(
            OurBlock::Text { cache_control, .. } | OurBlock::ToolResult { cache_control, .. },
        )) = turn.content.last_mut()
        {
            *cache_control = Some(CacheControl::Ephemeral);
        }
    }
}
