//! The conversation of a run: a shared beginning, and the messages that were added since.

use runloom_ports::conversation::Conversation;
use runloom_ports::model::Message;

/// Added messages are moved into the shared part, as one block, only before a model call: messages between two calls
/// stay together, and a last answer that is not sent on costs nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    before: Conversation,
    since: Vec<Message>,
}

impl Transcript {
    /// A conversation that begins with these.
    #[must_use]
    pub fn from(before: Conversation) -> Self {
        Self {
            before,
            since: Vec::new(),
        }
    }

    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        self.since.push(message);
    }

    /// All of it, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.before.iter().chain(&self.since)
    }

    /// Number of bytes in a model call, see [`Message::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.before.bytes() + self.since.iter().map(Message::bytes).sum::<usize>()
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.before.len() + self.since.len()
    }

    /// Whether it has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole conversation for a model call.
    pub fn whole(&mut self) -> Conversation {
        if !self.since.is_empty() {
            self.before.compact();
            self.before.append(std::mem::take(&mut self.since));
        }
        self.before.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn said(text: &str) -> Message {
        Message::User { text: text.into() }
    }

    #[test]
    fn what_comes_since_leaves_the_shared_beginning_alone() {
        let shared = Conversation::from(vec![said("1")]);
        let mut transcript = Transcript::from(shared.clone());
        transcript.push(said("2"));
        transcript.push(said("3"));
        let all = [said("1"), said("2"), said("3")];
        assert!(transcript.iter().eq(&all));
        assert_eq!((transcript.len(), transcript.is_empty()), (3, false));
        assert_eq!(transcript.bytes(), 3);
        assert!(transcript.whole().iter().eq(&all));
        assert!(transcript.iter().eq(&all), "asking changes nothing");
        assert_eq!(shared.len(), 1);
    }

    #[test]
    fn what_comes_between_two_calls_is_one_block_behind_the_beginning() {
        let shared = Conversation::from(vec![said("1")]);
        let mut transcript = Transcript::from(shared.clone());
        assert_eq!(transcript.whole().blocks().len(), 1);
        transcript.push(said("2"));
        transcript.push(said("3"));
        let sent = transcript.whole();
        assert_eq!(sent.blocks().len(), 2);
        assert!(Arc::ptr_eq(&sent.blocks()[0], &shared.blocks()[0]));
    }
}
