//! Helpers for encoding a conversation, for every adapter.

use runloom_ports::conversation::Conversation;
use runloom_ports::file::{File, FileContent};
use runloom_ports::model::{Message, ModelError};
use runloom_protocol::outcome::ErrorClass;

/// Estimate of the JSON around the text of a message, in bytes.
const MESSAGE_OVERHEAD: usize = 96;

/// Estimate of the JSON around the conversation, in bytes.
pub(crate) const BODY_OVERHEAD: usize = 2 * 1024;

/// Estimate of the size of these messages as JSON, in bytes.
pub(crate) fn estimate_size<'a>(messages: impl IntoIterator<Item = &'a Message>) -> usize {
    let texts = messages.into_iter().map(|message| match message {
        Message::System { text } | Message::User { text } | Message::Assistant { text, .. } => {
            text.len()
        }
        Message::UserFiles { text, files } => {
            text.len() + files.iter().map(estimate_file_size).sum::<usize>()
        }
        Message::Tool { content, .. } => content.len(),
    });
    texts.map(|text| text + MESSAGE_OVERHEAD).sum()
}

fn estimate_file_size(file: &File) -> usize {
    let (FileContent::Text(content) | FileContent::Base64(content) | FileContent::Url(content)) =
        &file.content;
    content.len() + 2 * file.name.len() + MESSAGE_OVERHEAD
}

/// The error of a request that cannot be serialised.
pub(crate) fn not_json(error: serde_json::Error) -> ModelError {
    ModelError::new(
        ErrorClass::InvalidRequest,
        format!("the request cannot be written as JSON: {error}"),
    )
}

/// The system messages at the beginning of a conversation. APIs with alternating roles take them as part of the system
/// prompt.
pub(crate) fn instructions(conversation: &Conversation) -> Vec<&str> {
    let instructions = conversation.iter().map_while(|message| match message {
        Message::System { text } => Some(&**text),
        _ => None,
    });
    instructions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leading_system_messages_are_instructions() {
        let system = |text: &str| Message::System { text: text.into() };
        let user = Message::User { text: "hi".into() };
        let messages = vec![system("a"), system("b"), user, system("c")];
        let conversation = Conversation::from(messages);
        assert_eq!(instructions(&conversation), ["a", "b"]);
        assert!(instructions(&Conversation::default()).is_empty());
    }
}
