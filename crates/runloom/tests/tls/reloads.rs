//! Many short runs over few connections, while the terminator closes connections, reloads and restarts.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::provider::Behaviour;
use crate::setup::{Setup, start_run, wait_for_end};

const RUNS: usize = 600;
const AT_ONCE: usize = 8;
const RELOADS: usize = 6;

#[test]
fn short_runs_survive_reloads() {
    let setup = Setup::start();
    let api = setup.api();
    let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while started.fetch_add(1, Ordering::SeqCst) < RUNS {
                    let run = start_run(&api, Behaviour::Short);
                    wait_for_end(&api, &run).assert_succeeded();
                    if (ended.fetch_add(1, Ordering::SeqCst) + 1) % (RUNS / RELOADS) == 0 {
                        // The other clients go on meanwhile.
                        setup.nginx.reload();
                    }
                }
            });
        }
    });
    let requests = setup.nginx.requests();
    assert!(requests.len() >= RUNS, "{}", requests.len());
    let connections: HashSet<u64> = requests.iter().map(|one| one.connection).collect();
    assert!(
        connections.len() < RUNS / 4,
        "{} connections for {RUNS} runs: they are not reused",
        connections.len()
    );
}

#[test]
fn run_after_a_reload_succeeds() {
    let mut setup = Setup::start();
    let api = setup.api();
    for _ in 0..5 {
        // Several connections become idle; all of them are reset by the restart.
        let runs: Vec<String> = (0..AT_ONCE)
            .map(|_| start_run(&api, Behaviour::Short))
            .collect();
        for run in runs {
            wait_for_end(&api, &run).assert_succeeded();
        }
        setup.nginx.restart();
    }
}
