//! What every API needs to know of a conversation.

use runloom_core::ports::model::{Message, ModelError};
use runloom_protocol::outcome::ErrorClass;
use serde::Serialize;

/// Room for what stands around the text of a message, in bytes.
const AROUND_A_MESSAGE: usize = 96;

/// Room for what stands around the conversation, in bytes.
const AROUND: usize = 2 * 1024;

/// The body of a request with these messages, in a buffer of about the right size: a long conversation is not moved while it is
/// written.
pub(crate) fn to_json(body: &impl Serialize, messages: &[Message]) -> Result<Vec<u8>, ModelError> {
    let texts = messages.iter().map(|message| match message {
        Message::System { text } | Message::User { text } | Message::Assistant { text, .. } => {
            text.len()
        }
        Message::Tool { content, .. } => content.len(),
    });
    let room = texts.map(|text| text + AROUND_A_MESSAGE).sum::<usize>();
    let mut json = Vec::with_capacity(room + AROUND);
    match serde_json::to_writer(&mut json, body) {
        Ok(()) => Ok(json),
        Err(error) => Err(ModelError::new(
            ErrorClass::InvalidRequest,
            format!("the request cannot be written as JSON: {error}"),
        )),
    }
}

/// The instructions that stand before anything was said, which belong to the system prompt, and the messages after them.
pub(crate) fn split_instructions(messages: &[Message]) -> (Vec<&str>, &[Message]) {
    let mut instructions = Vec::new();
    let mut rest = messages;
    while let [Message::System { text }, after @ ..] = rest {
        instructions.push(&**text);
        rest = after;
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
        let messages = [system("a"), system("b"), user.clone(), system("c")];
        let (instructions, rest) = split_instructions(&messages);
        assert_eq!(instructions, ["a", "b"]);
        assert_eq!(rest, [user, system("c")]);
        assert_eq!(split_instructions(&[]), (vec![], [].as_slice()));
    }
}
