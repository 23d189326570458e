//! A server that dies and comes back, and clients that do not mind.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::sync::{Condvar, Mutex};

use serde_json::{Value, json};

use crate::checker::{Evidence, Seen, violations};
use crate::evidence::{evidence, shown};
use crate::http::{Answer, Api};
use crate::server::{PATIENCE, Server, Settings};
use crate::sse::Stream;

/// How a follower treats tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    /// Executes and answers them.
    Answer,
    /// Leaves them to others.
    Watch,
}

/// One data folder and the servers that live on it, one after the other.
pub(crate) struct World {
    folder: tempfile::TempDir,
    settings: Settings,
    current: Mutex<Current>,
    changed: Condvar,
}

#[derive(Default)]
struct Current {
    generation: u64,
    api: Option<Api>,
    process: u32,
    closing: bool,
    crashes: u64,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            settings,
            current: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Starts the next server on the folder and tells everybody.
    pub(crate) fn start(&self, extra: &[(String, String)]) -> Server {
        let settings: Vec<_> = self.settings.iter().chain(extra).cloned().collect();
        let server = Server::dev(self.folder.path(), &settings);
        let mut current = self.current.lock().unwrap();
        current.generation += 1;
        current.api = Some(server.api());
        current.process = server.id();
        self.changed.notify_all();
        server
    }

    /// The server that is newer than `generation`, once it is there.
    pub(crate) fn after(&self, generation: u64) -> (u64, Api) {
        let current = self.current.lock().unwrap();
        let (current, waited) = self
            .changed
            .wait_timeout_while(current, PATIENCE, |current| {
                current.generation <= generation
            })
            .unwrap();
        assert!(
            !waited.timed_out(),
            "no server came after generation {generation}"
        );
        (current.generation, current.api.clone().unwrap())
    }

    /// Runs `work` while a server lives that crashes at `point`; it is started again as often as it crashes. Returns
    /// how often that was.
    pub(crate) fn survive(&self, point: &str, work: impl FnOnce(&Self)) -> u64 {
        let armed = vec![("RUNLOOM_CRASH_AT".to_owned(), point.to_owned())];
        let mut server = self.start(&armed);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    let status = server.ended();
                    let closing = {
                        let mut current = self.current.lock().unwrap();
                        current.crashes += u64::from(!current.closing);
                        current.closing
                    };
                    if closing {
                        break;
                    }
                    // An abort, as planned: nothing else may end the server.
                    assert_eq!(status.signal(), Some(6), "{status:?}\n{}", server.said());
                    server = self.start(&[]);
                }
            });
            // A failing test must not wait for a server that goes on.
            let _closer = Closer(self);
            work(self);
        });
        self.current.lock().unwrap().crashes
    }

    fn close(&self) {
        let process = {
            let mut current = self.current.lock().unwrap();
            current.closing = true;
            current.process
        };
        let line = format!("kill -KILL {process}");
        let _ = std::process::Command::new("sh")
            .args(["-c", &line])
            .status();
    }

    /// A request that is sent again to the next server when this one dies.
    pub(crate) fn insist(&self, send: impl Fn(&Api) -> io::Result<Answer>) -> Answer {
        let mut generation = 0;
        loop {
            let (now, api) = self.after(generation);
            match send(&api) {
                Ok(answer) => return answer,
                Err(_) => generation = now,
            }
        }
    }

    /// Starts something under a key that makes repeating harmless; gives the run's id.
    pub(crate) fn create(&self, path: &str, key: &str, body: &Value) -> String {
        let bytes = body.to_string().into_bytes();
        let answer = self.insist(|api| api.send("POST", path, &[("Idempotency-Key", key)], &bytes));
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["runId"].as_str().unwrap().to_owned()
    }

    /// Follows a run to its end over any number of servers.
    pub(crate) fn follow(&self, run: &str, tools: Tools) -> Seen {
        self.follow_and(run, tools, |_| {})
    }

    /// The same, and looks at each event as it comes.
    pub(crate) fn follow_and(&self, run: &str, tools: Tools, mut look: impl FnMut(&Seen)) -> Seen {
        let mut seen = Seen::default();
        let mut generation = 0;
        loop {
            let (now, api) = self.after(generation);
            generation = now;
            let last = seen.frames.last().map_or(0, crate::sse::Frame::seq);
            let mut stream = match Stream::open(&api, run, last) {
                Ok(Ok(stream)) => stream,
                Ok(Err(answer)) => panic!("{run} after {last}: {answer:?}"),
                Err(_) => continue,
            };
            while let Ok(Some(frame)) = stream.next() {
                let terminal = frame.is_terminal();
                let asked = (frame.kind() == "local_tool_call").then(|| frame.data());
                seen.frames.push(frame);
                look(&seen);
                if terminal {
                    return seen;
                }
                if let Some(call) = asked.filter(|_| tools == Tools::Answer) {
                    self.answer(run, &call, &mut seen);
                }
            }
        }
    }

    fn answer(&self, run: &str, call: &Value, seen: &mut Seen) {
        let id = call["toolUseId"].as_str().unwrap().to_owned();
        let output = format!("{} of {}", call["name"].as_str().unwrap(), call["args"]);
        let body = json!({"toolUseId": id, "result": output})
            .to_string()
            .into_bytes();
        let tries = std::cell::Cell::new(0);
        let answer = self.insist(|api| {
            tries.set(tries.get() + 1);
            api.send(
                "POST",
                &format!("/agent-runs/{run}/tool-results"),
                &[],
                &body,
            )
        });
        match answer.status {
            200 => seen.acknowledged.push((id, output)),
            // An earlier try was taken, and nobody could say so.
            404 | 409 if tries.get() > 1 => {}
            status => seen.refused.push((id, status)),
        }
    }

    /// Everything that is known of a run that has ended.
    pub(crate) fn evidence(&self, run: &str, seen: &[Seen], read_only: &[&str]) -> Evidence {
        let mut generation = 0;
        loop {
            let (now, api) = self.after(generation);
            match evidence(&api, run, seen, read_only) {
                Ok(evidence) => return evidence,
                Err(_) => generation = now,
            }
        }
    }

    /// Judges a run that has ended; gives its evidence.
    pub(crate) fn judge(&self, run: &str, seen: Vec<Seen>, read_only: &[&str]) -> Evidence {
        let evidence = self.evidence(run, &seen, read_only);
        let found = violations(&evidence);
        assert!(
            found.is_empty(),
            "{run}:\n  {}\n{}",
            found.join("\n  "),
            shown(&evidence)
        );
        evidence
    }

    /// The ids of all runs of the workspace.
    pub(crate) fn runs(&self) -> BTreeSet<String> {
        let list = self
            .insist(|api| api.send("GET", "/agent-runs?limit=200", &[], b""))
            .json();
        let runs = list["runs"].as_array().unwrap().iter();
        runs.map(|run| run["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

struct Closer<'a>(&'a World);

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
