//! Backup and restore, as docs/operations.md tells it.

use serde_json::json;

use crate::processes::{Processes, agent, finished, postgres};
use crate::sse::{Stream, replay, until};

#[test]
fn restored_dump_has_every_run() {
    let processes = Processes::new([("RUNLOOM_RUNS__PARK_AFTER_MS", "1")]);
    let first = processes.process("all", &[]);
    let acme = first.tenant("acme");
    let ended = acme.run(&agent("say before"));
    assert_eq!(finished(&acme, &ended), "before");
    let waiting = acme.run(&agent("call act {}\nsay after"));
    let mut stream = Stream::open(&acme, &waiting, 0).unwrap().unwrap();
    let call = until(&mut stream, "local_tool_call").data();
    let log = replay(&acme, &ended).unwrap();

    let dump = processes.folder().join("dump");
    let dump = dump.to_string_lossy();
    postgres(
        "pg_dump",
        &["--format=custom", "--file", &dump, &processes.url()],
    );
    drop(stream);
    drop(first);
    // Whatever happens after the dump is gone.
    let restored = Processes::new([("RUNLOOM_RUNS__PARK_AFTER_MS", "1")]);
    postgres(
        "pg_restore",
        &[
            "--clean",
            "--if-exists",
            "--no-owner",
            "--dbname",
            &restored.url(),
            &dump,
        ],
    );
    let second = restored.process("all", &[]);
    let acme = crate::processes::at(&second, &acme);
    let frames = replay(&acme, &ended).unwrap();
    assert!(
        frames
            .iter()
            .map(crate::sse::Frame::json)
            .eq(log.iter().map(crate::sse::Frame::json))
    );
    let answer = json!({"toolUseId": call["toolUseId"], "result": "ok"});
    let path = format!("/agent-runs/{waiting}/tool-results");
    assert_eq!(acme.post(&path, &answer).status, 200);
    assert_eq!(finished(&acme, &waiting), "after");
}
