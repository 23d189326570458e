//! A run as a stream of A2A events: the task, the growing answer, the end.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use runloom_protocol::resource::{RunSnapshot, RunStatus};
use runloom_service::EventStream;
use runloom_service::auth::Caller;
use serde_json::Value;

use super::wire::Version;
use crate::app::App;
use crate::rpc;
use crate::run_summary::{EventSummary, summaries};

/// Streams a run from its beginning until it ends or the server stops; the client then subscribes again.
pub(super) fn events(
    app: App,
    caller: Caller,
    (generation, id): (Version, Value),
    run: RunSnapshot,
    frames: EventStream,
) -> impl Stream<Item = Bytes> {
    let mut ready = VecDeque::new();
    // Streams from the beginning, also for a run that has ended: the log has all events.
    let run = RunSnapshot {
        status: RunStatus::Queued,
        final_text: None,
        completed_at: None,
        ..run
    };
    let teller = EventWriter {
        generation,
        id,
        run,
        said: String::new(),
        fresh: true,
    };
    ready.push_back(teller.frame("task", generation.task(&teller.run)));
    let following = RunEvents {
        app,
        caller,
        teller,
        frames: Some(frames),
        ready,
    };
    stream::unfold(following, |mut following| async move {
        let frame = following.next().await?;
        Some((frame, following))
    })
}

struct RunEvents {
    app: App,
    caller: Caller,
    teller: EventWriter,
    /// `None` after the end.
    frames: Option<EventStream>,
    ready: VecDeque<Bytes>,
}

impl RunEvents {
    async fn next(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() {
            let chunk = self.frames.as_mut()?.next().await?;
            let ended = self.teller.write_chunk(&chunk, &mut self.ready);
            if ended {
                self.frames = None;
                // The terminal event and the row of the run are one transaction, so the row is final.
                let id = self.teller.run.id.clone();
                let run = self
                    .app
                    .service
                    .runs()
                    .snapshot(&self.caller, id.as_str())
                    .await
                    .ok()?;
                self.teller.end(run, &mut self.ready);
            }
        }
        self.ready.pop_front()
    }
}

/// Turns summaries into A2A events and remembers what was sent.
struct EventWriter {
    generation: Version,
    id: Value,
    run: RunSnapshot,
    /// The answer as the client has it.
    said: String,
    /// The next piece replaces the answer.
    fresh: bool,
}

impl EventWriter {
    /// Adds the events of a chunk. Returns true when the run has ended.
    fn write_chunk(&mut self, chunk: &[u8], ready: &mut VecDeque<Bytes>) -> bool {
        let mut piece = String::new();
        for (_, summaries) in summaries(chunk) {
            match summaries {
                EventSummary::Text(text) => piece.push_str(&text),
                EventSummary::Started => {
                    let run = RunSnapshot {
                        status: RunStatus::Running,
                        ..self.run.clone()
                    };
                    let update = self.generation.status_update(&run);
                    ready.push_back(self.frame("statusUpdate", update));
                }
                EventSummary::TurnOver | EventSummary::Restarted => {
                    self.write_answer(&mut piece, ready);
                    self.fresh = true;
                }
                EventSummary::Ended => {
                    self.write_answer(&mut piece, ready);
                    return true;
                }
                EventSummary::Thinking | EventSummary::Tool => {}
            }
        }
        self.write_answer(&mut piece, ready);
        false
    }

    /// Joins the pieces of a chunk into one event.
    fn write_answer(&mut self, piece: &mut String, ready: &mut VecDeque<Bytes>) {
        if piece.is_empty() {
            return;
        }
        let append = !std::mem::take(&mut self.fresh);
        if !append {
            self.said.clear();
        }
        self.said.push_str(piece);
        let update = self.generation.piece(&self.run, piece, append, false);
        ready.push_back(self.frame("artifactUpdate", update));
        piece.clear();
    }

    /// The whole answer, if it differs from what was sent, and the end.
    fn end(&mut self, run: RunSnapshot, ready: &mut VecDeque<Bytes>) {
        let text = run.final_text.as_deref().unwrap_or_default();
        if run.status == RunStatus::Succeeded && text != self.said {
            let update = self.generation.piece(&run, text, false, true);
            ready.push_back(self.frame("artifactUpdate", update));
        }
        let update = self.generation.status_update(&run);
        ready.push_back(self.frame("statusUpdate", update));
    }

    fn frame(&self, name: &str, value: Value) -> Bytes {
        let result = self.generation.named(name, value);
        rpc::event(None, &rpc::answer(&self.id, &result))
    }
}
