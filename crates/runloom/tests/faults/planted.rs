//! Bugs are planted, and the suite must find them; the same worlds without them are sound.

use std::time::{Duration, Instant};

use crate::judge::judge;
use crate::load::Load;
use crate::random::{Random, seed};
use crate::replicas::Role;
use crate::report::Report;
use crate::server::{PATIENCE, Settings, settings};
use crate::stage::{Stage, Topology};

/// Nobody sees anything for so long: several times what the sweeper needs.
const SILENCE: Duration = Duration::from_secs(12);

fn bug(name: &str) -> Settings {
    settings([("RUNLOOM_PLANT_BUG", name)])
}

/// What the suite finds in such a world.
fn found(
    topology: Topology,
    roles: &[(Role, usize)],
    settings: &Settings,
    faults: impl FnOnce(&mut Stage, &Load),
) -> Vec<String> {
    let mut stage = Stage::start(topology, roles, settings);
    let load = Load::new(&stage);
    found_by(&mut stage, &load, faults)
}

fn found_by(stage: &mut Stage, load: &Load, faults: impl FnOnce(&mut Stage, &Load)) -> Vec<String> {
    let mut random = Random(seed());
    let book = load.during_at_most(stage, &mut random, (8, SILENCE), faults);
    judge(stage, load, book, &mut Report::default())
}

fn some(found: &[String], words: &[&str]) {
    let meant = |violation: &String| words.iter().any(|words| violation.contains(words));
    assert!(found.iter().any(meant), "none of {words:?} in {found:?}");
}

/// One process dies, and its runs are free at once.
fn death(stage: &mut Stage, load: &Load) {
    load.clients.wait(150, SILENCE);
    let at = stage.running(|role| role == Role::All)[0];
    let process = stage.replicas[at].process();
    stage.kill(at);
    stage.audit.forget(&process);
}

/// The busiest worker stands still until others have some of its runs, then goes on.
fn pause(stage: &mut Stage, load: &Load) {
    load.clients.wait(150, SILENCE);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let Some(process) = stage.audit.busiest() else {
            continue;
        };
        let named = |at: &usize| stage.replicas[*at].process() == process;
        let at = stage.running(|role| role == Role::Worker);
        let at = at.into_iter().find(named).expect("a worker of ours");
        stage.replicas[at].signal("STOP");
        stage.audit.forget(&process);
        // Within a sweep, and as soon as nothing holds its rows any more; unless it held nothing when it stood still.
        let since = Instant::now();
        while stage.audit.taken_from(&process) == 0 && since.elapsed() < SILENCE {
            load.clients.wait(u64::MAX >> 1, Duration::from_millis(200));
        }
        load.clients.wait(50, SILENCE);
        stage.replicas[at].signal("CONT");
        load.clients.wait(100, SILENCE);
        if stage.audit.taken_from(&process) > 0 {
            return;
        }
    }
    panic!("no worker was caught with a run");
}

const DIVIDED: [(Role, usize); 2] = [(Role::Api, 1), (Role::Worker, 2)];

#[test]
fn finds_events_shown_before_durable() {
    let bug = bug("publish_first");
    let mut stage = Stage::start(Topology::PostgresAlone, &[(Role::All, 2)], &bug);
    // Calls of tools that nobody can answer yet would only hide what this is about.
    let mut load = Load::new(&stage);
    load.words_only = true;
    let found = found_by(&mut stage, &load, |stage, load| {
        // One crash finds the bug only by chance, many crashes find it reliably.
        for _ in 0..10 {
            death(stage, load);
        }
    });
    some(&found, &["saw another event"]);
}

#[test]
fn finds_an_unfenced_worker() {
    let mut stage = Stage::start(Topology::PostgresAlone, &DIVIDED, &bug("no_fence"));
    // Runs that talk are in the middle of something when their worker stands still.
    let mut load = Load::new(&stage);
    load.words_only = true;
    let found = found_by(&mut stage, &load, pause);
    some(&found, &["wrote event", "wrote in epoch"]);
}

#[test]
fn fenced_worker_after_a_pause_does_no_harm() {
    let found = found(Topology::PostgresAlone, &DIVIDED, &Vec::new(), pause);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn finds_missing_sweeps() {
    let calm = |_: &mut Stage, load: &Load| load.clients.wait(1, Duration::from_secs(1));
    let found = found(Topology::NoBroker, &DIVIDED, &bug("no_sweep"), calm);
    some(&found, &["never ended and is \"queued\""]);
}

#[test]
fn finds_every_run_without_the_broker() {
    let some = |_: &mut Stage, load: &Load| load.clients.wait(300, SILENCE);
    let found = found(Topology::NoBroker, &DIVIDED, &Vec::new(), some);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
