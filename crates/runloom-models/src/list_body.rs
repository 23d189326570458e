//! Bodies in which the conversation is a list of items.
//!
//! What a block of the conversation becomes is remembered by the block, so that a long history is written once. The body is then
//! put together of such fragments without copying them. Here are the APIs whose items are made message by message; those that want
//! turns are in `turns`.

use bytes::{Buf, Bytes};
use runloom_ports::conversation::Conversation;
use runloom_ports::model::{Message, ModelError};
use serde::Serialize;

use crate::conversation::{AROUND, not_json, room_for};
use crate::payload::Payload;

/// Fragments that are shorter are copied, in bytes: a few large pieces are sent faster than many small ones.
const LEAST_PIECE: usize = 16 * 1024;

/// A JSON object that is being written: some members, then the list, then the others.
#[derive(Debug)]
pub(crate) struct ListBody {
    pieces: Vec<Bytes>,
    /// What comes after the pieces.
    open: Vec<u8>,
    has_items: bool,
}

/// Where the items of messages are written.
#[derive(Debug)]
pub(crate) struct Items<'a> {
    json: &'a mut Vec<u8>,
    follows: bool,
}

impl<'a> Items<'a> {
    /// Behind others, or at the beginning.
    pub(crate) fn behind(follows: bool, json: &'a mut Vec<u8>) -> Self {
        Self { json, follows }
    }

    /// One more item.
    pub(crate) fn push(&mut self, item: &(impl Serialize + ?Sized)) -> Result<(), ModelError> {
        if self.follows {
            self.json.push(b',');
        }
        self.follows = true;
        serde_json::to_writer(&mut *self.json, item).map_err(not_json)
    }
}

impl ListBody {
    /// Begins with the members of `head` and a list of this name.
    pub(crate) fn open(head: &impl Serialize, list: &str) -> Result<Self, ModelError> {
        let mut open = Vec::with_capacity(AROUND);
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
            has_items: false,
        })
    }

    /// An item that belongs to no message.
    pub(crate) fn item(&mut self, item: &impl Serialize) -> Result<(), ModelError> {
        let mut items = Items::behind(self.has_items, &mut self.open);
        self.has_items = true;
        items.push(item)
    }

    /// The items of a conversation. `format` names everything that they depend on, the messages aside.
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
                let mut json = Vec::with_capacity(room_for(messages));
                // Each item comes with the comma before it: what is behind each other then needs no more.
                let mut items = Items::behind(true, &mut json);
                for message in messages {
                    write(message, &mut items)?;
                }
                json.shrink_to_fit();
                Ok(Bytes::from(json))
            })?;
            self.fragment(fragment);
        }
        // Most runs ask once: what is new may never be sent again, and is remembered when it is.
        self.open.reserve(room_for(last.messages()) + AROUND);
        let mut items = Items::behind(self.has_items, &mut self.open);
        for message in last.messages() {
            write(message, &mut items)?;
        }
        self.has_items = items.follows;
        Ok(())
    }

    fn fragment(&mut self, mut fragment: Bytes) {
        if fragment.is_empty() {
            return;
        }
        if !self.has_items {
            fragment.advance(1);
        }
        self.has_items = true;
        self.piece(fragment);
    }

    /// A part of the list, as it is.
    pub(crate) fn piece(&mut self, piece: Bytes) {
        if piece.len() < LEAST_PIECE {
            self.open.extend_from_slice(&piece);
        } else {
            let before = std::mem::take(&mut self.open);
            if !before.is_empty() {
                self.pieces.push(before.into());
            }
            self.pieces.push(piece);
        }
    }

    /// Where more of the list can be written, as it is.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.open
    }

    /// More members, each with the comma before it, for the object that was written last.
    pub(crate) fn amend(&mut self, members: &str) {
        if self.open.pop().is_none()
            && let Some(piece) = self.pieces.last_mut()
        {
            piece.truncate(piece.len().saturating_sub(1));
        }
        self.open.extend_from_slice(members.as_bytes());
        self.open.push(b'}');
    }

    /// Ends with the members of `tail`, which has some.
    pub(crate) fn close(mut self, tail: &impl Serialize) -> Result<Payload, ModelError> {
        self.open.push(b']');
        let brace = self.open.len();
        serde_json::to_writer(&mut self.open, tail).map_err(not_json)?;
        self.open[brace] = b',';
        Ok(self.ended())
    }

    /// Ends with the list.
    pub(crate) fn close_list(mut self) -> Payload {
        self.open.extend_from_slice(b"]}");
        self.ended()
    }

    fn ended(mut self) -> Payload {
        self.pieces.push(self.open.into());
        Payload::of(self.pieces)
    }
}

#[cfg(test)]
#[path = "list_body_tests.rs"]
mod tests;
