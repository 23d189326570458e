//! Runs that are followed on behalf of clients of other protocols: what happens in the log, in few words, and waiting for the end.

use std::time::Duration;

use futures_util::StreamExt;
use runloom_protocol::event::{Audience, Event, EventKind, frame_kind, parse_frame, split_frames};
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::resource::RunSnapshot;
use runloom_service::auth::Caller;

use crate::app::App;
use crate::error::Answer;

/// What a log says, as far as strangers are told. An agent's tools and thoughts are its own business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A worker has begun.
    Started,
    /// A piece of the answer, of this turn.
    Text(String),
    /// The model thinks.
    Thinking,
    /// The turn is over; what was said in it is not the answer if another one follows.
    TurnOver,
    /// What was said in this turn does not count.
    Restarted,
    /// Work beside the model.
    Tool,
    /// Nothing follows.
    Ended,
}

/// What frames say, each with its number. Frames of newer versions are passed over.
pub(crate) fn heard(frames: &[u8]) -> Vec<(u64, Heard)> {
    split_frames(frames)
        .filter_map(|frame| {
            let read = parse_frame(frame)?.ok()?;
            Some((read.seq, heard_of(read.event)))
        })
        .collect()
}

/// Events that are not for callers, and those without a word of their own, only show that the agent works.
fn heard_of(event: Event) -> Heard {
    let kind = event.kind();
    if kind.is_terminal() {
        Heard::Ended
    } else if kind.audience() == Audience::Workspace {
        Heard::Tool
    } else if let Event::AssistantDelta(delta) = event {
        Heard::Text(delta.text)
    } else if kind == EventKind::Started {
        Heard::Started
    } else if kind == EventKind::ThinkingDelta {
        Heard::Thinking
    } else if kind == EventKind::AssistantMessage {
        Heard::TurnOver
    } else if kind == EventKind::TurnRestarted {
        Heard::Restarted
    } else {
        Heard::Tool
    }
}

/// Why a run failed, as far as strangers are told: what the provider or a tool said is the inside of the agent.
pub(crate) fn failure(run: &RunSnapshot) -> &'static str {
    let class = run.failure_reason.as_ref().map(|reason| reason.error_class);
    match class.unwrap_or(ErrorClass::Unknown) {
        ErrorClass::RateLimit | ErrorClass::Overloaded => {
            "The agent's model is overloaded at the moment; try again later."
        }
        ErrorClass::Timeout | ErrorClass::LocalTimeout | ErrorClass::UpstreamDeadline => {
            "The agent did not answer in time."
        }
        ErrorClass::ContextWindow => {
            "The conversation is longer than the agent can read; begin another one, or say less."
        }
        ErrorClass::Truncation => "The answer is longer than the agent may write.",
        ErrorClass::BudgetExceeded => "The agent has used up its budget.",
        ErrorClass::StructuredOutputNotEnforced => {
            "The agent's answer does not have the promised structure."
        }
        ErrorClass::Server
        | ErrorClass::InvalidRequest
        | ErrorClass::Auth
        | ErrorClass::StructuredOutputSchemaRejected
        | ErrorClass::StructuredOutputNotSupported
        | ErrorClass::Unknown => "The agent failed.",
    }
}

/// What of the time of a request is kept for its answer: to be told that a task goes on is better than to be refused and never hear of it.
const FOR_THE_ANSWER: Duration = Duration::from_secs(5);

/// How long who wants to wait so long can, in a request of which so much has passed.
pub(crate) fn patience(wanted: Duration, limit: Duration, passed: Duration) -> Duration {
    let left = limit.saturating_sub(passed);
    wanted.min(left.saturating_sub(FOR_THE_ANSWER))
}

/// Waits for the end of a run; false when it did not come in this time, or this server stops.
pub(crate) async fn ended(
    app: &App,
    caller: &Caller,
    run: &RunId,
    patience: Duration,
) -> Answer<bool> {
    let mut frames = app.service.stream(caller, run.as_str(), 0).await?;
    let end = async {
        while let Some(chunk) = frames.next().await {
            let is_end = |frame: &[u8]| frame_kind(frame).is_some_and(EventKind::is_terminal);
            if split_frames(&chunk).any(is_end) {
                return true;
            }
        }
        false
    };
    Ok(tokio::time::timeout(patience, end).await.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use runloom_protocol::event::{Started, TextDelta};

    use super::*;

    #[test]
    fn a_wait_ends_before_the_time_of_its_request_does() {
        let seconds = Duration::from_secs;
        for (passed, left) in [(0, 45), (10, 45), (30, 25), (54, 1), (55, 0), (70, 0)] {
            let patience = patience(seconds(45), seconds(60), seconds(passed));
            assert_eq!(patience, seconds(left), "after {passed} s");
        }
    }

    #[test]
    fn a_log_is_told_in_few_words_and_unknown_events_are_passed_over() {
        let mut frames = BytesMut::new();
        let said = |text: &str| TextDelta {
            text: text.to_owned(),
        };
        for (seq, event) in [
            (1, Event::Started(Started {})),
            (2, Event::ThinkingDelta(said("hm"))),
            (3, Event::AssistantDelta(said("hi"))),
        ] {
            event.write_frame(seq, &mut frames).unwrap();
        }
        frames.extend_from_slice(
            b"id: 4\nevent: new\ndata: {\"seq\":4,\"type\":\"new\",\"data\":{}}\n\n: heartbeat\n\n",
        );
        assert_eq!(
            heard(&frames),
            [
                (1, Heard::Started),
                (2, Heard::Thinking),
                (3, Heard::Text("hi".to_owned()))
            ]
        );
    }
}
