//! One process with more to do than it can: others do not wait for a greedy workspace, and there is a bound.

use serde_json::{Value, json};

use crate::http::{Api, request};
use crate::server::{Server, settings};
use crate::sse::{Stream, until};

fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt})
}

/// A run that has begun and ends only when it is cancelled.
fn endless(api: &Api) -> String {
    let run = api.run(&agent("slow 60s\nsay never"));
    let mut stream = Stream::open(api, &run, 0).unwrap().unwrap();
    until(&mut stream, "started");
    run
}

fn cancel(api: &Api, run: &str) -> u16 {
    let path = format!("/agent-runs/{run}/cancel");
    api.send("POST", &path, &[], b"").unwrap().status
}

#[test]
fn backlog_limit_refuses_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings([
        ("RUNLOOM_RUNS__MAX_CONCURRENT", "1"),
        ("RUNLOOM_LIMITS__MAX_BACKLOG_PER_WORKSPACE", "2"),
    ]);
    let server = Server::dev(folder.path(), &settings);
    let api = server.api();
    let first = endless(&api);
    let waiting = [(); 2].map(|()| api.run(&agent("say hello")));
    let refused = api.post("/agent-runs", &agent("say no"));
    assert_eq!(refused.refusal(), (503, "unavailable".to_owned()));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    // A dry run makes nothing wait, and a cancel ends what does.
    let told = api.post("/agent-runs?dryRun=true", &agent("say what it costs"));
    assert_eq!(told.status, 200, "{told:?}");
    let other = server.tenant("other");
    other.run(&agent("say hello"));
    assert_eq!(cancel(&api, &first), 200);
    for run in &waiting {
        let mut stream = Stream::open(&api, run, 0).unwrap().unwrap();
        until(&mut stream, "result");
    }
    assert_eq!(api.post("/agent-runs", &agent("say yes")).status, 202);
}

#[test]
fn hanging_workspace_leaves_slots_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings([("RUNLOOM_RUNS__MAX_CONCURRENT", "16")]);
    let server = Server::dev(folder.path(), &settings);
    let api = server.api();
    let hanging: Vec<String> = (0..14).map(|_| endless(&api)).collect();
    // Seven eighths are taken: the next one waits, somebody else's does not.
    let behind = api.run(&agent("say late"));
    let other = server.tenant("other");
    let run = other.run(&agent("say quick"));
    let mut stream = Stream::open(&other, &run, 0).unwrap().unwrap();
    until(&mut stream, "result");
    let status = api.get(&format!("/agent-runs/{behind}")).json()["status"].clone();
    assert_eq!(status, "queued");
    assert_eq!(cancel(&api, &hanging[0]), 200);
    let mut stream = Stream::open(&api, &behind, 0).unwrap().unwrap();
    until(&mut stream, "result");
}

#[test]
fn metrics_are_for_the_administrator() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let run = api.run(&agent("say hello"));
    let mut stream = Stream::open(&api, &run, 0).unwrap().unwrap();
    until(&mut stream, "result");
    let get = |headers: &[(&str, &str)]| {
        request(&server.address, "GET", "/metrics", headers, b"").unwrap()
    };
    assert_eq!(get(&[]).status, 401);
    let key = format!("Bearer {}", api.key);
    assert_eq!(
        get(&[("Authorization", &key)]).status,
        401,
        "a tenant's key"
    );
    let token = format!("Bearer {}", server.ready["adminToken"].as_str().unwrap());
    let page = get(&[("Authorization", &token)]);
    let text = String::from_utf8(page.body).unwrap();
    let ended = "runloom_runs_ended_total{status=\"succeeded\"} 1\n";
    assert!(text.contains(ended), "{text}");
    assert!(!text.contains(&run) && !text.contains("workspace="));
}
