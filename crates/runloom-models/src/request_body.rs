//! Writes a request body: a JSON object in which the conversation is a list of items.
//!
//! The JSON of a block of the conversation is cached by the block, so a long history is serialised once. The body is
//! assembled from such fragments without copying them. This module writes the items of a message independently of the
//! other messages; `alternating_roles` is for APIs that group messages by role.

use bytes::{Buf, Bytes};
use runloom_ports::conversation::Conversation;
use runloom_ports::model::{Message, ModelError};
use serde::Serialize;

use crate::conversation::{BODY_OVERHEAD, estimate_size, not_json};
use crate::payload::Payload;

/// Fragments shorter than this, in bytes, are copied: a few large pieces are sent faster than many small ones.
const MIN_PIECE_BYTES: usize = 16 * 1024;

/// A JSON object that is being written: some members, then the list, then the other members.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pieces: Vec<Bytes>,
    /// The JSON after the pieces.
    open: Vec<u8>,
    next_item: Position,
}

/// Whether an item needs a comma before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    First,
    Following,
}

/// Writes items of a JSON list.
#[derive(Debug)]
pub(crate) struct Items<'a> {
    json: &'a mut Vec<u8>,
    next: Position,
}

impl<'a> Items<'a> {
    /// Appends items to `json`, of which the next one has this position.
    pub(crate) fn new(next: Position, json: &'a mut Vec<u8>) -> Self {
        Self { json, next }
    }

    /// Appends an item.
    pub(crate) fn push(&mut self, item: &(impl Serialize + ?Sized)) -> Result<(), ModelError> {
        if self.next == Position::Following {
            self.json.push(b',');
        }
        self.next = Position::Following;
        serde_json::to_writer(&mut *self.json, item).map_err(not_json)
    }
}

impl RequestBody {
    /// Begins with the members of `head` and a list of this name.
    pub(crate) fn open(head: &impl Serialize, list: &str) -> Result<Self, ModelError> {
        let mut open = Vec::with_capacity(BODY_OVERHEAD);
        serde_json::to_writer(&mut open, head).map_err(not_json)?;
        open.pop();
        if open != b"{" {
            open.push(b',');
        }
        open.push(b'"');
        open.extend_from_slice(list.as_bytes());
        open.extend_from_slice(b"\":[");
        Ok(Self {
            pieces: Vec::new(),
            open,
            next_item: Position::First,
        })
    }

    /// Appends an item that belongs to no message.
    pub(crate) fn item(&mut self, item: &impl Serialize) -> Result<(), ModelError> {
        let mut items = Items::new(self.next_item, &mut self.open);
        self.next_item = Position::Following;
        items.push(item)
    }

    /// Appends the items of a conversation, as `write` makes them of a message. `format` is the key of the cache: it
    /// names everything else that the items depend on.
    pub(crate) fn conversation(
        &mut self,
        conversation: &Conversation,
        format: &str,
        write: impl Fn(&Message, &mut Items<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let Some((last, earlier)) = conversation.blocks().split_last() else {
            return Ok(());
        };
        for block in earlier {
            let fragment = block.written(format, |messages| {
                let mut json = Vec::with_capacity(estimate_size(messages));
                // Each item has the comma before it, so that fragments can be joined as they are.
                let mut items = Items::new(Position::Following, &mut json);
                for message in messages {
                    write(message, &mut items)?;
                }
                json.shrink_to_fit();
                Ok(Bytes::from(json))
            })?;
            self.fragment(fragment);
        }
        // The last block is not cached: most runs make one call, and then it is never sent again.
        self.open
            .reserve(estimate_size(last.messages()) + BODY_OVERHEAD);
        let mut items = Items::new(self.next_item, &mut self.open);
        for message in last.messages() {
            write(message, &mut items)?;
        }
        self.next_item = items.next;
        Ok(())
    }

    fn fragment(&mut self, mut fragment: Bytes) {
        if fragment.is_empty() {
            return;
        }
        if self.next_item == Position::First {
            fragment.advance(1);
        }
        self.next_item = Position::Following;
        self.piece(fragment);
    }

    /// Appends a part of the list, verbatim.
    pub(crate) fn piece(&mut self, piece: Bytes) {
        if piece.len() < MIN_PIECE_BYTES {
            self.open.extend_from_slice(&piece);
        } else {
            let before = std::mem::take(&mut self.open);
            if !before.is_empty() {
                self.pieces.push(before.into());
            }
            self.pieces.push(piece);
        }
    }

    /// Where more of the list can be written, verbatim.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.open
    }

    /// Adds members, each with the comma before it, to the object that was written last.
    pub(crate) fn amend(&mut self, members: &str) {
        if self.open.pop().is_none()
            && let Some(piece) = self.pieces.last_mut()
        {
            piece.truncate(piece.len().saturating_sub(1));
        }
        self.open.extend_from_slice(members.as_bytes());
        self.open.push(b'}');
    }

    /// Closes the list and appends the members of `tail`, which has at least one.
    pub(crate) fn close(mut self, tail: &impl Serialize) -> Result<Payload, ModelError> {
        self.open.push(b']');
        let brace = self.open.len();
        serde_json::to_writer(&mut self.open, tail).map_err(not_json)?;
        self.open[brace] = b',';
        Ok(self.into_payload())
    }

    /// Closes the list and the object.
    pub(crate) fn close_list(mut self) -> Payload {
        self.open.extend_from_slice(b"]}");
        self.into_payload()
    }

    fn into_payload(mut self) -> Payload {
        self.pieces.push(self.open.into());
        Payload::of(self.pieces)
    }
}

#[cfg(test)]
#[path = "request_body_tests.rs"]
mod tests;
