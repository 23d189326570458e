//! Runs for clients of A2A and MCP: a summary of each event of the log, and waiting for the end.

use std::time::Duration;

use futures_util::StreamExt;
use runloom_protocol::event::{Audience, Event, EventKind, frame_kind, parse_frame, split_frames};
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::resource::RunSnapshot;
use runloom_service::auth::Caller;

use crate::app::App;
use crate::error::Answer;

/// What a caller of a published agent learns from an event. The agent's tools and thinking are not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventSummary {
    /// A worker started the run.
    Started,
    /// A piece of the answer of this turn.
    Text(String),
    /// The model thinks.
    Thinking,
    /// The turn ended; its text is not the answer if another turn follows.
    TurnOver,
    /// The text of this turn is discarded.
    Restarted,
    /// Other work, such as a tool call.
    Tool,
    /// The run ended.
    Ended,
}

/// The summary of each frame with its sequence number. Unknown events are skipped.
pub(crate) fn summaries(frames: &[u8]) -> Vec<(u64, EventSummary)> {
    split_frames(frames)
        .filter_map(|frame| {
            let read = parse_frame(frame)?.ok()?;
            Some((read.seq, summary_of(read.event)))
        })
        .collect()
}

/// Events for the workspace only, and events without a variant of their own, show as other work.
fn summary_of(event: Event) -> EventSummary {
    let kind = event.kind();
    if kind.is_terminal() {
        EventSummary::Ended
    } else if kind.audience() == Audience::Workspace {
        EventSummary::Tool
    } else if let Event::AssistantDelta(delta) = event {
        EventSummary::Text(delta.text)
    } else if kind == EventKind::Started {
        EventSummary::Started
    } else if kind == EventKind::ThinkingDelta {
        EventSummary::Thinking
    } else if kind == EventKind::AssistantMessage {
        EventSummary::TurnOver
    } else if kind == EventKind::TurnRestarted {
        EventSummary::Restarted
    } else {
        EventSummary::Tool
    }
}

/// The reason of a failure for callers of a published agent. Messages of providers and tools are not shown.
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

/// Part of a request's time that is kept for the response, so that the caller learns that the task continues.
const RESPONSE_RESERVE: Duration = Duration::from_secs(5);

/// How long a request may wait: `wanted`, or less when its own time limit is near.
pub(crate) fn wait_limit(wanted: Duration, limit: Duration, passed: Duration) -> Duration {
    let left = limit.saturating_sub(passed);
    wanted.min(left.saturating_sub(RESPONSE_RESERVE))
}

/// Waits for the end of a run. Returns false when the run did not end in time, or this server stops.
pub(crate) async fn wait_for_end(
    app: &App,
    caller: &Caller,
    run: &RunId,
    wait_limit: Duration,
) -> Answer<bool> {
    let mut frames = app.service.runs().stream(caller, run.as_str(), 0).await?;
    let end = async {
        while let Some(chunk) = frames.next().await {
            let is_end = |frame: &[u8]| frame_kind(frame).is_some_and(EventKind::is_terminal);
            if split_frames(&chunk).any(is_end) {
                return true;
            }
        }
        false
    };
    Ok(tokio::time::timeout(wait_limit, end).await.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use runloom_protocol::event::{Started, TextDelta};

    use super::*;

    #[test]
    fn waits_end_before_their_request() {
        let seconds = Duration::from_secs;
        for (passed, left) in [(0, 45), (10, 45), (30, 25), (54, 1), (55, 0), (70, 0)] {
            let wait_limit = wait_limit(seconds(45), seconds(60), seconds(passed));
            assert_eq!(wait_limit, seconds(left), "after {passed} s");
        }
    }

    #[test]
    fn summarises_events_and_skips_unknown_ones() {
        let mut frames = BytesMut::new();
        let said = |text: &str| TextDelta {
            text: text.to_owned(),
        };
        for (seq, event) in [
            (1, Event::Started(Started {})),
            (2, Event::ThinkingDelta(said("hm"))),
            (3, Event::AssistantDelta(said("hi"))),
        ] {
            event.write_frame(seq, 0, &mut frames).unwrap();
        }
        frames.extend_from_slice(
            b"id: 4\nevent: new\ndata: {\"seq\":4,\"type\":\"new\",\"data\":{}}\n\n: heartbeat\n\n",
        );
        assert_eq!(
            summaries(&frames),
            [
                (1, EventSummary::Started),
                (2, EventSummary::Thinking),
                (3, EventSummary::Text("hi".to_owned()))
            ]
        );
    }
}
