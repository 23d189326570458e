//! Many runs of one workspace: others do not wait for them, and there is a bound.

use serde_json::json;

use crate::http::Api;
use crate::processes::{Processes, agent, at, finished, service};
use crate::server::Server;

const MANY: u64 = 200;

fn still_queued(api: &Api) -> u64 {
    let list = api.get("/agent-runs?status=queued&limit=1&includeTotal=true");
    list.json()["total"].as_u64().unwrap()
}

/// One worker with one place, and a workspace that wants it two hundred times; another workspace's runs are next all
/// the same, whether they were there before the worker or come while it is busy.
fn shared_fairly(processes: &Processes) {
    let api = processes.api();
    let (greedy, modest) = (api.tenant("greedy"), api.tenant("modest"));
    for _ in 0..MANY {
        greedy.run(&agent("slow 20ms\ntokens 5"));
    }
    let early = modest.run(&agent("say early"));
    let _worker = worker(processes);
    assert_eq!(finished(&modest, &early), "early");
    let left = still_queued(&greedy);
    assert!(left > MANY * 3 / 4, "only {left} were left");
    let late = modest.run(&agent("say late"));
    assert_eq!(finished(&modest, &late), "late");
    let left = still_queued(&greedy);
    assert!(left > MANY / 4, "only {left} were left");
}

fn worker(processes: &Processes) -> Server {
    processes.process("worker", &[("RUNLOOM_RUNS__MAX_CONCURRENT", "1")])
}

#[test]
fn workspaces_take_turns_with_the_database_as_queue() {
    shared_fairly(&Processes::new([]));
}

#[test]
fn workspaces_take_turns_with_rabbitmq_as_queue() {
    let queue = service("RUNLOOM_TEST_AMQP_URL", "amqp://127.0.0.1:5672");
    shared_fairly(&Processes::new([("RUNLOOM_FABRIC__QUEUE", &queue)]));
}

#[test]
fn workspaces_take_turns_with_valkey_as_bus() {
    let bus = service("RUNLOOM_TEST_REDIS_URL", "redis://127.0.0.1:6379");
    shared_fairly(&Processes::new([("RUNLOOM_FABRIC__BUS", &bus)]));
}

#[test]
fn full_backlog_refuses_only_new_runs() {
    let processes = Processes::new([
        ("RUNLOOM_LIMITS__MAX_BACKLOG", "5"),
        ("RUNLOOM_LIMITS__MAX_BACKLOG_PER_WORKSPACE", "3"),
    ]);
    let (api, beside) = (processes.api(), processes.api());
    let (greedy, modest) = (api.tenant("greedy"), api.tenant("modest"));
    let session = greedy.post(
        "/agent-sessions",
        &json!({"systemPrompt": "s", "modelId": "platform:demo"}),
    );
    let session = session.json()["sessionId"].as_str().unwrap().to_owned();
    // A run that waits for its client is no backlog; its answer comes when the backlog is full.
    let mut worker = processes.worker();
    let waiting = greedy.run(&agent("call act {}\nsay done"));
    let mut stream = crate::sse::Stream::open(&greedy, &waiting, 0)
        .unwrap()
        .unwrap();
    let call = crate::sse::until(&mut stream, "local_tool_call").data();
    worker.stop();
    let runs: Vec<String> = (0..3).map(|_| greedy.run(&agent("say hello"))).collect();
    let message = json!({"prompt": "hello"});
    for refused in [
        greedy.post("/agent-runs", &agent("say no")),
        greedy.post(&format!("/agent-sessions/{session}/messages"), &message),
    ] {
        assert_eq!(refused.refusal(), (503, "unavailable".to_owned()));
        let seconds = refused.header("retry-after").unwrap();
        assert!(seconds.parse::<u32>().unwrap() > 0, "{seconds}");
    }
    // The others' limit is their own, until all together are too many.
    modest.run(&agent("say hello"));
    modest.run(&agent("say hello"));
    let full = at(&beside, &modest).post("/agent-runs", &agent("say no"));
    assert_eq!(full.refusal(), (503, "unavailable".to_owned()));
    let answer = json!({"toolUseId": call["toolUseId"], "result": "ok"});
    let path = format!("/agent-runs/{waiting}/tool-results");
    assert_eq!(greedy.post(&path, &answer).status, 200);
    let path = format!("/agent-runs/{}/cancel", runs[0]);
    assert_eq!(greedy.send("POST", &path, &[], b"").unwrap().status, 200);
    let _worker = processes.worker();
    for run in &runs[1..] {
        assert_eq!(finished(&greedy, run), "hello");
    }
    assert_eq!(finished(&greedy, &waiting), "done");
    crate::processes::soon("there is room again", || {
        greedy.post("/agent-runs", &agent("say yes")).status == 202
    });
}
