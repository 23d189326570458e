//! Connections that are dead without anybody having been told.

use crate::provider::Behaviour;
use crate::relay::Relay;
use crate::server::settings;
use crate::setup::{Setup, start_run, wait_for_end};

#[test]
fn retries_on_another_connection() {
    let setup = Setup::start_with(&settings([(
        "RUNLOOM_RUNS__PROVIDER_FIRST_BYTE_MS",
        "2000",
    )]));
    let relay = Relay::start(setup.nginx.address);
    setup.use_provider_at(relay.address);
    let api = setup.api();
    for _ in 0..3 {
        // One run after the other, so that one connection is idle, and it is lost.
        let run = start_run(&api, Behaviour::Short);
        wait_for_end(&api, &run).assert_succeeded();
        relay.lose_connections();
    }
    let run = start_run(&api, Behaviour::Short);
    wait_for_end(&api, &run).assert_succeeded();
}
