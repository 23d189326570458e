//! The opening of the model's input: the system prompt, then the conversation with the messages of the request.

use std::sync::Arc;

use runloom_ports::conversation::Conversation;
use runloom_ports::file::{self, File};
use runloom_ports::model::{CallRequest, Message};
use runloom_protocol::spec::{PromptMessage, RetainedCall, Role};

use super::StoredRun;

/// The spec's prompt, the project's index cards, then the request's system messages. They are joined because
/// providers place system messages differently.
pub(super) fn system_prompt(stored: &StoredRun) -> String {
    let said = stored
        .messages
        .iter()
        .filter(|message| message.role == Role::System)
        .map(|message| message.content.as_str());
    let project = stored
        .project
        .as_ref()
        .map(|project| project.prompt.as_str());
    let spec_prompt = stored.spec.system_prompt.as_deref();
    let parts: Vec<&str> = spec_prompt
        .into_iter()
        .chain(project.filter(|text| !text.is_empty()))
        .chain(said)
        .collect();
    parts.join("\n\n")
}

/// The conversation with the messages of the request behind it.
pub(super) fn opening(mut history: Conversation, stored: &StoredRun) -> Conversation {
    let context = stored.thread.as_ref();
    let context = context.and_then(|thread| thread.context.as_deref());
    let context = context.map(|text| Message::User { text: text.into() });
    let messages = stored.messages.iter().flat_map(asked);
    history.append(context.into_iter().chain(messages).collect());
    history
}

/// A message of the request, with its files.
fn asked(message: &PromptMessage) -> impl Iterator<Item = Message> {
    let with_files = files_of(message).map(|files| Message::UserFiles {
        text: message.content.as_str().into(),
        files,
    });
    let without = with_files.is_none().then(|| spoken(message));
    with_files.into_iter().chain(without.into_iter().flatten())
}

/// The files that are sent with a message.
fn files_of(message: &PromptMessage) -> Option<Arc<[File]>> {
    if message.attachments.is_empty() || message.role != Role::User {
        return None;
    }
    let files: Arc<[File]> = message.attachments.iter().filter_map(File::of).collect();
    (!files.is_empty()).then_some(files)
}

/// A message as entries of the conversation, after the results retained from its run. System messages are not
/// included. Files are sent with their own turn only and mentioned afterwards; otherwise a session would pay for them
/// with every message.
pub fn spoken(message: &PromptMessage) -> impl Iterator<Item = Message> {
    let text = if message.attachments.is_empty() {
        message.content.as_str().into()
    } else {
        let mentions = message.attachments.iter().map(file::mention);
        let said = Some(message.content.clone()).filter(|text| !text.is_empty());
        let lines: Vec<String> = said.into_iter().chain(mentions).collect();
        lines.join("\n").into()
    };
    let said = match message.role {
        Role::System => None,
        Role::User => Some(Message::User { text }),
        Role::Assistant => Some(Message::Assistant {
            text,
            calls: Vec::new(),
            state: None,
        }),
    };
    replayed(&message.retained).into_iter().chain(said)
}

/// One turn with the calls, and their results: every API requires them as a pair.
fn replayed(retained: &[RetainedCall]) -> Vec<Message> {
    if retained.is_empty() {
        return Vec::new();
    }
    let calls = retained.iter().map(|call| CallRequest {
        id: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone(),
    });
    let asked = Message::Assistant {
        text: "".into(),
        calls: calls.collect(),
        state: None,
    };
    let results = retained.iter().map(|call| Message::Tool {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: call.output.clone(),
        is_error: false,
    });
    std::iter::once(asked).chain(results).collect()
}
