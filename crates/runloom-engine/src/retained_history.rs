//! The limit of retained tool results in a session, so that the cost of a long session stays bounded.
//!
//! Past the limit the oldest calls are removed until half of it is left. The beginning of the conversation, which
//! providers and this server cache, therefore changes rarely. The removal depends on the messages alone: adding them
//! one by one and reading them all at once give the same conversation.

use runloom_protocol::limits::{PROJECT_PAIRS_MAX, PROJECT_PAIRS_MAX_BYTES, RETAINED_CALLS_MAX};
use runloom_protocol::spec::PromptMessage;
use runloom_protocol::tools::PROJECT_TOOL;

use crate::planner::spoken;
use crate::run::compacted_history;
use runloom_ports::conversation::Conversation;
use runloom_ports::model::Message;

/// The limits of retained calls of one kind: their number, and the bytes of their arguments and results.
#[derive(Clone, Copy)]
struct Bounds {
    calls: usize,
    bytes: usize,
}

/// Of client tools with `retain`.
const CLIENT_TOOLS: Bounds = Bounds {
    calls: RETAINED_CALLS_MAX,
    bytes: 64 * 1024,
};

/// Of the project tool.
const PROJECT: Bounds = Bounds {
    calls: PROJECT_PAIRS_MAX,
    bytes: PROJECT_PAIRS_MAX_BYTES,
};

/// The history of a session with more messages behind it. A message with a summary replaces what stands before it.
#[must_use]
pub fn continued(mut history: Conversation, messages: &[PromptMessage]) -> Conversation {
    let mut since = Vec::new();
    for message in messages {
        if let Some(by) = &message.compacted {
            history.append(std::mem::take(&mut since));
            history = compacted_history(&history, by);
        }
        since.extend(spoken(message));
    }
    history.append(since);
    bounded(history)
}

/// The history of a session without the calls that are too much.
pub fn bounded(history: Conversation) -> Conversation {
    if !history.has_calls() {
        return history;
    }
    let is_project = |name: &str| name == PROJECT_TOOL;
    let is_other = |name: &str| name != PROJECT_TOOL;
    let gone = too_many(&history, CLIENT_TOOLS, is_other);
    let history = history.without_first_calls(gone, is_other);
    let gone = too_many(&history, PROJECT, is_project);
    history.without_first_calls(gone, is_project)
}

/// How many calls go, from the first on.
fn too_many(history: &Conversation, bounds: Bounds, is_meant: fn(&str) -> bool) -> usize {
    let (mut sizes, mut starts, mut answered) = (Vec::new(), Vec::new(), 0);
    for message in history.iter() {
        match message {
            Message::Assistant { calls, .. } => {
                let meant = calls.iter().filter(|call| is_meant(&call.name));
                let before = sizes.len();
                sizes.extend(meant.map(|call| call.input.to_string().len()));
                if sizes.len() > before {
                    starts.push(before);
                }
            }
            Message::Tool { content, name, .. } if is_meant(name) => {
                if let Some(size) = sizes.get_mut(answered) {
                    *size += content.len();
                }
                answered += 1;
            }
            _ => {}
        }
    }
    let ends = starts.iter().skip(1).copied().chain([sizes.len()]);
    let mut from = 0;
    for (start, end) in starts.iter().copied().zip(ends) {
        let fits = |from: usize, part: usize| {
            let bytes: usize = sizes.iter().take(end).skip(from).sum();
            end - from <= bounds.calls / part && bytes <= bounds.bytes / part
        };
        if fits(from, 1) {
            continue;
        }
        while from < start && !fits(from, 2) {
            from += 1;
        }
        // One run alone may exceed the limit.
        while from < end && !fits(from, 1) {
            from += 1;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use runloom_protocol::spec::{PromptMessage, RetainedCall, Role};
    use serde_json::json;

    use super::*;
    use crate::planner::spoken;

    /// The answer of a run with `calls` calls of `bytes` bytes each.
    fn answer(run: usize, calls: usize, bytes: usize) -> PromptMessage {
        let call = |call: usize| RetainedCall {
            id: format!("tu_{run}_{call}"),
            name: "keep".to_owned(),
            input: json!({}),
            output: "x".repeat(bytes),
        };
        PromptMessage {
            unfinished: false,
            role: Role::Assistant,
            content: format!("answer {run}"),
            attachments: Vec::new(),
            retained: (0..calls).map(call).collect(),
            compacted: None,
        }
    }

    fn all(messages: &[PromptMessage]) -> Conversation {
        bounded(messages.iter().flat_map(spoken).collect())
    }

    fn results(history: &Conversation) -> Vec<&str> {
        fn id(message: &Message) -> Option<&str> {
            match message {
                Message::Tool { call_id, .. } => Some(call_id.as_str()),
                _ => None,
            }
        }
        history.iter().filter_map(id).collect()
    }

    #[test]
    fn a_long_session_tells_a_bounded_number_of_calls_and_seldom_changes_its_beginning() {
        let messages: Vec<_> = (0..200).map(|run| answer(run, 1, 10)).collect();
        let mut changes = 0;
        let mut before = Vec::new();
        for count in 1..=messages.len() {
            let told = all(&messages[..count]);
            let ids: Vec<String> = results(&told).into_iter().map(str::to_owned).collect();
            assert!(ids.len() <= RETAINED_CALLS_MAX);
            assert!(
                ids.last()
                    .is_some_and(|last| *last == format!("tu_{}_0", count - 1))
            );
            changes += usize::from(!ids.starts_with(&before));
            before = ids;
        }
        assert!((1..=15).contains(&changes), "{changes}");
        let said = all(&messages);
        let said = said.iter().filter(
            |message| matches!(message, Message::Assistant { calls, .. } if calls.is_empty()),
        );
        assert_eq!(said.count(), 200, "only calls go");
    }

    #[test]
    fn message_by_message_is_the_same_as_all_at_once() {
        let messages: Vec<_> = (0..60)
            .map(|run| answer(run, run % 7, 100 + 2_500 * (run % 4)))
            .collect();
        let mut kept = Conversation::default();
        for count in 1..=messages.len() {
            kept.append(spoken(&messages[count - 1]).collect());
            kept = bounded(kept);
            assert_eq!(kept, all(&messages[..count]), "{count}");
        }
    }

    #[test]
    fn of_one_run_that_said_too_much_the_last_is_told() {
        let told = all(&[answer(0, 1, 10), answer(1, 20, 8_000)]);
        let ids = results(&told);
        assert_eq!(ids.len(), 8, "64 KB");
        assert_eq!(ids.last(), Some(&"tu_1_19"));
        let calls = told.iter().find_map(|message| match message {
            Message::Assistant { calls, .. } if !calls.is_empty() => Some(calls.len()),
            _ => None,
        });
        assert_eq!(calls, Some(8), "in pairs");
    }
}
