//! One event of a run, typed where this version knows it.

use runloom_protocol::event::{Event, EventKind};
use runloom_protocol::sse::SseEvent;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// One event, with its place in the log.
#[derive(Debug, Clone)]
pub struct RunEvent {
    /// 1-based place in the log.
    pub seq: u64,
    /// The word under `type`.
    pub kind: String,
    /// The payload; `None` for a kind, or a form of it, that this version does not know.
    pub event: Option<Event>,
    /// The JSON of the whole frame, as it came.
    pub raw: Box<RawValue>,
}

impl RunEvent {
    /// True for the one event that ends a run.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        EventKind::parse(&self.kind).is_some_and(EventKind::is_terminal)
    }

    pub(crate) fn parse(sse: SseEvent<'_>) -> Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            seq: u64,
            #[serde(rename = "type")]
            kind: Option<String>,
        }
        let bad = |error: serde_json::Error| {
            Error::Protocol(format!("an event is not JSON with a seq: {error}"))
        };
        let raw: Box<RawValue> = serde_json::from_slice(sse.data).map_err(bad)?;
        let head: Head = serde_json::from_str(raw.get()).map_err(bad)?;
        let kind = match (sse.name, head.kind) {
            (Some(name), _) => name.to_owned(),
            (None, Some(kind)) => kind,
            (None, None) => return Err(Error::Protocol(format!("event {} has no type", head.seq))),
        };
        Ok(Self {
            seq: head.seq,
            kind,
            event: serde_json::from_str(raw.get()).ok(),
            raw,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: Option<&str>, data: &str) -> Result<RunEvent> {
        RunEvent::parse(SseEvent {
            name,
            data: data.as_bytes(),
        })
    }

    #[test]
    fn types_known_events() {
        let event = parse(
            Some("assistant_delta"),
            r#"{"seq":2,"type":"assistant_delta","text":"hi","data":{"text":"hi"}}"#,
        )
        .unwrap();
        assert!(matches!(event.event, Some(Event::AssistantDelta(delta)) if delta.text == "hi"));
    }

    #[test]
    fn keeps_unknown_events_raw() {
        let data = r#"{"seq":3,"type":"task_plan","v":2,"data":{"v":2}}"#;
        let event = parse(None, data).unwrap();
        assert_eq!((event.kind.as_str(), event.raw.get()), ("task_plan", data));
        assert!(event.event.is_none() && !event.is_terminal());
    }

    #[test]
    fn unknown_terminal_event_ends_the_stream() {
        let event = parse(
            Some("result"),
            r#"{"seq":4,"type":"result","data":{"shape":"new"}}"#,
        )
        .unwrap();
        assert!(event.is_terminal() && event.event.is_none());
    }

    #[test]
    fn refuses_data_that_is_not_an_event() {
        for data in ["nonsense", "{}", r#"{"seq":1}"#] {
            assert!(
                matches!(parse(None, data), Err(Error::Protocol(_))),
                "{data}"
            );
        }
    }
}
