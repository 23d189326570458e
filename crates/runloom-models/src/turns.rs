//! Conversations whose sides take turns, as some APIs want them: what a side says in a row is one item of the list, and the user speaks
//! first and last.
//!
//! A message is written with what leads over to it: the turn before it goes on, or another begins. What stands before a block of the
//! conversation never changes, so the block can remember that as well. What comes behind it does change; so the end of the list, and
//! marks that only the last turns have, are no part of what is remembered.

use std::ops::Range;

use bytes::Bytes;
use runloom_ports::conversation::Conversation;
use runloom_ports::model::{Message, ModelError};

use crate::conversation::{AROUND, room_for};
use crate::list_body::{Items, ListBody};

/// Said in the user's place where the API wants the user to speak and nobody did.
const FILLER: &str = "Continue.";

/// How an API writes what is said.
pub(crate) trait Voices {
    /// Who speaks. What one says in a row is one turn.
    type Side: Copy + PartialEq;

    /// How many of the user's last turns are marked.
    const MARKED: usize = 0;

    /// The members that mark a turn, at the end of its last part.
    const MARK: &'static str = "";

    /// How a turn begins, up to its first part.
    fn opening(side: Self::Side) -> &'static str;

    /// Whether that is the user, to the API.
    fn is_user(side: Self::Side) -> bool;

    /// Who speaks in a message; nobody, when nothing of it is sent.
    fn side(&self, message: &Message) -> Option<Self::Side>;

    /// What comes next is written behind these, latest first.
    fn resume<'a>(&mut self, _earlier: impl Iterator<Item = &'a Message>) {}

    /// The parts of a message in which somebody speaks, at least one.
    fn parts(&mut self, message: &Message, parts: &mut Items<'_>) -> Result<(), ModelError>;
}

/// Writes a conversation, apart from so many instructions at its beginning. `format` names everything that the parts depend on, the
/// messages aside.
pub(crate) fn write(
    body: &mut ListBody,
    conversation: &Conversation,
    instructions: usize,
    format: &str,
    voices: impl Voices,
) -> Result<(), ModelError> {
    let mut dialogue = Dialogue {
        voices,
        conversation,
        length: conversation.len(),
        instructions,
    };
    let last = dialogue.side_before(dialogue.length);
    let marks = dialogue.marks(last);
    let from = dialogue.remembered(body, format, *marks.first().unwrap_or(&dialogue.length))?;
    dialogue.anew(body, from, marks, last)
}

/// A conversation that is being written. Positions are numbers of messages.
struct Dialogue<'a, V> {
    voices: V,
    conversation: &'a Conversation,
    length: usize,
    instructions: usize,
}

impl<V: Voices> Dialogue<'_, V> {
    /// Everything that was said before a position, latest first.
    fn before(&self, position: usize) -> impl Iterator<Item = &Message> + Clone {
        self.conversation
            .iter()
            .rev()
            .skip(self.length - position)
            .take(position.saturating_sub(self.instructions))
    }

    /// Whose turn it is at a position.
    fn side_before(&self, position: usize) -> Option<V::Side> {
        self.before(position)
            .find_map(|message| self.voices.side(message))
    }

    /// Where turns end that are to be marked: the user's last ones, apart from what is said in the user's place.
    fn marks(&self, last: Option<V::Side>) -> Vec<usize> {
        let in_place = usize::from(!last.is_some_and(V::is_user));
        let wanted = V::MARKED.saturating_sub(in_place);
        let mut next = None;
        let ends = self.before(self.length).zip((1..=self.length).rev());
        let ends = ends.filter_map(|(message, end)| {
            let side = self.voices.side(message)?;
            let ends = next.replace(side) != Some(side);
            (ends && V::is_user(side)).then_some(end)
        });
        let mut marks: Vec<usize> = ends.take(wanted).collect();
        marks.reverse();
        marks
    }

    /// Writes what blocks remember, up to a position at most, and tells how far that is.
    fn remembered(
        &mut self,
        body: &mut ListBody,
        format: &str,
        until: usize,
    ) -> Result<usize, ModelError> {
        let mut from = 0;
        // Most runs ask once: what is new may never be sent again, and is remembered when it is.
        let earlier = self.conversation.blocks().split_last();
        for block in earlier.map_or(&[][..], |(_, earlier)| earlier) {
            let to = from + block.messages().len();
            let mut fragment = block.written(format, |_| self.fragment(from..to))?;
            if to > until {
                let behind = self.fragment(until..to)?;
                fragment.truncate(fragment.len().saturating_sub(behind.len()));
            }
            body.piece(fragment);
            from = to.min(until);
            if from == until {
                break;
            }
        }
        Ok(from)
    }

    /// Writes the rest, with marks, and ends it.
    fn anew(
        &mut self,
        body: &mut ListBody,
        mut from: usize,
        marks: Vec<usize>,
        last: Option<V::Side>,
    ) -> Result<(), ModelError> {
        let room = room_for(self.conversation.iter().skip(from));
        body.text().reserve(room + AROUND);
        for mark in marks {
            self.messages(from..mark, body.text())?;
            body.amend(V::MARK);
            from = mark;
        }
        self.messages(from..self.length, body.text())?;
        if !last.is_some_and(V::is_user) {
            self.message(&filler(), last, body.text())?;
            if V::MARKED > 0 {
                body.amend(V::MARK);
            }
        }
        body.text().extend_from_slice(b"]}");
        Ok(())
    }

    fn fragment(&mut self, range: Range<usize>) -> Result<Bytes, ModelError> {
        let messages = self.conversation.iter().skip(range.start);
        let mut json = Vec::with_capacity(room_for(messages.take(range.len())));
        self.messages(range, &mut json)?;
        json.shrink_to_fit();
        Ok(json.into())
    }

    fn messages(&mut self, range: Range<usize>, json: &mut Vec<u8>) -> Result<(), ModelError> {
        let from = range.start.max(self.instructions);
        let mut open = self.side_before(from);
        let conversation = self.conversation;
        let earlier = conversation.iter().rev().skip(self.length - from);
        self.voices.resume(earlier);
        let messages = conversation.iter().skip(from);
        for message in messages.take(range.end.saturating_sub(from)) {
            open = self.message(message, open, json)?;
        }
        Ok(())
    }

    /// Writes one message behind a turn, and tells whose turn it is then.
    fn message(
        &mut self,
        message: &Message,
        mut open: Option<V::Side>,
        json: &mut Vec<u8>,
    ) -> Result<Option<V::Side>, ModelError> {
        let Some(side) = self.voices.side(message) else {
            return Ok(open);
        };
        if open.is_none() && !V::is_user(side) {
            open = self.message(&filler(), None, json)?;
        }
        let goes_on = open == Some(side);
        if !goes_on {
            if open.is_some() {
                json.extend_from_slice(b"]},");
            }
            json.extend_from_slice(V::opening(side).as_bytes());
        }
        self.voices
            .parts(message, &mut Items::behind(goes_on, json))?;
        Ok(Some(side))
    }
}

fn filler() -> Message {
    Message::User {
        text: FILLER.into(),
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
