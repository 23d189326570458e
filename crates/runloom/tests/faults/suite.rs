//! Everything dies, nothing is lost: one round for each topology.
//!
//! `RUNLOOM_TEST_SEED` repeats what happened, `RUNLOOM_FAULTS_MINUTES` makes it long, `RUNLOOM_FAULTS_ONLY` names the
//! faults.

use std::time::{Duration, Instant};

use crate::judge::judge;
use crate::load::Load;
use crate::plan::{Fault, Plan};
use crate::random::{Random, seed};
use crate::replicas::Role;
use crate::report::Report;
use crate::stage::{Stage, Topology};

const REPLICAS: [(Role, usize); 2] = [(Role::Api, 2), (Role::Worker, 3)];

/// Clients that work at the same time in the short and in the long form.
const CLIENTS: (usize, usize) = (16, 32);

fn minutes() -> Option<f64> {
    let given = std::env::var("RUNLOOM_FAULTS_MINUTES").ok()?;
    Some(given.parse().expect("RUNLOOM_FAULTS_MINUTES is a number"))
}

fn round(topology: Topology) {
    let seed = seed();
    let mut random = Random(seed);
    let only = std::env::var("RUNLOOM_FAULTS_ONLY").ok();
    let faults = Fault::chosen(topology, only.as_deref());
    if faults.is_empty() {
        println!("{topology:?}: none of the named faults can happen here");
        return;
    }
    let mut stage = Stage::start(topology, &REPLICAS, &Vec::new());
    stage.say(&format!("{topology:?}: 2 APIs and 3 workers are up"));
    let load = Load::new(&stage);
    let mut report = Report {
        name: format!("{topology:?}"),
        seed,
        ..Report::default()
    };
    let mut plan = Plan::new(random.split(), faults, &mut report);
    let long = minutes();
    let clients = if long.is_some() { CLIENTS.1 } else { CLIENTS.0 };
    let book = load.during(&mut stage, random, clients, |stage, load| match long {
        None => plan.once(stage, load),
        Some(minutes) => {
            let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
            plan.until(end, stage, load);
        }
    });
    stage.say("judging");
    let found = judge(&mut stage, &load, book, &mut report);
    report.print(&stage, &load);
    assert!(
        found.is_empty(),
        "{} violations:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn loses_nothing_with_postgres_rabbitmq_and_valkey() {
    round(Topology::Full);
}

#[test]
fn with_postgres_alone_nothing_is_lost() {
    round(Topology::PostgresAlone);
}
