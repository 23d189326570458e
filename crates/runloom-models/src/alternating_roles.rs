//! Writes conversations for APIs whose roles alternate: consecutive messages of one role become one entry of the list,
//! and the first and the last entry are the user's.
//!
//! The JSON of a message includes what connects it to the message before: it continues the entry or begins another. The
//! messages before a block of the conversation never change, so this is cached with the block. The messages after it do
//! change, so the end of the list and the cache marks of the last entries are not part of what is cached.

use std::ops::Range;

use bytes::Bytes;
use runloom_ports::conversation::Conversation;
use runloom_ports::model::{Message, ModelError};

use crate::conversation::{BODY_OVERHEAD, estimate_size};
use crate::request_body::{Items, Position, RequestBody};

/// Text of the user entry that is added where the API demands one and the conversation has none.
const FILLER: &str = "Continue.";

/// How an API writes the entries of its roles.
pub(crate) trait RoleFormat {
    /// The roles. Consecutive messages of one role are one entry.
    type Role: Copy + PartialEq;

    /// How many of the last user entries get a cache mark.
    const MARKED_ENTRIES: usize = 0;

    /// The members that mark an entry, added to its last part.
    const CACHE_MARK: &'static str = "";

    /// The JSON of an entry up to its first part.
    fn opening(role: Self::Role) -> &'static str;

    /// Whether the API sees this role as the user.
    fn is_user(role: Self::Role) -> bool;

    /// The role of a message; `None` if nothing of the message is sent.
    fn role(&self, message: &Message) -> Option<Self::Role>;

    /// Prepares for writing messages that follow these, latest first.
    fn resume<'a>(&mut self, _earlier: impl Iterator<Item = &'a Message>) {}

    /// Writes the parts of a message that has a role, at least one.
    fn parts(&mut self, message: &Message, parts: &mut Items<'_>) -> Result<(), ModelError>;
}

/// Writes a conversation without its first `instructions` messages. `cache_key` names everything that the parts depend
/// on besides the messages.
pub(crate) fn write(
    body: &mut RequestBody,
    conversation: &Conversation,
    instructions: usize,
    cache_key: &str,
    format: impl RoleFormat,
) -> Result<(), ModelError> {
    let mut writer = Writer {
        format,
        conversation,
        length: conversation.len(),
        instructions,
    };
    let last = writer.role_before(writer.length);
    let marks = writer.marks(last);
    let until = *marks.first().unwrap_or(&writer.length);
    let from = writer.write_cached(body, cache_key, until)?;
    writer.write_rest(body, from, marks, last)
}

/// Writes one conversation. Positions are numbers of messages.
struct Writer<'a, F> {
    format: F,
    conversation: &'a Conversation,
    length: usize,
    instructions: usize,
}

impl<F: RoleFormat> Writer<'_, F> {
    /// The messages before a position, latest first, without the instructions.
    fn before(&self, position: usize) -> impl Iterator<Item = &Message> + Clone {
        self.conversation
            .iter()
            .rev()
            .skip(self.length - position)
            .take(position.saturating_sub(self.instructions))
    }

    /// The role of the entry that is open at a position.
    fn role_before(&self, position: usize) -> Option<F::Role> {
        self.before(position)
            .find_map(|message| self.format.role(message))
    }

    /// The ends of the entries to mark: the last user entries. A filler at the end counts as one of them.
    fn marks(&self, last: Option<F::Role>) -> Vec<usize> {
        let fillers = usize::from(!last.is_some_and(F::is_user));
        let wanted = F::MARKED_ENTRIES.saturating_sub(fillers);
        let mut next = None;
        let ends = self.before(self.length).zip((1..=self.length).rev());
        let ends = ends.filter_map(|(message, end)| {
            let role = self.format.role(message)?;
            let is_end = next.replace(role) != Some(role);
            (is_end && F::is_user(role)).then_some(end)
        });
        let mut marks: Vec<usize> = ends.take(wanted).collect();
        marks.reverse();
        marks
    }

    /// Writes the cached blocks, at most up to a position, and returns how far that is.
    fn write_cached(
        &mut self,
        body: &mut RequestBody,
        cache_key: &str,
        until: usize,
    ) -> Result<usize, ModelError> {
        let mut from = 0;
        // The last block is not cached: most runs make one call, and then it is never sent again.
        let earlier = self.conversation.blocks().split_last();
        for block in earlier.map_or(&[][..], |(_, earlier)| earlier) {
            let to = from + block.messages().len();
            let mut fragment = block.written(cache_key, |_| self.fragment(from..to))?;
            if to > until {
                let rest = self.fragment(until..to)?;
                fragment.truncate(fragment.len().saturating_sub(rest.len()));
            }
            body.piece(fragment);
            from = to.min(until);
            if from == until {
                break;
            }
        }
        Ok(from)
    }

    /// Writes the messages from a position on, with the marks, and closes the last entry.
    fn write_rest(
        &mut self,
        body: &mut RequestBody,
        mut from: usize,
        marks: Vec<usize>,
        last: Option<F::Role>,
    ) -> Result<(), ModelError> {
        let size = estimate_size(self.conversation.iter().skip(from));
        body.text().reserve(size + BODY_OVERHEAD);
        for mark in marks {
            self.messages(from..mark, body.text())?;
            body.amend(F::CACHE_MARK);
            from = mark;
        }
        self.messages(from..self.length, body.text())?;
        if !last.is_some_and(F::is_user) {
            self.message(&filler(), last, body.text())?;
            if F::MARKED_ENTRIES > 0 {
                body.amend(F::CACHE_MARK);
            }
        }
        body.text().extend_from_slice(b"]}");
        Ok(())
    }

    fn fragment(&mut self, range: Range<usize>) -> Result<Bytes, ModelError> {
        let messages = self.conversation.iter().skip(range.start);
        let mut json = Vec::with_capacity(estimate_size(messages.take(range.len())));
        self.messages(range, &mut json)?;
        json.shrink_to_fit();
        Ok(json.into())
    }

    fn messages(&mut self, range: Range<usize>, json: &mut Vec<u8>) -> Result<(), ModelError> {
        let from = range.start.max(self.instructions);
        let mut open = self.role_before(from);
        let conversation = self.conversation;
        let earlier = conversation.iter().rev().skip(self.length - from);
        self.format.resume(earlier);
        let messages = conversation.iter().skip(from);
        for message in messages.take(range.end.saturating_sub(from)) {
            open = self.message(message, open, json)?;
        }
        Ok(())
    }

    /// Writes one message after an entry of role `open`, and returns the role of the entry that is open then.
    fn message(
        &mut self,
        message: &Message,
        mut open: Option<F::Role>,
        json: &mut Vec<u8>,
    ) -> Result<Option<F::Role>, ModelError> {
        let Some(role) = self.format.role(message) else {
            return Ok(open);
        };
        if open.is_none() && !F::is_user(role) {
            open = self.message(&filler(), None, json)?;
        }
        let position = if open == Some(role) {
            Position::Following
        } else {
            if open.is_some() {
                json.extend_from_slice(b"]},");
            }
            json.extend_from_slice(F::opening(role).as_bytes());
            Position::First
        };
        self.format
            .parts(message, &mut Items::new(position, json))?;
        Ok(Some(role))
    }
}

fn filler() -> Message {
    Message::User {
        text: FILLER.into(),
    }
}

#[cfg(test)]
#[path = "alternating_roles_tests.rs"]
mod tests;
