//! The work that goes on while everything dies: runs of every kind, by clients that come and go.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::checker::Seen;
use crate::clients::{Clients, GivenUp, Tools};
use crate::random::Random;
use crate::script::{CLIENT_TOOLS, SERVER_TOOLS, Script, Turn, spec};
use crate::stage::Stage;

/// How long nobody may see anything before what is left is given up. Far above the take-over of a dead worker.
const SILENCE: Duration = Duration::from_secs(40);

/// What became of a run that was accepted.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) run: String,
    pub(crate) seen: Vec<Seen>,
    /// It was left alone with a question to its client.
    pub(crate) waits: bool,
    /// Somebody asked for its end.
    pub(crate) cancelled: bool,
}

/// The clients' work.
pub(crate) struct Load {
    pub(crate) clients: Clients,
    tools_url: String,
    /// Only runs that say something, without any tools.
    pub(crate) words_only: bool,
    stop: AtomicBool,
    working: AtomicU64,
    open: Mutex<BTreeSet<String>>,
    book: Mutex<Vec<Record>>,
}

/// What is known when all clients have ended.
pub(crate) struct Book {
    pub(crate) records: Vec<Record>,
    /// Accepted, and its client waited in vain for its end.
    pub(crate) unfinished: BTreeSet<String>,
}

impl Load {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            clients: Clients::of(&stage.directory),
            tools_url: stage.tools_url.clone(),
            words_only: false,
            stop: AtomicBool::new(false),
            working: AtomicU64::new(0),
            open: Mutex::default(),
            book: Mutex::default(),
        }
    }

    /// Runs that were accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.open.lock().unwrap().len() + self.book.lock().unwrap().len()
    }

    /// Runs this many clients while `faults` happen, then waits until their runs have ended.
    pub(crate) fn during(
        &self,
        stage: &mut Stage,
        mut random: Random,
        clients: usize,
        faults: impl FnOnce(&mut Stage, &Self),
    ) -> Book {
        self.during_at_most(stage, &mut random, (clients, SILENCE), faults)
    }

    /// The same, with another patience for what does not end.
    pub(crate) fn during_at_most(
        &self,
        stage: &mut Stage,
        random: &mut Random,
        (clients, silence): (usize, Duration),
        faults: impl FnOnce(&mut Stage, &Self),
    ) -> Book {
        self.working.store(clients as u64, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for name in 0..clients {
                let random = random.split();
                scope.spawn(move || self.client(name, random));
            }
            // A failing plan must not wait for clients that go on.
            let closer = Closer(self);
            faults(stage, self);
            self.stop.store(true, Ordering::SeqCst);
            stage.say("no more faults and no more runs; waiting for those under way");
            let done = || self.working.load(Ordering::SeqCst) == 0;
            self.clients.settle(silence, done);
            if self.clients.given_up.load(Ordering::SeqCst) {
                stage.say("giving up on what does not end");
                // Their streams end with the APIs.
                for at in stage.running(|_| true) {
                    stage.replicas[at].kill();
                }
            }
            drop(closer);
        });
        for at in 0..stage.replicas.len() {
            if !stage.replicas[at].is_running() {
                stage.replicas[at].start();
            }
        }
        Book {
            records: std::mem::take(&mut self.book.lock().unwrap()),
            unfinished: std::mem::take(&mut self.open.lock().unwrap()),
        }
    }

    fn client(&self, name: usize, mut random: Random) {
        let _leaver = Leaver(&self.working);
        let mut number = 0;
        while !self.stop.load(Ordering::SeqCst) {
            number += 1;
            let id = format!("c{name}n{number}");
            if self.story(&id, &mut random).is_err() {
                return;
            }
        }
    }

    /// One thing that a client does.
    fn story(&self, id: &str, random: &mut Random) -> Result<(), GivenUp> {
        let all: Vec<&str> = [&CLIENT_TOOLS[..], &SERVER_TOOLS].concat();
        let id = id.to_owned();
        let kinds = if self.words_only { 3 } else { 16 };
        match random.below(kinds) {
            0..=2 => {
                let words = 10 + random.below(40);
                self.plain(&Script::new(id, vec![Turn::saying(words, 4)]), random)
            }
            3..=5 => self.plain(&Script::calling(id, &CLIENT_TOOLS, random), random),
            6..=9 => self.plain(&Script::calling(id, &SERVER_TOOLS, random), random),
            10 => self.plain(&Script::calling(id, &all, random), random),
            11 => self.watched(&Script::calling(id, &all, random), random),
            12 | 13 => self.cancelled(id, random),
            14 => self.conversation(&id, random),
            _ => self.left_alone(id, random),
        }
    }

    fn begin(&self, script: &Script, random: &mut Random) -> Result<String, GivenUp> {
        let body = script.body(&self.tools_url);
        let run = self
            .clients
            .create(random, "/agent-runs", &script.id, &body)?;
        self.open.lock().unwrap().insert(run.clone());
        Ok(run)
    }

    fn record(&self, record: Record) {
        self.open.lock().unwrap().remove(&record.run);
        self.book.lock().unwrap().push(record);
    }

    fn ended(&self, run: String, seen: Vec<Seen>) {
        self.record(Record {
            run,
            seen,
            waits: false,
            cancelled: false,
        });
    }

    /// Follows a run of this script and answers its tools.
    pub(crate) fn plain(&self, script: &Script, random: &mut Random) -> Result<(), GivenUp> {
        let run = self.begin(script, random)?;
        let mut seen = Seen::default();
        self.clients
            .follow(random, &run, Tools::Answer, &mut seen, |_| false)?;
        self.ended(run, vec![seen]);
        Ok(())
    }

    /// The same under the eyes of two more.
    fn watched(&self, script: &Script, random: &mut Random) -> Result<(), GivenUp> {
        let run = self.begin(script, random)?;
        let follow = |mut random: Random, tools: Tools| {
            let mut seen = Seen::default();
            self.clients
                .follow(&mut random, &run, tools, &mut seen, |_| false)
                .map(|()| seen)
        };
        let (one, two) = (random.split(), random.split());
        let seen = std::thread::scope(|scope| {
            let watching = [one, two].map(|random| scope.spawn(|| follow(random, Tools::Watch)));
            let mut seen = vec![follow(random.split(), Tools::Answer)];
            seen.extend(watching.map(|thread| thread.join().unwrap()));
            seen.into_iter().collect::<Result<Vec<Seen>, GivenUp>>()
        })?;
        self.ended(run, seen);
        Ok(())
    }

    /// Cancels a long answer somewhere, over any API.
    fn cancelled(&self, id: String, random: &mut Random) -> Result<(), GivenUp> {
        let script = Script::new(id, vec![Turn::saying(4_000, 10)]);
        let run = self.begin(&script, random)?;
        let (mut seen, at) = (Seen::default(), 2 + random.below(20));
        let enough = |frame: &crate::sse::Frame| frame.seq() >= at;
        self.clients
            .follow(random, &run, Tools::Watch, &mut seen, enough)?;
        self.clients.cancel(random, &run)?;
        if !seen
            .frames
            .last()
            .is_some_and(crate::sse::Frame::is_terminal)
        {
            self.clients
                .follow(random, &run, Tools::Watch, &mut seen, |_| false)?;
        }
        self.record(Record {
            run,
            seen: vec![seen],
            waits: false,
            cancelled: true,
        });
        Ok(())
    }

    /// A session whose messages do not wait for each other.
    fn conversation(&self, id: &str, random: &mut Random) -> Result<(), GivenUp> {
        let bytes = spec(&self.tools_url).to_string().into_bytes();
        let (made, _) = self.clients.insist(random, |api| {
            api.send("POST", "/agent-sessions", &[], &bytes)
        })?;
        assert_eq!(made.status, 201, "{made:?}");
        let session = made.json()["sessionId"].as_str().unwrap().to_owned();
        let path = format!("/agent-sessions/{session}/messages");
        let mut runs = Vec::new();
        for message in 0..3 {
            let script = Script::calling(format!("{id}m{message}"), &SERVER_TOOLS, random);
            let body = json!({"prompt": script.prompt()});
            let run = self.clients.create(random, &path, &script.id, &body)?;
            self.open.lock().unwrap().insert(run.clone());
            runs.push(run);
        }
        for run in runs {
            let mut seen = Seen::default();
            self.clients
                .follow(random, &run, Tools::Answer, &mut seen, |_| false)?;
            self.ended(run, vec![seen]);
        }
        Ok(())
    }

    /// Asks for a tool of its client, who goes away.
    fn left_alone(&self, id: String, random: &mut Random) -> Result<(), GivenUp> {
        let script = Script::new(id, vec![Turn::calling(&["act"]), Turn::saying(3, 0)]);
        let run = self.begin(&script, random)?;
        let mut seen = Seen::default();
        let asked = |frame: &crate::sse::Frame| frame.kind() == "local_tool_call";
        self.clients
            .follow(random, &run, Tools::Watch, &mut seen, asked)?;
        self.record(Record {
            run,
            seen: vec![seen],
            waits: true,
            cancelled: false,
        });
        Ok(())
    }
}

struct Leaver<'a>(&'a AtomicU64);

impl Drop for Leaver<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Closer<'a>(&'a Load);

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        if std::thread::panicking() {
            self.0.clients.given_up.store(true, Ordering::SeqCst);
        }
    }
}
