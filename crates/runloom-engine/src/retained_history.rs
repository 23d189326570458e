//! How much of what tools said a session tells again: a bound for all of it, so that a long session does not cost
//! more with every message.
//!
//! When the bound is passed, the oldest calls go until half of it is left. So the beginning of the conversation,
//! which providers and this server remember, changes seldom and not with every message. What goes follows from what
//! was said alone: whoever adds message by message and whoever reads all of it at once come to the same.

use runloom_protocol::limits::RETAINED_CALLS_MAX;

use runloom_ports::conversation::Conversation;
use runloom_ports::model::Message;

/// Arguments and results of all calls that are told again.
const MAX_BYTES: usize = 64 * 1024;

/// The history of a session without the calls that are too much.
pub fn bounded(history: Conversation) -> Conversation {
    if !history.has_calls() {
        return history;
    }
    let gone = too_many(&history);
    history.without_first_calls(gone)
}

/// How many calls go, from the first on.
fn too_many(history: &Conversation) -> usize {
    let (mut sizes, mut starts, mut answered) = (Vec::new(), Vec::new(), 0);
    for message in history.iter() {
        match message {
            Message::Assistant { calls, .. } if !calls.is_empty() => {
                starts.push(sizes.len());
                sizes.extend(calls.iter().map(|call| call.input.to_string().len()));
            }
            Message::Tool { content, .. } => {
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
            end - from <= RETAINED_CALLS_MAX / part && bytes <= MAX_BYTES / part
        };
        if fits(from, 1) {
            continue;
        }
        while from < start && !fits(from, 2) {
            from += 1;
        }
        // One run alone may have said too much.
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

    /// The answer of a run with so many calls of so many bytes.
    fn answer(run: usize, calls: usize, bytes: usize) -> PromptMessage {
        let call = |call: usize| RetainedCall {
            id: format!("tu_{run}_{call}"),
            name: "keep".to_owned(),
            input: json!({}),
            output: "x".repeat(bytes),
        };
        PromptMessage {
            role: Role::Assistant,
            content: format!("answer {run}"),
            attachments: Vec::new(),
            retained: (0..calls).map(call).collect(),
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
