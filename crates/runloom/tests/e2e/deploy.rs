//! Deploys: a server that is asked to stop does so in bounded time and with code 0, and its runs go on elsewhere.

use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use crate::checker::Seen;
use crate::server::{PATIENCE, Server, Settings, runloom, settings};
use crate::sse::Stream;
use crate::world::{Tools, World};

fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt,
           "tools": [{"kind": "local", "name": "act", "parameters": {"type": "object"}}]})
}

/// A short drain, so that turns which take longer are interrupted.
fn hasty() -> Settings {
    settings([("RUNLOOM_RUNS__DRAIN_MS", "100")])
}

/// Follows a run; when it shows `kind`, the server is asked to stop, and the next one takes over.
fn deployed(world: &World, prompt: &str, kind: &str, tools: Tools) -> (String, Seen) {
    let mut server = world.start(&[]);
    let run = world.create("/agent-runs", "k", &agent(prompt));
    let (tell, told) = channel();
    let seen = std::thread::scope(|scope| {
        let following = scope.spawn(|| {
            world.follow_and(&run, tools, |seen| {
                if seen.frames.last().is_some_and(|frame| frame.kind() == kind) {
                    let _ = tell.send(());
                }
            })
        });
        told.recv_timeout(PATIENCE).unwrap();
        let status = server.stop();
        assert_eq!(status.code(), Some(0), "{}", server.said());
        server = world.start(&[]);
        following.join().unwrap()
    });
    let evidence = world.judge(&run, vec![seen.clone()], &[]);
    assert_eq!(
        evidence.snapshot["status"], "succeeded",
        "{}",
        evidence.snapshot
    );
    (run, seen)
}

fn kinds(seen: &Seen) -> Vec<&str> {
    seen.frames.iter().map(crate::sse::Frame::kind).collect()
}

#[test]
fn interrupted_turn_restarts() {
    let world = World::new(hasty());
    let (_, seen) = deployed(
        &world,
        "slow 15ms\ntokens 120",
        "assistant_delta",
        Tools::Watch,
    );
    assert!(
        kinds(&seen).contains(&"turn_restarted"),
        "{:?}",
        kinds(&seen)
    );
}

#[test]
fn a_short_answer_is_finished_first() {
    let world = World::new(settings([("RUNLOOM_RUNS__DRAIN_MS", "30000")]));
    let (_, seen) = deployed(
        &world,
        "slow 10ms\ntokens 20",
        "assistant_delta",
        Tools::Watch,
    );
    assert!(
        !kinds(&seen).contains(&"turn_restarted"),
        "{:?}",
        kinds(&seen)
    );
}

#[test]
fn run_waiting_for_its_client_continues() {
    for park_after in ["1", "60000"] {
        let mut settings = hasty();
        settings.push((
            "RUNLOOM_RUNS__PARK_AFTER_MS".to_owned(),
            park_after.to_owned(),
        ));
        let world = World::new(settings);
        let mut server = world.start(&[]);
        let run = world.create("/agent-runs", "k", &agent("call act {}\nsay done"));
        let api = server.api();
        let mut stream = Stream::open(&api, &run, 0).unwrap().unwrap();
        let call = crate::sse::until(&mut stream, "local_tool_call");
        assert_eq!(server.stop().code(), Some(0), "{}", server.said());
        // The stream ends in order, without an end of the run.
        assert!(stream.next().unwrap().is_none());
        let server = world.start(&[]);
        let status = server.api().get(&format!("/agent-runs/{run}")).json()["status"].clone();
        assert_eq!(status, "waiting_tool");
        let body = json!({"toolUseId": call.data()["toolUseId"], "result": "r"});
        let answer = server
            .api()
            .post(&format!("/agent-runs/{run}/tool-results"), &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let seen = world.follow(&run, Tools::Watch);
        let evidence = world.judge(&run, vec![seen], &[]);
        assert_eq!(evidence.snapshot["finalText"], "done");
    }
}

#[test]
fn run_waiting_for_a_retry_continues() {
    let world = World::new(hasty());
    let mut server = world.start(&[]);
    let run = world.create("/agent-runs", "k", &agent("fail 503 3\nsay at last"));
    assert_eq!(server.stop().code(), Some(0), "{}", server.said());
    let _server = world.start(&[]);
    let evidence = world.judge(&run, vec![world.follow(&run, Tools::Watch)], &[]);
    assert_eq!(evidence.snapshot["finalText"], "at last");
    assert_eq!(evidence.snapshot["turns"], 1);
}

#[test]
fn silent_provider_does_not_delay_a_deploy() {
    let world = World::new(hasty());
    let mut server = world.start(&[]);
    let run = world.create("/agent-runs", "k", &agent("hang"));
    let mut stream = Stream::open(&server.api(), &run, 0).unwrap().unwrap();
    crate::sse::until(&mut stream, "started");
    assert_eq!(server.stop().code(), Some(0), "{}", server.said());
    let server = world.start(&[]);
    let cancel = server
        .api()
        .send("POST", &format!("/agent-runs/{run}/cancel"), &[], b"")
        .unwrap();
    assert_eq!(cancel.status, 200);
    let evidence = world.judge(&run, vec![world.follow(&run, Tools::Watch)], &[]);
    assert_eq!(evidence.snapshot["status"], "cancelled");
}

#[test]
fn crash_during_release_loses_nothing() {
    for point in ["before_commit.release", "after_commit.release"] {
        let world = World::new(hasty());
        let armed = vec![("RUNLOOM_CRASH_AT".to_owned(), point.to_owned())];
        let mut server = world.start(&armed);
        let run = world.create("/agent-runs", "k", &agent("slow 15ms\ntokens 120"));
        let mut stream = Stream::open(&server.api(), &run, 0).unwrap().unwrap();
        crate::sse::until(&mut stream, "assistant_delta");
        assert_eq!(
            server.stop().signal(),
            Some(6),
            "{point}: {}",
            server.said()
        );
        let _server = world.start(&[]);
        let evidence = world.judge(&run, vec![world.follow(&run, Tools::Watch)], &[]);
        assert_eq!(evidence.snapshot["status"], "succeeded");
    }
}

#[test]
fn open_connections_do_not_delay_a_deploy() {
    use std::io::Write;
    let world = World::new(hasty());
    let mut server = world.start(&[]);
    let run = world.create(
        "/agent-runs",
        "k",
        &agent(&format!("say {}", "word ".repeat(20_000))),
    );
    let head = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
            server.api().key
        )
    };
    let stream = head(&server.api().path(&format!("/agent-runs/{run}/stream")));
    let body = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf";
    // One never reads its stream, one never ends its request, one never ends its head, one keeps an idle connection.
    let open: Vec<_> = [stream.as_str(), body, "GET /hea", &head("/health")]
        .iter()
        .map(|bytes| {
            let mut stream = crate::http::connect(&server.address).unwrap();
            stream.write_all(bytes.as_bytes()).unwrap();
            stream
        })
        .collect();
    world.follow(&run, Tools::Watch);
    assert_eq!(server.stop().code(), Some(0), "{}", server.said());
    drop(open);
}

#[test]
fn stopping_server_takes_results_and_cancels_only() {
    let world = World::new(settings([
        ("RUNLOOM_RUNS__DRAIN_MS", "30000"),
        ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "100000"),
    ]));
    let mut server = world.start(&[]);
    let api = server.api();
    let spec = json!({"systemPrompt": "s", "modelId": "platform:demo"});
    let session = api.post("/agent-sessions", &spec).json()["sessionId"].clone();
    let messages = format!("/agent-sessions/{}/messages", session.as_str().unwrap());
    // The first holds the drain open, the second waits for its client.
    let (held, asked) = (
        api.run(&agent("hang")),
        api.run(&agent("call act {}\nsay kept")),
    );
    let mut stream = Stream::open(&api, &held, 0).unwrap().unwrap();
    crate::sse::until(&mut stream, "started");
    let mut stream = Stream::open(&api, &asked, 0).unwrap().unwrap();
    let call = crate::sse::until(&mut stream, "local_tool_call").data();
    server.signal("TERM");
    // It may take a moment to hear the signal; what it accepts until then is kept.
    let mut accepted = vec![asked.clone()];
    let refused = loop {
        let answer = api.post("/agent-runs", &agent("say kept"));
        match answer.status {
            202 => accepted.push(answer.json()["runId"].as_str().unwrap().to_owned()),
            _ => break answer,
        }
    };
    for refused in [refused, api.post(&messages, &json!({"prompt": "say hi"}))] {
        assert_eq!(refused.refusal(), (503, "unavailable".to_owned()));
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        let message = refused.json()["message"].clone();
        assert_eq!(message, "The server is stopping; try again.");
    }
    let body = json!({"toolUseId": call["toolUseId"], "result": "r"});
    let answered = api.post(&format!("/agent-runs/{asked}/tool-results"), &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    let cancelled = api.post(&format!("/agent-runs/{held}/cancel"), &json!({}));
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    assert_eq!(server.ended().code(), Some(0), "{}", server.said());
    let _server = world.start(&[]);
    for run in &accepted {
        let evidence = world.judge(run, vec![world.follow(run, Tools::Watch)], &[]);
        assert_eq!(evidence.snapshot["finalText"], "kept");
    }
    let evidence = world.judge(&held, vec![world.follow(&held, Tools::Watch)], &[]);
    assert_eq!(evidence.snapshot["status"], "cancelled");
}

#[test]
fn a_second_signal_stops_at_once() {
    let world = World::new(settings([("RUNLOOM_RUNS__DRAIN_MS", "600000")]));
    let mut server = world.start(&[]);
    let run = world.create("/agent-runs", "k", &agent("hang"));
    let mut stream = Stream::open(&server.api(), &run, 0).unwrap().unwrap();
    crate::sse::until(&mut stream, "started");
    server.signal("INT");
    server.signal("INT");
    // Two signals may be heard as one; a third cannot be early.
    while server.is_running() {
        server.signal("INT");
    }
    assert_eq!(server.ended().code(), Some(130), "{}", server.said());
}

#[test]
fn refuses_two_servers_on_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::dev(folder.path(), &[]);
    let mut command = runloom(&["dev", "--listen", "127.0.0.1:0", "--data-dir"]);
    let second = command.arg(folder.path().join("data")).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(
        told.contains("is in use by another Runloom process"),
        "{told}"
    );
    assert!(
        told.contains("stop it, or give this one another store"),
        "{told}"
    );
    // The first is not disturbed, and clients of the folder still find it.
    assert_eq!(first.api().get("/models").status, 200);
    let kept = std::fs::read_to_string(folder.path().join("data/dev.json")).unwrap();
    assert!(kept.contains(&first.address), "{kept}");
}

#[test]
fn reports_a_taken_port() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = runloom(&["dev", "--listen", &address, "--data-dir"]);
    let output = command.arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains(&format!("cannot listen on {address}")),
        "{told}"
    );
}

#[test]
fn serve_prints_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[server]\nlisten = \"127.0.0.1:0\"\n[platform]\ndemo = true\n[[workspaces]]\nslug = \"acme\"\n\
                [[workspaces.api_keys]]\nname = \"ci\"\nkey_env = \"ACME_KEY\"\n";
    std::fs::write(folder.path().join("c.toml"), text).unwrap();
    let mut command = runloom(&["serve", "--config", "c.toml"]);
    command.env("ACME_KEY", "mantyx_0123456789abcdef0123456789abcdef");
    let mut server = Server::spawn(command, folder.path());
    let line = server.line();
    let address = line
        .strip_prefix("listening on http://")
        .unwrap_or_else(|| panic!("{line:?}"));
    let api = crate::http::Api {
        address: address.to_owned(),
        workspace: "acme".to_owned(),
        key: "mantyx_0123456789abcdef0123456789abcdef".to_owned(),
    };
    let run = api.run(&agent("say hi"));
    let log = crate::sse::replay(&api, &run).unwrap();
    assert_eq!(log.last().unwrap().data()["text"], "hi");
    assert_eq!(server.stop().code(), Some(0), "{}", server.said());
}
