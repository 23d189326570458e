//! A call of a published agent: its run as a stream of progress notifications that ends with the result.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::{RunSnapshot, RunStatus};
use runloom_service::EventStream;
use runloom_service::auth::Caller;
use serde_json::{Value, json};

use crate::app::App;
use crate::rpc;
use crate::run_summary::{EventSummary, failure, summaries};

/// A call whose run is streamed.
pub(super) struct Call {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) run: RunId,
    /// The id of the request.
    pub(super) id: Value,
    /// The progress token of the client.
    pub(super) progress: Option<Value>,
    /// Whether closing the response cancels the run.
    pub(super) closing_cancels: bool,
    /// Whether the stream begins with an event id to resume from.
    pub(super) primed: bool,
    /// Whether the result has the form of stateless revisions.
    pub(super) modern: bool,
}

impl Call {
    /// The event id to resume from after this event; `None` when closing the response cancels the run.
    fn place(&self, seq: u64) -> Option<String> {
        (!self.closing_cancels).then(|| place(&self.run, seq, &self.id))
    }

    /// The stream of frames after the event `after`.
    pub(super) fn events(self, frames: EventStream, after: u64) -> impl Stream<Item = Bytes> {
        let mut ready = VecDeque::new();
        if self.primed {
            let place = place(&self.run, after, &self.id);
            ready.push_back(Bytes::from(format!("id: {place}\ndata: \n\n")));
        }
        let following = RunEvents {
            call: self,
            frames: Some(frames),
            last: None,
            ready,
        };
        stream::unfold(following, |mut following| async move {
            let frame = following.next().await?;
            Some((frame, following))
        })
    }
}

struct RunEvents {
    call: Call,
    /// `None` after the end.
    frames: Option<EventStream>,
    /// The last progress that was sent.
    last: Option<&'static str>,
    ready: VecDeque<Bytes>,
}

impl RunEvents {
    async fn next(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() {
            let chunk = self.frames.as_mut()?.next().await?;
            for (seq, summaries) in summaries(&chunk) {
                let ended = summaries == EventSummary::Ended;
                if let Some(words) = words(&summaries) {
                    self.tell(seq, words);
                }
                if ended {
                    self.frames = None;
                    self.end(seq).await;
                }
            }
        }
        self.ready.pop_front()
    }

    /// A progress notification if something new happens, not for every word.
    fn tell(&mut self, seq: u64, words: &'static str) {
        let Some(token) = &self.call.progress else {
            return;
        };
        if self.last.replace(words) == Some(words) {
            return;
        }
        let params = json!({"progressToken": token, "progress": seq, "message": words});
        let notice =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        let event = rpc::event(self.call.place(seq).as_deref(), &notice);
        self.ready.push_back(event);
    }

    /// The terminal event and the row of the run are one transaction, so the row is final.
    async fn end(&mut self, seq: u64) {
        let Call {
            app,
            caller,
            run,
            id,
            modern,
            ..
        } = &self.call;
        let answer = match app.service.runs().snapshot(caller, run.as_str()).await {
            Ok(run) => rpc::answer(id, &result(&run, *modern)),
            Err(error) => {
                tracing::warn!(%error, "result of a call cannot be read");
                rpc::Fault::new(rpc::INTERNAL, "The result of the call cannot be read.")
                    .to_response(id)
            }
        };
        // Resuming from here repeats the result, which may not have arrived.
        let place = self.call.place(seq.saturating_sub(1));
        let event = rpc::event(place.as_deref(), &answer);
        self.ready.push_back(event);
    }
}

impl Drop for RunEvents {
    /// Cancels the run when the client closed the response before its end.
    fn drop(&mut self) {
        let Call {
            app, caller, run, ..
        } = &self.call;
        let closed = self.frames.is_some() && !app.shutdown.has_ended_streams();
        if !self.call.closing_cancels || !closed {
            return;
        }
        let (app, caller, run) = (app.clone(), caller.clone(), run.clone());
        let cancel = async move {
            let cancelled = app.service.runs().cancel(&caller, run.as_str()).await;
            if let Err(error) = cancelled {
                tracing::warn!(%error, "abandoned call not cancelled");
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cancel);
        }
    }
}

/// The text of a progress notification, without internals of the agent.
fn words(summaries: &EventSummary) -> Option<&'static str> {
    match summaries {
        EventSummary::Started => Some("The agent has begun."),
        EventSummary::Thinking => Some("The agent is thinking."),
        EventSummary::Text(_) => Some("The agent is answering."),
        EventSummary::Tool => Some("The agent is working."),
        EventSummary::Restarted => Some("The agent begins its turn again."),
        EventSummary::TurnOver | EventSummary::Ended => None,
    }
}

/// The result of a call whose run has ended.
pub(super) fn result(run: &RunSnapshot, modern: bool) -> Value {
    let mut result = match run.status {
        RunStatus::Succeeded => succeeded(run),
        RunStatus::Cancelled => failed("The call was cancelled."),
        _ => failed(failure(run)),
    };
    result["_meta"] = json!({"mantyx": {"runId": run.id, "tokens": run.tokens, "turns": run.turns, "model": run.model}});
    if modern {
        result["resultType"] = json!("complete");
    }
    result
}

fn succeeded(run: &RunSnapshot) -> Value {
    let text = run.final_text.as_deref().unwrap_or_default();
    let mut result = json!({"content": [{"type": "text", "text": text}], "isError": false});
    let schema = run.agent_spec.output_schema.as_ref();
    if schema.is_some_and(|schema| is_object(&schema.schema)) {
        // A missing structured result is an error, because the tool declares an output schema.
        match serde_json::from_str::<Value>(text) {
            Ok(value) if value.is_object() => result["structuredContent"] = value,
            _ => result["isError"] = json!(true),
        }
    }
    result
}

/// A result that reports an error to the model.
pub(super) fn failed(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}], "isError": true})
}

/// True when answers of this schema are objects; older revisions allow nothing else.
pub(super) fn is_object(schema: &serde_json::Map<String, Value>) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// An event id: the run, the last known event, and the id of the request.
fn place(run: &RunId, seq: u64, id: &Value) -> String {
    let id: String = id
        .to_string()
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{run}.{seq}.{id}")
}

/// Parses an event id.
pub(super) fn parse_event_id(text: &str) -> Option<(RunId, u64, Value)> {
    let mut parts = text.splitn(3, '.');
    let run = RunId::parse(parts.next()?)?;
    let seq = crate::extract::digits(parts.next()?)?;
    let hex = parts.next()?.as_bytes();
    let bytes: Option<Vec<u8>> = hex
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let id: Value = serde_json::from_slice(&bytes?).ok()?;
    (id.is_string() || id.is_number()).then_some((run, seq, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_its_own_event_ids() {
        let run = RunId::from_suffix("1");
        for id in [json!(7), json!("a.b\n\u{e9}")] {
            let text = place(&run, 3, &id);
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            assert_eq!(parse_event_id(&text), Some((run.clone(), 3, id)));
        }
        for other in [
            "",
            "run_1",
            "run_1.3",
            "run_1.3.",
            "run_1.x.37",
            "ses_1.3.37",
            "run_1.3.7",
            "run_1.3.zz",
            "run_1.3.7b7d",
        ] {
            assert_eq!(parse_event_id(other), None, "{other}");
        }
    }
}
