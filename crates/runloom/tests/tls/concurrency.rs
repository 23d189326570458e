//! Runs at the same time.

use crate::provider::Behaviour;
use crate::setup::{Setup, start_run, wait_for_end};

/// Far more than the streams that a server allows on one HTTP/2 connection (nginx: 128).
const AT_ONCE: usize = 400;

#[test]
fn all_runs_reach_the_provider_at_once() {
    let setup = Setup::start();
    let api = setup.api();
    // No response comes before every request is there.
    setup.provider.expect(AT_ONCE);
    let runs: Vec<String> = (0..AT_ONCE)
        .map(|_| start_run(&api, Behaviour::Together))
        .collect();
    for run in runs {
        wait_for_end(&api, &run).assert_succeeded();
    }
    let requests = setup.nginx.requests();
    assert_eq!(requests.len(), AT_ONCE);
    for request in requests {
        assert_eq!(request.protocol, "HTTP/1.1");
    }
}
