//! SIGKILL at random moments under load. `RUNLOOM_TEST_SEED` repeats a failure; the seed is printed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use crate::checker::Seen;
use crate::random::{Random, seed};
use crate::server::{PATIENCE, settings};
use crate::world::{Tools, World};

const ROUNDS: u64 = 15;
const RUNS: usize = 20;
/// Events that clients see between two kills, at most.
const CALM: u64 = 400;

fn prompt(kind: u64) -> &'static str {
    match kind {
        0 => "slow 2ms\ntokens 30",
        1 => {
            "call act {\"n\":1}\ncall read {\"n\":2}\ncall act {\"n\":3}\nthen\ncall read {\"n\":4}\ncall read {\"n\":5}"
        }
        2 => {
            "call act {}\nthen\ncall act {\"n\":2}\nthen\ncall act {\"n\":3}\nsay enough\nslow 1ms"
        }
        3 => "fail 500 1\nsay after a retry",
        _ => "tokens 200",
    }
}

fn body(prompt: &str) -> Value {
    let tool = |name: &str| json!({"kind": "local", "name": name, "readOnly": name == "read", "parameters": {"type": "object"}});
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt, "tools": [tool("act"), tool("read")]})
}

/// Keeps starting and following runs until it is told to stop.
fn client(world: &World, name: usize, mut random: Random, state: &State) {
    let mut number = 0;
    while state.rounds.load(Ordering::SeqCst) < ROUNDS {
        number += 1;
        let prompt = prompt(random.below(5));
        let run = world.create("/agent-runs", &format!("{name}-{number}"), &body(prompt));
        let seen = world.follow_and(&run, Tools::Answer, |_| state.saw_one());
        state.followed.lock().unwrap().insert(run, seen);
    }
}

struct State {
    rounds: AtomicU64,
    events: AtomicU64,
    kill_at: AtomicU64,
    kill: Mutex<std::sync::mpsc::Sender<()>>,
    followed: Mutex<BTreeMap<String, Seen>>,
}

impl State {
    fn saw_one(&self) {
        if self.events.fetch_add(1, Ordering::SeqCst) + 1 == self.kill_at.load(Ordering::SeqCst) {
            let _ = self.kill.lock().unwrap().send(());
        }
    }
}

#[test]
fn random_kills_under_load_lose_nothing() {
    let mut random = Random(seed());
    let world = World::new(settings([
        ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "1000000"),
        ("RUNLOOM_LIMITS__LIFECYCLE_PER_MINUTE", "1000000"),
        ("RUNLOOM_LIMITS__READS_PER_MINUTE", "1000000"),
        ("RUNLOOM_RUNS__PARK_AFTER_MS", "3"),
    ]));
    let (kill, killed) = channel();
    let state = State {
        rounds: AtomicU64::new(0),
        events: AtomicU64::new(0),
        kill_at: AtomicU64::new(1 + random.below(CALM)),
        kill: Mutex::new(kill),
        followed: Mutex::default(),
    };
    let mut server = world.start(&[]);
    std::thread::scope(|scope| {
        for name in 0..RUNS {
            let random = random.split();
            let (world, state) = (&world, &state);
            scope.spawn(move || client(world, name, random, state));
        }
        for _ in 0..ROUNDS {
            killed.recv_timeout(PATIENCE).unwrap();
            server.kill();
            state.rounds.fetch_add(1, Ordering::SeqCst);
            // Counted from now on: what was seen while the server died is past.
            let next = 1 + random.below(CALM);
            state
                .kill_at
                .store(state.events.load(Ordering::SeqCst) + next, Ordering::SeqCst);
            server = world.start(&[]);
        }
    });
    let followed = state.followed.into_inner().unwrap();
    assert!(followed.len() >= RUNS);
    for (run, seen) in followed {
        let evidence = world.judge(&run, vec![seen], &["read"]);
        let end = evidence.log.last().unwrap();
        // What was broken five times at the same place is given up, and says so; nothing else may fail.
        let why = end.data()["error"].as_str().unwrap_or_default().to_owned();
        let given_up = why.contains("interrupted 5 times") || why.contains("called again 5 times");
        assert!(end.kind() == "result" || given_up, "{}", end.json());
    }
}
