//! Compares the messages of a request with those of the thread: finds new ones, and whether client and server agree.

use std::collections::HashSet;

use runloom_protocol::ag_ui::{InputMessage, MessageBody};
use runloom_protocol::resource::{HistoryMessage, HistoryRole};
use runloom_protocol::spec::{PromptMessage, Role, ToolAnswer};

use super::thread::ThreadView;
use crate::history::fold::run_of_message;

/// The new parts of a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct News {
    /// Messages for a run, the last of them a user's; empty when nothing is to be run.
    pub(crate) messages: Vec<NewMessage>,
    /// Results of calls that wait.
    pub(crate) answers: Vec<NewAnswer>,
    /// The client lacks messages of the thread, has others in their place, or sent something that is dropped.
    pub(crate) differs: bool,
}

/// A message that is added to the thread.
#[derive(Debug, PartialEq)]
pub(crate) struct NewMessage {
    pub(crate) id: String,
    pub(crate) message: PromptMessage,
    /// Its place in the request.
    pub(crate) index: usize,
}

/// The result of a call that waits.
#[derive(Debug, PartialEq)]
pub(crate) struct NewAnswer {
    pub(crate) tool_use_id: String,
    pub(crate) message_id: String,
    pub(crate) answer: ToolAnswer,
}

/// A message that the client has, as far as it is compared.
#[derive(PartialEq)]
struct Shown<'m> {
    id: &'m str,
    role: HistoryRole,
    text: &'m str,
}

/// Finds what is new. Messages are matched by id; those after the last known one are new. A tool message answers a
/// pending call wherever it stands, because clients insert results behind their calls.
pub(crate) fn news(view: &ThreadView, pending: &[String], input: &[InputMessage]) -> News {
    let known: HashSet<&str> = view.messages.iter().map(|m| m.id.as_str()).collect();
    let is_known = |message: &InputMessage| {
        let own = run_of_message(&message.id).is_some_and(|run| view.runs.contains(&run));
        own || known.contains(message.id.as_str())
    };
    let first_new = input.iter().rposition(is_known).map_or(0, |last| last + 1);
    let mut found = News::default();
    let mut kept = Vec::new();
    for (index, message) in input.iter().enumerate() {
        let is_new = index >= first_new;
        let id = message.id.as_str();
        match &message.body {
            MessageBody::Instruction { .. } | MessageBody::Skipped => {}
            MessageBody::User { text, attachments } if is_new => {
                let mut said = PromptMessage::new(Role::User, text.as_str());
                said.attachments.clone_from(attachments);
                found.messages.push(new_message(id, said, index));
            }
            MessageBody::User { text, .. } => kept.push(shown(id, HistoryRole::User, text)),
            MessageBody::Assistant { text, calls } if is_new => {
                found.differs |= *calls > 0 || text.is_empty();
                if !text.is_empty() {
                    let said = PromptMessage::new(Role::Assistant, text.as_str());
                    found.messages.push(new_message(id, said, index));
                }
            }
            MessageBody::Assistant { text, .. } => {
                kept.push(shown(id, HistoryRole::Assistant, text));
            }
            MessageBody::Tool {
                tool_call_id,
                text,
                error,
            } => {
                let answered = |answer: &NewAnswer| answer.tool_use_id == *tool_call_id;
                let waits = pending.contains(tool_call_id) && !is_known(message);
                if waits && !found.answers.iter().any(answered) {
                    found.answers.push(NewAnswer {
                        tool_use_id: tool_call_id.clone(),
                        message_id: id.to_owned(),
                        answer: match error {
                            Some(error) => ToolAnswer::Error(error.clone()),
                            None => ToolAnswer::Result(text.clone()),
                        },
                    });
                } else {
                    let text = error.as_ref().unwrap_or(text);
                    kept.push(shown(id, HistoryRole::Tool, text));
                }
            }
        }
    }
    found.differs |= !view.is_whole || !kept.into_iter().eq(view.messages.iter().map(stored));
    drop_what_no_user_follows(&mut found);
    found
}

/// Drops messages after the last user message, because the model answers a user.
fn drop_what_no_user_follows(found: &mut News) {
    let is_user = |new: &NewMessage| new.message.role == Role::User;
    let kept = found
        .messages
        .iter()
        .rposition(is_user)
        .map_or(0, |last| last + 1);
    found.differs |= kept < found.messages.len();
    found.messages.truncate(kept);
}

fn new_message(id: &str, message: PromptMessage, index: usize) -> NewMessage {
    NewMessage {
        id: id.to_owned(),
        message,
        index,
    }
}

fn shown<'m>(id: &'m str, role: HistoryRole, text: &'m str) -> Shown<'m> {
    Shown { id, role, text }
}

fn stored(message: &HistoryMessage) -> Shown<'_> {
    let text = message.content.as_deref().unwrap_or_default();
    shown(&message.id, message.role, text)
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
