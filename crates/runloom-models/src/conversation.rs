//! What every API needs to know of a conversation.

use runloom_ports::conversation::Conversation;
use runloom_ports::file::{File, FileContent};
use runloom_ports::model::{Message, ModelError};
use runloom_protocol::outcome::ErrorClass;

/// Room for what stands around the text of a message, in bytes.
const AROUND_A_MESSAGE: usize = 96;

/// Room for what stands around the conversation, in bytes.
pub(crate) const AROUND: usize = 2 * 1024;

/// About how many bytes these messages take as JSON.
pub(crate) fn room_for<'a>(messages: impl IntoIterator<Item = &'a Message>) -> usize {
    let texts = messages.into_iter().map(|message| match message {
        Message::System { text } | Message::User { text } | Message::Assistant { text, .. } => {
            text.len()
        }
        Message::UserFiles { text, files } => {
            text.len() + files.iter().map(room_for_file).sum::<usize>()
        }
        Message::Tool { content, .. } => content.len(),
    });
    texts.map(|text| text + AROUND_A_MESSAGE).sum()
}

fn room_for_file(file: &File) -> usize {
    let (FileContent::Text(content) | FileContent::Base64(content) | FileContent::Url(content)) =
        &file.content;
    content.len() + 2 * file.name.len() + AROUND_A_MESSAGE
}

/// The error of a request that cannot be written.
pub(crate) fn not_json(error: serde_json::Error) -> ModelError {
    ModelError::new(
        ErrorClass::InvalidRequest,
        format!("the request cannot be written as JSON: {error}"),
    )
}

/// The instructions that stand before anything was said: where the API wants turns, they belong to the system prompt.
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
    fn only_instructions_at_the_beginning_are_taken_out() {
        let system = |text: &str| Message::System { text: text.into() };
        let user = Message::User { text: "hi".into() };
        let messages = vec![system("a"), system("b"), user, system("c")];
        let conversation = Conversation::from(messages);
        assert_eq!(instructions(&conversation), ["a", "b"]);
        assert!(instructions(&Conversation::default()).is_empty());
    }
}
