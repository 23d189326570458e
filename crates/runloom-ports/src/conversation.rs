//! A conversation: shared blocks of messages that several runs continue without copying or encoding them again.
//!
//! A block never changes, so it can cache its encoding for a model API; the next message of a session then costs only
//! what is new. Blocks are merged as their number grows: a conversation of n messages has about log n of them, and
//! each message is moved about log n times.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::message::Message;

/// Memory of a message beside its text.
const MESSAGE_BYTES: usize = 128;

/// The messages, oldest first. Cheap to clone.
#[derive(Clone, Default)]
pub struct Conversation {
    blocks: Vec<Arc<Block>>,
}

/// An immutable part of a conversation. The blocks before it do not change either: messages are only appended.
#[derive(Default)]
pub struct Block {
    messages: Vec<Message>,
    has_calls: bool,
    bytes: OnceLock<usize>,
    written: OnceLock<Written>,
}

/// How an API wrote a block.
struct Written {
    format: Box<str>,
    bytes: Bytes,
}

impl Conversation {
    /// Adds messages as a block of their own.
    pub fn append(&mut self, messages: Vec<Message>) {
        if !messages.is_empty() {
            self.blocks.push(Arc::new(Block {
                has_calls: messages.iter().any(is_of_calls),
                messages,
                ..Block::default()
            }));
        }
    }

    /// Merges blocks until each is at least twice as long as the one after it. Called by the owner of a conversation
    /// before it appends: the blocks have been encoded by then, and a merged block keeps the encodings of its parts.
    /// The last block is left alone, because encoders cache only what precedes the end.
    pub fn compact(&mut self) {
        let Some(last) = self.blocks.pop() else {
            return;
        };
        // Blocks that become one are merged in one step, so that no message moves twice.
        let (mut from, mut together) = (self.blocks.len(), 0);
        while let Some(before) = from.checked_sub(1) {
            let length = self.blocks[before].messages.len();
            if from < self.blocks.len() && length >= 2 * together {
                break;
            }
            (from, together) = (before, together + length);
        }
        if self.blocks.len() - from > 1 {
            let merged = Block::merged(self.blocks.split_off(from));
            self.blocks.push(Arc::new(merged));
        }
        self.blocks.push(last);
    }

    /// All messages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.blocks.iter().flat_map(|block| &block.messages)
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.messages.len()).sum()
    }

    /// Whether it has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The same without calls and their results, which some APIs refuse where no tools are declared. Free when there
    /// are none.
    #[must_use]
    pub fn without_calls(self) -> Self {
        if !self.blocks.iter().any(|block| block.has_calls) {
            return self;
        }
        let said = self.iter().filter(|message| !is_of_calls(message));
        said.cloned().collect()
    }

    /// Whether a tool was called.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.blocks.iter().any(|block| block.has_calls)
    }

    /// The same without the first `count` calls and their results. Blocks before them stay shared.
    #[must_use]
    pub fn without_first_calls(mut self, count: usize, is_meant: impl Fn(&str) -> bool) -> Self {
        let first = self.blocks.iter().position(|block| block.has_calls);
        let Some(first) = first.filter(|_| count > 0) else {
            return self;
        };
        let rest = self.blocks.split_off(first);
        let (mut asked, mut answered) = (count, count);
        let mut kept = Vec::new();
        for message in rest.iter().flat_map(|block| &block.messages) {
            match message {
                Message::Assistant { text, calls, .. } if asked > 0 && !calls.is_empty() => {
                    let mut left = calls.clone();
                    left.retain(|call| {
                        let goes = asked > 0 && is_meant(&call.name);
                        asked -= usize::from(goes);
                        !goes
                    });
                    if !left.is_empty() || !text.is_empty() {
                        kept.push(Message::Assistant {
                            text: text.clone(),
                            calls: left,
                            state: None,
                        });
                    }
                }
                Message::Tool { name, .. } if answered > 0 && is_meant(name) => answered -= 1,
                other => kept.push(other.clone()),
            }
        }
        self.append(kept);
        self
    }

    /// The blocks, in order; none is empty.
    #[must_use]
    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// Number of bytes in a model call, see [`Message::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes()).sum()
    }

    /// Estimate of its memory. A block without a cached encoding is counted as if it had one, without escapes,
    /// because most blocks get one.
    #[must_use]
    pub fn memory(&self) -> usize {
        let of_block = |block: &Arc<Block>| {
            let written = block.written.get();
            let written = written.map_or_else(|| block.bytes(), |written| written.bytes.len());
            block.messages.len() * MESSAGE_BYTES + block.bytes() + written
        };
        self.blocks.iter().map(of_block).sum()
    }
}

impl Block {
    /// The messages; at least one.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The encoding of the messages for an API. The first format is cached; others are encoded again at each call.
    ///
    /// `format` names everything that the bytes depend on, except these messages and those before them. Later
    /// messages must not matter. The encodings of two blocks, concatenated, must equal the encoding of both together.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn written<E>(
        &self,
        format: &str,
        write: impl FnOnce(&[Message]) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let known = self.written.get();
        if let Some(known) = known.filter(|known| *known.format == *format) {
            return Ok(known.bytes.clone());
        }
        let bytes = write(&self.messages)?;
        if known.is_none() {
            // A concurrent call may have set the same bytes already.
            let _ = self.written.set(Written {
                format: format.into(),
                bytes: bytes.clone(),
            });
        }
        Ok(bytes)
    }

    fn bytes(&self) -> usize {
        let count = || self.messages.iter().map(Message::bytes).sum();
        *self.bytes.get_or_init(count)
    }

    /// One block of several, with their cached encodings joined.
    fn merged(parts: Vec<Arc<Self>>) -> Self {
        let written = Written::joined(&parts);
        let bytes = parts
            .iter()
            .map(|part| part.bytes.get())
            .sum::<Option<usize>>();
        let length = parts.iter().map(|part| part.messages.len()).sum();
        let has_calls = parts.iter().any(|part| part.has_calls);
        let mut messages = Vec::with_capacity(length);
        for part in parts {
            match Arc::try_unwrap(part) {
                Ok(part) => messages.extend(part.messages),
                Err(shared) => messages.extend_from_slice(&shared.messages),
            }
        }
        Self {
            messages,
            has_calls,
            bytes: bytes.map_or_else(OnceLock::new, OnceLock::from),
            written: written.map_or_else(OnceLock::new, OnceLock::from),
        }
    }
}

fn is_of_calls(message: &Message) -> bool {
    match message {
        Message::System { .. } | Message::User { .. } | Message::UserFiles { .. } => false,
        Message::Assistant { calls, .. } => !calls.is_empty(),
        Message::Tool { .. } => true,
    }
}

impl Written {
    /// The joined encoding, if one format has encoded all blocks.
    fn joined(parts: &[Arc<Block>]) -> Option<Self> {
        let parts: Vec<&Self> = parts
            .iter()
            .map(|part| part.written.get())
            .collect::<Option<_>>()?;
        let format = &parts.first()?.format;
        if parts.iter().any(|part| part.format != *format) {
            return None;
        }
        let pieces: Vec<&[u8]> = parts.iter().map(|part| &part.bytes[..]).collect();
        Some(Self {
            format: format.clone(),
            bytes: pieces.concat().into(),
        })
    }
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        let mut conversation = Self::default();
        conversation.append(messages);
        conversation
    }
}

impl FromIterator<Message> for Conversation {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self::from(messages.into_iter().collect::<Vec<_>>())
    }
}

/// Compares the messages, not how they are divided into blocks.
impl PartialEq for Conversation {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.messages).finish()
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
