//! Runs that are cancelled or whose provider breaks affect no other run.

use serde_json::json;

use crate::http::Api;
use crate::provider::Behaviour;
use crate::setup::{Setup, start_run, wait_for_end};

const BYSTANDERS: usize = 60;
const CANCELLED: usize = 120;
const BROKEN: usize = 60;

#[test]
fn cancelled_and_broken_runs_affect_no_other_run() {
    let setup = Setup::start();
    let api = setup.api();
    let held = |count| -> Vec<String> {
        let runs = 0..count;
        runs.map(|_| start_run(&api, Behaviour::Held)).collect()
    };
    let (bystanders, cancelled) = (held(BYSTANDERS), held(CANCELLED));
    setup.provider.wait_until_held(BYSTANDERS + CANCELLED);
    for run in &cancelled {
        cancel(&api, run);
    }
    let ended_by_the_provider: Vec<String> = (0..BROKEN)
        .map(|_| start_run(&api, Behaviour::Broken))
        .collect();
    let retried: Vec<String> = (0..BROKEN)
        .map(|_| start_run(&api, Behaviour::Unreliable))
        .collect();
    for run in &cancelled {
        assert_eq!(wait_for_end(&api, run).kind(), "cancelled");
    }
    for run in &ended_by_the_provider {
        let end = wait_for_end(&api, run);
        assert_eq!(end.kind(), "error");
        assert_eq!(end.data()["errorClass"], "server", "{}", end.data());
    }
    for run in &retried {
        wait_for_end(&api, run).assert_succeeded();
    }
    setup.nginx.reload();
    setup.provider.release();
    for run in &bystanders {
        wait_for_end(&api, run).assert_succeeded();
    }
}

fn cancel(api: &Api, run: &str) {
    let answer = api.post(&format!("/agent-runs/{run}/cancel"), &json!({}));
    assert!(answer.status < 300, "{answer:?}");
}
