//! A full disk under PostgreSQL: what was accepted is kept, what cannot be kept is refused, and with room again
//! everything goes on.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::checker::{Seen, violations};
use crate::cluster::{Cluster, we_are_root};
use crate::disk::{body, fill, finish};
use crate::evidence::{evidence, shown};
use crate::server::{PATIENCE, Server, runloom};
use crate::sse::{Stream, until};

/// Room for an empty cluster and a few runs.
const SIZE: &str = "size=160m,mode=755";

/// A small file system, gone with this value.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", SIZE, "tmpfs"])
            .arg(at)
            .output();
        let mounted = mounted.unwrap();
        assert!(mounted.status.success(), "{mounted:?}");
        Self(at.to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

fn server_on(postgres: &Cluster, folder: &Path) -> Server {
    let mut command = runloom(&["serve", "--listen", "127.0.0.1:0"]);
    command.envs([
        ("RUNLOOM_STORE__URL", postgres.url().as_str()),
        ("RUNLOOM_MASTER_KEY", "a key of the test"),
        ("RUNLOOM_ADMIN_TOKEN", "the administrator's token"),
        ("RUNLOOM_PLATFORM__DEMO", "true"),
        ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "100000"),
    ]);
    let mut server = Server::spawn(command, folder);
    let line = server.line();
    let address = line.strip_prefix("listening on http://");
    server.address = address.unwrap_or_else(|| panic!("{line:?}")).to_owned();
    server.ready = json!({"adminToken": "the administrator's token"});
    server
}

#[test]
fn full_postgres_disk_loses_no_accepted_run() {
    if !we_are_root() {
        println!("not tested: only root can mount a small disk for PostgreSQL");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // PostgreSQL runs as another user, who must get in.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let disk = Disk::mount(&folder.path().join("disk"));
    let small = [("max_wal_size", "32MB"), ("min_wal_size", "32MB")];
    let postgres = Cluster::start_in(&disk.0, &small).expect("PostgreSQL's server");
    let server = server_on(&postgres, folder.path());
    let api = server.tenant("acme");
    let mut accepted = Vec::new();
    // One run talks, one waits for its client.
    let talking = api.run(&serde_json::from_slice(&body("slow 20ms\ntokens 100")).unwrap());
    let asking = api.run(&serde_json::from_slice(&body("call act {}\nsay done")).unwrap());
    let mut questions = Stream::open(&api, &asking, 0).unwrap().unwrap();
    let call = until(&mut questions, "local_tool_call").data();
    let ballast = disk.0.join("ballast");
    // Files of the database have room left inside; it is used up until somebody is refused.
    let begun = Instant::now();
    let refused = loop {
        fill(&ballast);
        let answer = api.send("POST", "/agent-runs", &[], &body("say kept"));
        let answer = answer.unwrap();
        match answer.status {
            202 => accepted.push(answer.json()["runId"].as_str().unwrap().to_owned()),
            _ => break answer,
        }
        assert!(begun.elapsed() < PATIENCE, "a full disk takes everything");
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    // Space again. The database may have stopped and is restarted here; everything else continues by itself.
    std::fs::remove_file(&ballast).unwrap();
    postgres.up_if_down();
    let result = json!({"toolUseId": call["toolUseId"], "result": "r"}).to_string();
    let path = format!("/agent-runs/{asking}/tool-results");
    loop {
        let answered = api.send("POST", &path, &[], result.as_bytes()).unwrap();
        if answered.status == 200 {
            break;
        }
        assert_eq!(answered.status, 503, "{answered:?}");
        assert!(begun.elapsed() < 2 * PATIENCE, "it never comes back");
    }
    accepted.extend([asking, talking]);
    for run in &accepted {
        let seen = finish(&api, run, Seen::default());
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
    let list = api.get("/agent-runs?limit=1&includeTotal=true").json();
    assert_eq!(list["total"], accepted.len(), "{list}");
}
