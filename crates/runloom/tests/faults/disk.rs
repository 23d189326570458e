//! A full disk: what was accepted is kept, what cannot be kept is refused, and with room again everything goes on.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::checker::{Seen, violations};
use crate::evidence::{evidence, shown};
use crate::http::Api;
use crate::server::{PATIENCE, Server, runloom};
use crate::sse::{Frame, Stream, until};

/// Room for the database and a few runs.
const SIZE: &str = "6m";

/// `runloom dev` whose data lie on a small file system of its own, which goes with the process.
fn server_on_a_small_disk(folder: &Path) -> (Server, PathBuf) {
    let disk = folder.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let program = runloom(&[]);
    let line = format!(
        "mount -t tmpfs -o size={SIZE} tmpfs '{disk}' && exec '{program}' dev --listen 127.0.0.1:0 --json --data-dir '{disk}/data'",
        disk = disk.display(),
        program = program.get_program().display(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &line]);
    // What the program would read of the tester's environment is taken from it here, too.
    for (name, _) in program.get_envs() {
        command.env_remove(name);
    }
    command.env("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "100000");
    let mut server = Server::spawn(command, folder);
    let said = server.line();
    server.ready = serde_json::from_str(&said).unwrap_or_else(|error| {
        panic!(
            "{said:?} ({error}): the fault suite needs `unshare` and the right to mount in it\n{}",
            server.said()
        )
    });
    let url = server.ready["url"].as_str().unwrap();
    server.address = url.strip_prefix("http://").unwrap().to_owned();
    // The file system is seen from within only.
    let within = format!("/proc/{}/root{}", server.id(), disk.display());
    (server, PathBuf::from(within))
}

/// Takes whatever room there is.
pub(crate) fn fill(ballast: &Path) {
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(ballast)
        .unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        match file.write(&vec![0; size]) {
            Ok(1..) => {}
            _ => size /= 2,
        }
    }
}

pub(crate) fn body(prompt: &str) -> Vec<u8> {
    let tool = json!({"kind": "local", "name": "act", "parameters": {"type": "object"}});
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt, "tools": [tool]})
        .to_string()
        .into_bytes()
}

/// Reads a run to its end.
pub(crate) fn finish(api: &Api, run: &str, mut seen: Seen) -> Seen {
    let last = seen.frames.last().map_or(0, Frame::seq);
    let mut stream = Stream::open(api, run, last).unwrap().unwrap();
    while let Some(frame) = stream.next().unwrap() {
        seen.frames.push(frame);
    }
    seen
}

#[test]
fn full_disk_loses_no_accepted_run() {
    let folder = tempfile::tempdir().unwrap();
    let (server, disk) = server_on_a_small_disk(folder.path());
    let api = server.api();
    // One run talks, one waits for its client.
    let talking = api.run(&serde_json::from_slice(&body("slow 20ms\ntokens 100")).unwrap());
    let asking = api.run(&serde_json::from_slice(&body("call act {}\nsay done")).unwrap());
    let mut seen = Seen::default();
    let mut stream = Stream::open(&api, &talking, 0).unwrap().unwrap();
    while seen.frames.len() < 5 {
        seen.frames.extend(stream.next().unwrap());
    }
    let mut questions = Stream::open(&api, &asking, 0).unwrap().unwrap();
    let call = until(&mut questions, "local_tool_call").data();
    let ballast = disk.join("ballast");
    // Files of the database may have room left inside; it is used up until somebody is refused.
    let begun = std::time::Instant::now();
    let mut accepted = Vec::new();
    let refused = loop {
        fill(&ballast);
        let answer = api
            .send("POST", "/agent-runs", &[], &body("say kept"))
            .unwrap();
        match answer.status {
            202 => accepted.push(answer.json()["runId"].as_str().unwrap().to_owned()),
            _ => break answer,
        }
        assert!(begun.elapsed() < PATIENCE, "a full disk takes everything");
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    // Room again: everything goes on by itself.
    std::fs::remove_file(&ballast).unwrap();
    let result = json!({"toolUseId": call["toolUseId"], "result": "r"}).to_string();
    let path = format!("/agent-runs/{asking}/tool-results");
    let answered = api.send("POST", &path, &[], result.as_bytes()).unwrap();
    assert_eq!(answered.status, 200, "{answered:?}");
    accepted.extend([asking, talking.clone()]);
    for run in &accepted {
        let before = Some(&mut seen).filter(|_| *run == talking);
        let seen = finish(&api, run, before.map(std::mem::take).unwrap_or_default());
        let evidence = evidence(&api, run, &[seen], &[]).unwrap();
        let found = violations(&evidence);
        assert!(found.is_empty(), "{run}: {found:?}\n{}", shown(&evidence));
        assert_eq!(
            evidence.snapshot["status"],
            "succeeded",
            "{}",
            shown(&evidence)
        );
    }
    let list = api.get("/agent-runs?limit=200").json();
    assert_eq!(list["runs"].as_array().unwrap().len(), accepted.len());
}
