//! A run as a stream of A2A events: the task, the answer as it grows, the end.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use runloom_protocol::resource::{RunSnapshot, RunStatus};
use runloom_service::EventStream;
use runloom_service::auth::Caller;
use serde_json::Value;

use super::wire::Generation;
use crate::app::App;
use crate::follow::{Heard, heard};
use crate::rpc;

/// Follows a run from its beginning. Ends with it, or early when the server stops: the client then subscribes again.
pub(super) fn events(
    app: App,
    caller: Caller,
    (generation, id): (Generation, Value),
    run: RunSnapshot,
    frames: EventStream,
) -> impl Stream<Item = Bytes> {
    let mut ready = VecDeque::new();
    // Told from the beginning, also when it has ended by now: the log says the rest, and who reads of an end stops reading.
    let run = RunSnapshot {
        status: RunStatus::Queued,
        final_text: None,
        completed_at: None,
        ..run
    };
    let teller = Teller {
        generation,
        id,
        run,
        said: String::new(),
        fresh: true,
    };
    ready.push_back(teller.frame("task", generation.task(&teller.run)));
    let following = Following {
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

struct Following {
    app: App,
    caller: Caller,
    teller: Teller,
    /// `None` after the end.
    frames: Option<EventStream>,
    ready: VecDeque<Bytes>,
}

impl Following {
    async fn next(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() {
            let chunk = self.frames.as_mut()?.next().await?;
            let ended = self.teller.hear(&chunk, &mut self.ready);
            if ended {
                self.frames = None;
                // The end and the run's row are one transaction, so the row is final.
                let id = self.teller.run.id.clone();
                let run = self.app.service.run(&self.caller, id.as_str()).await.ok()?;
                self.teller.end(run, &mut self.ready);
            }
        }
        self.ready.pop_front()
    }
}

/// Turns what is heard into events; knows what it has told.
struct Teller {
    generation: Generation,
    id: Value,
    run: RunSnapshot,
    /// The answer as the client has it.
    said: String,
    /// The next piece begins the answer anew.
    fresh: bool,
}

impl Teller {
    /// Tells what a chunk of the log says; true when the run has ended.
    fn hear(&mut self, chunk: &[u8], ready: &mut VecDeque<Bytes>) -> bool {
        let mut piece = String::new();
        for (_, heard) in heard(chunk) {
            match heard {
                Heard::Text(text) => piece.push_str(&text),
                Heard::Started => {
                    let run = RunSnapshot {
                        status: RunStatus::Running,
                        ..self.run.clone()
                    };
                    let update = self.generation.status_update(&run);
                    ready.push_back(self.frame("statusUpdate", update));
                }
                Heard::TurnOver | Heard::Restarted => {
                    self.tell(&mut piece, ready);
                    self.fresh = true;
                }
                Heard::Ended => {
                    self.tell(&mut piece, ready);
                    return true;
                }
                Heard::Thinking | Heard::Tool => {}
            }
        }
        self.tell(&mut piece, ready);
        false
    }

    /// Many pieces of a chunk are one event.
    fn tell(&mut self, piece: &mut String, ready: &mut VecDeque<Bytes>) {
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

    /// The answer, when it is not what was told, and the end.
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
