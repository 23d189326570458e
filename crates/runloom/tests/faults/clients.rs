//! Clients that come and go: any API, any time, and nothing lost.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::checker::Seen;
use crate::http::{Answer, Api};
use crate::random::Random;
use crate::replicas::Directory;
use crate::server::PATIENCE;
use crate::sse::{Frame, Stream};

/// What all clients share.
#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) directory: Arc<Directory>,
    seen: Mutex<u64>,
    more: Condvar,
    /// Nobody waits any longer.
    pub(crate) given_up: AtomicBool,
    /// Nobody waits longer than this.
    until: Mutex<Option<Instant>>,
    /// Streams opened, and requests sent again.
    pub(crate) streams: AtomicU64,
    pub(crate) repeats: AtomicU64,
    /// Answers that no client should get.
    pub(crate) complaints: Mutex<Vec<String>>,
}

/// How a follower treats tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    /// Executes and answers them, over any API.
    Answer,
    /// Leaves them to others.
    Watch,
}

/// The suite ends before this could.
#[derive(Debug)]
pub(crate) struct GivenUp;

impl Clients {
    pub(crate) fn of(directory: &Arc<Directory>) -> Self {
        Self {
            directory: Arc::clone(directory),
            ..Self::default()
        }
    }

    /// Events that clients have seen.
    pub(crate) fn events(&self) -> u64 {
        *self.seen.lock().unwrap()
    }

    fn saw_one(&self) {
        *self.seen.lock().unwrap() += 1;
        self.more.notify_all();
    }

    /// From here on, what does not end within this time is given up.
    pub(crate) fn hurry(&self, within: Duration) {
        self.given_up.store(false, Ordering::SeqCst);
        *self.until.lock().unwrap() = Some(Instant::now() + within);
    }

    /// Waits until this many more events were seen, or for the given time.
    pub(crate) fn wait(&self, events: u64, at_most: Duration) {
        let seen = self.seen.lock().unwrap();
        let wanted = *seen + events;
        let waiting = |seen: &mut u64| *seen < wanted;
        drop(self.more.wait_timeout_while(seen, at_most, waiting));
    }

    fn any(&self, random: &mut Random) -> Result<Api, GivenUp> {
        let begun = Instant::now();
        loop {
            let until = *self.until.lock().unwrap();
            let is_late = until.is_some_and(|until| Instant::now() > until);
            if is_late || self.given_up.load(Ordering::SeqCst) {
                return Err(GivenUp);
            }
            let mut apis = self.directory.apis();
            if !apis.is_empty() {
                let at = usize::try_from(random.below(apis.len() as u64)).unwrap();
                return Ok(apis.swap_remove(at));
            }
            assert!(begun.elapsed() < PATIENCE, "no API lives");
        }
    }

    /// A request that is sent again, to any API, until somebody answers it. Gives the answer and how often it was sent.
    pub(crate) fn insist(
        &self,
        random: &mut Random,
        send: impl Fn(&Api) -> io::Result<Answer>,
    ) -> Result<(Answer, u64), GivenUp> {
        let mut tries = 0;
        loop {
            let api = self.any(random)?;
            tries += 1;
            match send(&api) {
                Ok(answer) if answer.status < 500 => return Ok((answer, tries)),
                Ok(answer) if answer.status == 503 => {}
                Ok(answer) => self.complain(format!("an API answered {answer:?}")),
                Err(_) => {}
            }
            self.repeats.fetch_add(1, Ordering::Relaxed);
            self.wait(5, Duration::from_millis(50));
        }
    }

    pub(crate) fn complain(&self, what: String) {
        self.complaints.lock().unwrap().push(what);
    }

    /// Starts something under a key that makes repeating harmless; gives the run's id.
    pub(crate) fn create(
        &self,
        random: &mut Random,
        path: &str,
        key: &str,
        body: &Value,
    ) -> Result<String, GivenUp> {
        let bytes = body.to_string().into_bytes();
        let headers = [("Idempotency-Key", key)];
        let (answer, _) = self.insist(random, |api| api.send("POST", path, &headers, &bytes))?;
        assert_eq!(answer.status, 202, "{answer:?}");
        Ok(answer.json()["runId"].as_str().unwrap().to_owned())
    }

    /// Asks any API to cancel the run.
    pub(crate) fn cancel(&self, random: &mut Random, run: &str) -> Result<(), GivenUp> {
        let path = format!("/agent-runs/{run}/cancel");
        let (answer, _) = self.insist(random, |api| api.send("POST", &path, &[], b""))?;
        assert_eq!(answer.status, 200, "{answer:?}");
        Ok(())
    }

    /// Follows a run to its end, or until `enough`, over any number of connections to any API.
    pub(crate) fn follow(
        &self,
        random: &mut Random,
        run: &str,
        tools: Tools,
        seen: &mut Seen,
        enough: impl Fn(&Frame) -> bool,
    ) -> Result<(), GivenUp> {
        loop {
            let api = self.any(random)?;
            let last = seen.frames.last().map_or(0, Frame::seq);
            let mut stream = match Stream::open(&api, run, last) {
                Ok(Ok(stream)) => stream,
                Ok(Err(answer)) => {
                    if answer.status != 503 {
                        self.complain(format!("the stream of {run} was answered {answer:?}"));
                    }
                    self.wait(5, Duration::from_millis(50));
                    continue;
                }
                Err(_) => {
                    self.wait(5, Duration::from_millis(50));
                    continue;
                }
            };
            self.streams.fetch_add(1, Ordering::Relaxed);
            // Some let go early and come back elsewhere.
            let patience = 5 + random.below(80);
            for _ in 0..patience {
                let Ok(Some(frame)) = stream.next() else {
                    break;
                };
                self.saw_one();
                let (terminal, enough) = (frame.is_terminal(), enough(&frame));
                let asked = (frame.kind() == "local_tool_call").then(|| frame.data());
                seen.frames.push(frame);
                if terminal || enough {
                    return Ok(());
                }
                if let Some(call) = asked.filter(|_| tools == Tools::Answer) {
                    self.answer(random, run, &call, seen)?;
                }
            }
        }
    }

    /// Answers a call of a client's tool.
    pub(crate) fn answer(
        &self,
        random: &mut Random,
        run: &str,
        call: &Value,
        seen: &mut Seen,
    ) -> Result<(), GivenUp> {
        let id = call["toolUseId"].as_str().unwrap().to_owned();
        let output = format!("{} of {}", call["name"].as_str().unwrap(), call["args"]);
        let body = json!({"toolUseId": id, "result": output}).to_string();
        let path = format!("/agent-runs/{run}/tool-results");
        let (answer, tries) =
            self.insist(random, |api| api.send("POST", &path, &[], body.as_bytes()))?;
        match answer.status {
            200 => seen.acknowledged.push((id, output)),
            // An earlier try was taken, and nobody could say so.
            404 | 409 if tries > 1 => {}
            status => seen.refused.push((id, status)),
        }
        Ok(())
    }

    /// Waits until `done`, and gives up when nobody sees anything for so long.
    pub(crate) fn settle(&self, silence: Duration, done: impl Fn() -> bool) {
        let (mut events, mut since) = (self.events(), Instant::now());
        while !done() {
            self.wait(1, Duration::from_millis(100));
            if self.events() > events {
                (events, since) = (self.events(), Instant::now());
            } else if since.elapsed() > silence {
                self.given_up.store(true, Ordering::SeqCst);
                return;
            }
        }
    }
}
