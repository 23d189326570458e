//! Runs that wait for their client without a worker: woken by an answer, a cancel or their deadline, before and after
//! a restart.

use serde_json::{Value, json};

use crate::server::{Settings, settings};
use crate::sse::{Stream, until};
use crate::world::{Tools, World};

fn agent(prompt: &str) -> Value {
    let tool = |name: &str| json!({"kind": "local", "name": name, "readOnly": true, "parameters": {"type": "object"}});
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt, "tools": [tool("a"), tool("b")]})
}

fn parking() -> Settings {
    settings([
        ("RUNLOOM_RUNS__PARK_AFTER_MS", "1"),
        ("RUNLOOM_RUNS__MAX_CONCURRENT", "1"),
    ])
}

/// A run that waits for the answer to a call, and the call's id.
fn waiting(world: &World, key: &str, prompt: &str) -> (String, String) {
    let run = world.create("/agent-runs", key, &agent(prompt));
    let (_, api) = world.after(0);
    let mut stream = Stream::open(&api, &run, 0).unwrap().unwrap();
    let call = until(&mut stream, "local_tool_call").data();
    (run, call["toolUseId"].as_str().unwrap().to_owned())
}

fn answer(world: &World, run: &str, call: &str) {
    let (_, api) = world.after(0);
    let body = json!({"toolUseId": call, "result": "the answer"});
    let taken = api.post(&format!("/agent-runs/{run}/tool-results"), &body);
    assert_eq!(taken.status, 200, "{taken:?}");
}

#[test]
fn waiting_runs_hold_no_worker() {
    // There is one place for a run, and three wait: another one can only end because none of them holds it.
    let world = World::new(parking());
    let _server = world.start(&[]);
    let waiting: Vec<_> = ["1", "2", "3"]
        .map(|key| self::waiting(&world, key, "call a {}\nsay done"))
        .into();
    let other = world.create("/agent-runs", "other", &agent("say quick"));
    world.judge(&other, vec![world.follow(&other, Tools::Watch)], &[]);
    for (run, call) in waiting.iter().rev() {
        answer(&world, run, call);
        let evidence = world.judge(run, vec![world.follow(run, Tools::Watch)], &["a"]);
        assert_eq!(evidence.snapshot["finalText"], "done");
    }
}

#[test]
fn parked_run_continues_after_a_restart() {
    let world = World::new(parking());
    let mut server = world.start(&[]);
    let (run, call) = waiting(&world, "k", "call a {}\ncall b {}");
    // The next run gets the slot, so this one is parked now.
    let other = world.create("/agent-runs", "other", &agent("say quick"));
    world.follow(&other, Tools::Watch);
    server.kill();
    let server = world.start(&[]);
    assert_eq!(
        server.api().get(&format!("/agent-runs/{run}")).json()["status"],
        "waiting_tool"
    );
    answer(&world, &run, &call);
    // Answered once is answered: the same answer again finds no open call.
    let body = json!({"toolUseId": call, "result": "again"});
    let again = server
        .api()
        .post(&format!("/agent-runs/{run}/tool-results"), &body);
    assert_eq!(again.refusal(), (404, "unknown_tool_use".to_owned()));
    let other = call.replace("_1_1", "_1_2");
    answer(&world, &run, &other);
    let evidence = world.judge(&run, vec![world.follow(&run, Tools::Watch)], &["a", "b"]);
    assert_eq!(
        evidence.snapshot["finalText"],
        "a returned: the answer\nb returned: the answer"
    );
}

#[test]
fn parked_run_is_cancelled_after_restart() {
    let world = World::new(parking());
    let mut server = world.start(&[]);
    let (run, _) = waiting(&world, "k", "call a {}");
    server.kill();
    let server = world.start(&[]);
    let path = format!("/agent-runs/{run}/cancel");
    assert_eq!(
        server.api().send("POST", &path, &[], b"").unwrap().status,
        200
    );
    let evidence = world.judge(&run, vec![world.follow(&run, Tools::Watch)], &["a"]);
    assert_eq!(evidence.snapshot["status"], "cancelled");
}

#[test]
fn unanswered_call_times_out_after_a_restart() {
    let mut settings = parking();
    settings.push((
        "RUNLOOM_RUNS__LOCAL_TOOL_TIMEOUT_MS".to_owned(),
        "300".to_owned(),
    ));
    for restart in [false, true] {
        let world = World::new(settings.clone());
        let mut server = world.start(&[]);
        let (run, call) = waiting(&world, "k", "call a {}");
        if restart {
            server.kill();
            server = world.start(&[]);
        }
        let evidence = world.judge(&run, vec![world.follow(&run, Tools::Watch)], &["a"]);
        let told = evidence
            .log
            .iter()
            .find(|frame| frame.kind() == "local_tool_result_in")
            .unwrap();
        assert_eq!(
            told.data()["error"],
            "Timed out waiting for local tool result"
        );
        assert_eq!(
            evidence.snapshot["finalText"],
            "a failed: Timed out waiting for local tool result"
        );
        let body = json!({"toolUseId": call, "result": "late"});
        let late = server
            .api()
            .post(&format!("/agent-runs/{run}/tool-results"), &body);
        assert_eq!(late.refusal(), (409, "run_terminal".to_owned()));
    }
}
