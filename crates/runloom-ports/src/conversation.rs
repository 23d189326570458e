//! A conversation: many hold it, each continues it for itself, and nobody copies or writes anew what was said long ago.
//!
//! It is a short list of shared blocks. A block never changes, so it can remember how an API wrote it; a session's
//! next message then costs what is new, however much was said before. Blocks are merged as they grow in number: a
//! conversation of n messages has about log n of them, and a message moves about as often in its life.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::message::Message;

/// What a message takes in memory beside its text.
const MESSAGE_BYTES: usize = 128;

/// What was said, oldest first. Cheap to clone.
#[derive(Clone, Default)]
pub struct Conversation {
    blocks: Vec<Arc<Block>>,
}

/// A part of a conversation that does not change any more. Nor does what stands before it: a conversation is only
/// ever added to.
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

    /// Merges blocks until each is at least twice as long as the one after it. To be called by whoever keeps a
    /// conversation, before something is added: what was there has been sent meanwhile, and merged blocks remember
    /// what their parts do. The last block is left alone, because writers remember only what stands before it.
    pub fn compact(&mut self) {
        let Some(last) = self.blocks.pop() else {
            return;
        };
        // All that will be one block is merged in one go, so that nothing moves twice.
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

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The same without calls and their results, which some APIs refuse where no tools are declared. Costs nothing
    /// when there are none.
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

    /// The same without the first `count` calls and their results. What stands before them is shared as it is.
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

    /// The parts, in order; none is empty.
    #[must_use]
    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// How many bytes a model is told, see [`Message::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes()).sum()
    }

    /// About how much memory it takes. A block that no API has written yet is counted as if one had, without escapes:
    /// most will be, and JSON's escapes are few in most texts.
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
    /// The messages, never none.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What an API makes of the messages. The first format that asks is remembered; another is written anew each time.
    ///
    /// `format` names everything that the bytes depend on, apart from these messages and those before them; what
    /// comes behind must not matter. What is written of two blocks, one behind the other, must be what would be
    /// written of both together.
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
            // When another call was faster, its bytes are as good.
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

    /// One block of several, which remembers what all of them do.
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
    /// What one format wrote of several blocks, when it wrote them all.
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

/// The same was said; how it is kept is nobody's business.
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
