//! What every API needs to know of a conversation.

use runloom_core::ports::conversation::Conversation;
use runloom_core::ports::model::{Message, ModelError};
use runloom_protocol::outcome::ErrorClass;
use serde::Serialize;

/// Room for what stands around the text of a message, in bytes.
const AROUND_A_MESSAGE: usize = 96;

/// Room for what stands around the conversation, in bytes.
pub(crate) const AROUND: usize = 2 * 1024;

/// The body of a request with these messages, in a buffer of about the right size: a long conversation is not moved while it is
/// written.
pub(crate) fn to_json(
    body: &impl Serialize,
    conversation: &Conversation,
) -> Result<Vec<u8>, ModelError> {
    let mut json = Vec::with_capacity(room_for(conversation.iter()) + AROUND);
    match serde_json::to_writer(&mut json, body) {
        Ok(()) => Ok(json),
        Err(error) => Err(not_json(error)),
    }
}

/// About how many bytes these messages take as JSON.
pub(crate) fn room_for<'a>(messages: impl IntoIterator<Item = &'a Message>) -> usize {
    let texts = messages.into_iter().map(|message| match message {
        Message::System { text } | Message::User { text } | Message::Assistant { text, .. } => {
            text.len()
        }
        Message::Tool { content, .. } => content.len(),
    });
    texts.map(|text| text + AROUND_A_MESSAGE).sum()
}

/// The error of a request that cannot be written.
pub(crate) fn not_json(error: serde_json::Error) -> ModelError {
    ModelError::new(
        ErrorClass::InvalidRequest,
        format!("the request cannot be written as JSON: {error}"),
    )
}

/// The instructions that stand before anything was said, which belong to the system prompt, and the messages after them.
pub(crate) fn split_instructions(
    conversation: &Conversation,
) -> (Vec<&str>, impl Iterator<Item = &Message>) {
    let mut instructions = Vec::new();
    let mut rest = conversation.iter().peekable();
    while let Some(Message::System { text }) = rest.peek() {
        instructions.push(&**text);
        rest.next();
    }
    (instructions, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_at_the_beginning_are_taken_out() {
        let system = |text: &str| Message::System { text: text.into() };
        let user = Message::User { text: "hi".into() };
        let messages = vec![system("a"), system("b"), user.clone(), system("c")];
        let conversation = Conversation::from(messages);
        let (instructions, rest) = split_instructions(&conversation);
        assert_eq!(instructions, ["a", "b"]);
        assert!(rest.eq(&[user, system("c")]));
        let nothing = Conversation::default();
        let (instructions, mut rest) = split_instructions(&nothing);
        assert_eq!((instructions.len(), rest.next()), (0, None));
    }
}
