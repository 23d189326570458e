//! What was said in sessions, remembered: the next message of a long conversation reads only what is new.
//!
//! A conversation is only ever added to, so what is remembered is always true; the store tells what came after it. The memory
//! is bounded, and forgetting costs a read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use runloom_protocol::id::SessionId;
use runloom_protocol::spec::PromptMessage;

use crate::planner::spoken;
use crate::ports::conversation::Conversation;

/// Most bytes that are remembered, roughly: texts, and the same texts as an API has written them.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The beginning of a conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered {
    /// As the model reads it.
    pub(super) messages: Conversation,
    /// How many messages of the session that are.
    pub(super) count: u64,
    bytes: usize,
}

impl Remembered {
    /// The same with what was said since.
    pub(super) fn followed_by(mut self, since: &[PromptMessage]) -> Self {
        self.count += since.len() as u64;
        self.messages.compact();
        self.messages
            .append(since.iter().filter_map(spoken).collect());
        self.bytes = self.messages.memory();
        self
    }
}

/// The conversations of this process. Two generations: when the younger is full it becomes the older, and what was not asked
/// for meanwhile is forgotten.
#[derive(Debug)]
pub(super) struct Conversations {
    generations: Mutex<Generations>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<SessionId, Remembered>,
    young_bytes: usize,
    old: HashMap<SessionId, Remembered>,
}

impl Default for Conversations {
    fn default() -> Self {
        Self::with_room(MAX_BYTES)
    }
}

impl Conversations {
    fn with_room(max_bytes: usize) -> Self {
        Self {
            generations: Mutex::default(),
            max_bytes,
        }
    }

    /// Takes what is remembered of a session; whoever takes it puts it back with what is new, so that nothing is copied.
    pub(super) fn take(&self, session: &SessionId) -> Remembered {
        let mut generations = self.lock();
        let young = generations.young.remove(session);
        if let Some(found) = &young {
            generations.young_bytes = generations.young_bytes.saturating_sub(found.bytes);
        }
        let old = generations.old.remove(session);
        young.or(old).unwrap_or_default()
    }

    /// Remembers it, unless it alone would take most of the room.
    pub(super) fn put(&self, session: SessionId, conversation: Remembered) {
        let room = self.max_bytes / 2;
        if conversation.bytes > room {
            return;
        }
        let mut generations = self.lock();
        if generations.young_bytes + conversation.bytes > room {
            generations.old = std::mem::take(&mut generations.young);
            generations.young_bytes = 0;
        }
        generations.young_bytes += conversation.bytes;
        let before = generations.young.insert(session, conversation);
        if let Some(before) = before {
            generations.young_bytes = generations.young_bytes.saturating_sub(before.bytes);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Conversations, Remembered};
    use runloom_protocol::id::SessionId;
    use runloom_protocol::spec::{PromptMessage, Role};

    fn said(text: &str) -> PromptMessage {
        PromptMessage {
            role: Role::User,
            content: text.to_owned(),
        }
    }

    fn session(name: &str) -> SessionId {
        SessionId::from_suffix(name.to_owned())
    }

    #[test]
    fn what_follows_is_added_and_nothing_is_read_twice() {
        let memory = Conversations::default();
        let first = memory
            .take(&session("a"))
            .followed_by(&[said("1"), said("2")]);
        memory.put(session("a"), first);
        let again = memory.take(&session("a"));
        assert_eq!(again.count, 2);
        let more = again.followed_by(&[said("3")]);
        assert_eq!((more.count, more.messages.len()), (3, 3));
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_is_used() {
        let memory = Conversations::with_room(8 * 1024);
        let text = "x".repeat(900);
        for n in 0..100 {
            memory.put(
                session(&format!("s{n}")),
                Remembered::default().followed_by(&[said(&text)]),
            );
            let kept = memory.take(&session("s0"));
            assert_eq!(kept.count, 1, "asked for all the time, at {n}");
            memory.put(session("s0"), kept);
        }
        let generations = memory.lock();
        assert!(generations.young.len() + generations.old.len() <= 8);
    }

    #[test]
    fn a_conversation_larger_than_the_room_is_not_kept() {
        let memory = Conversations::with_room(1024);
        let large = Remembered::default().followed_by(&[said(&"x".repeat(2000))]);
        memory.put(session("a"), large);
        assert_eq!(memory.take(&session("a")).count, 0);
    }
}
