//! The conversation of a run: what was there when it began, which others share, and what came since.

use std::sync::Arc;

use crate::ports::model::Message;

/// See the module. What came since is laid behind the beginning only when the model is asked: a long history is not copied for
/// the sake of a last answer that nobody sends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spoken {
    before: Arc<Vec<Message>>,
    since: Vec<Message>,
}

impl Spoken {
    /// A conversation that begins with these.
    #[must_use]
    pub fn from(before: Arc<Vec<Message>>) -> Self {
        Self {
            before,
            since: Vec::new(),
        }
    }

    /// One more message.
    pub fn push(&mut self, message: Message) {
        self.since.push(message);
    }

    /// All of it, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.before.iter().chain(&self.since)
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.before.len() + self.since.len()
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it in one piece, as a model is asked.
    pub fn whole(&mut self) -> Arc<Vec<Message>> {
        if !self.since.is_empty() {
            Arc::make_mut(&mut self.before).append(&mut self.since);
        }
        Arc::clone(&self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Message {
        Message::User { text: text.into() }
    }

    #[test]
    fn what_comes_since_leaves_the_shared_beginning_alone() {
        let shared = Arc::new(vec![said("1")]);
        let mut spoken = Spoken::from(Arc::clone(&shared));
        spoken.push(said("2"));
        spoken.push(said("3"));
        let all = [said("1"), said("2"), said("3")];
        assert!(spoken.iter().eq(&all));
        assert_eq!((spoken.len(), spoken.is_empty()), (3, false));
        assert_eq!(*spoken.whole(), all);
        assert!(spoken.iter().eq(&all), "asking changes nothing");
        assert_eq!(shared.len(), 1);
    }

    #[test]
    fn a_beginning_is_sent_without_a_copy() {
        let shared = Arc::new(vec![said("1")]);
        let mut spoken = Spoken::from(Arc::clone(&shared));
        assert!(Arc::ptr_eq(&spoken.whole(), &shared));
    }
}
