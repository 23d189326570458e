//! Files through the real server: the largest that may be sent, a crash in the middle, and the command line.

use serde_json::{Value, json};

use crate::command_line::{CommandLine, err, out};
use crate::server::Server;
use crate::sse::{Stream, replay, until};

/// 5 MB, as base64 of zeros behind how a file of the type begins; three bytes are four digits.
const LARGEST: usize = 5 * 1024 * 1024;
const PNG: &str = "iVBORw0KGgoA";
const A_PDF: &str = "JVBERi0xLjcK";

fn zeros(beginning: &str, bytes: usize) -> String {
    let bytes = bytes - beginning.len() / 4 * 3;
    let padding = ["", "AA==", "AAA="][bytes % 3];
    format!("{beginning}{}{padding}", "AAAA".repeat(bytes / 3))
}

fn attached(prompt: &str, data: &str) -> Value {
    let file =
        json!({"type": "input_file", "mimeType": "image/png", "filename": "a.png", "data": data});
    let message = json!({"role": "user", "content": prompt, "attachments": [file]});
    json!({"systemPrompt": "s", "modelId": "platform:demo", "messages": [message]})
}

#[test]
fn run_with_large_files_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let data = zeros(PNG, LARGEST);
    let run = api.run(&attached("files\nslow 400ms", &data));
    let mut stream = Stream::open(&api, &run, 0).unwrap().unwrap();
    until(&mut stream, "assistant_delta");
    server.kill();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let frames = replay(&api, &run).unwrap();
    let last = frames.last().unwrap();
    assert_eq!(last.kind(), "result");
    assert_eq!(last.data()["text"], "a.png (image/png, 5242880 bytes)");
    let log: usize = frames
        .iter()
        .map(|frame| frame.json().to_string().len())
        .sum();
    assert!(log < 64 * 1024, "the log has no bytes of the file: {log}");
    let shown = api.get(&format!("/agent-runs/{run}")).json();
    assert_eq!(shown["attachments"][0]["size"], LARGEST);
    assert!(shown.to_string().len() < 64 * 1024);
    assert!(
        !server.said().contains("AAAAAAAA"),
        "nor has the operator's log"
    );
}

#[test]
fn refuses_files_over_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let refused = api.post("/agent-runs", &attached("files", &zeros(PNG, LARGEST + 1)));
    assert_eq!(refused.refusal(), (400, "invalid_request".to_owned()));
    assert_eq!(
        refused.json()["issues"][0]["path"],
        "messages[0].attachments"
    );
    let inside = json!({"type": "input_file_url", "url": "https://127.0.0.1:8443/a.pdf"});
    let mut body = attached("files", "");
    body["messages"][0]["attachments"] = json!([inside]);
    let refused = api.post("/agent-runs", &body).json();
    assert_eq!(
        refused["issues"][0]["path"],
        "messages[0].attachments[0].url"
    );
    let why = refused["issues"][0]["message"].as_str().unwrap();
    assert!(why.contains("private or reserved"), "{why}");
    assert_eq!(api.get("/agent-runs?includeTotal=true").json()["total"], 0);
}

#[test]
fn tool_files_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let tool =
        |name: &str| json!({"kind": "local", "name": name, "parameters": {"type": "object"}});
    let body = json!({
        "systemPrompt": "s", "modelId": "platform:demo", "prompt": "call draw\ncall wait",
        "tools": [tool("draw"), tool("wait")],
    });
    let run = api.run(&body);
    let mut stream = Stream::open(&api, &run, 0).unwrap().unwrap();
    let answer = |call: &Value| json!({"toolUseId": call["toolUseId"], "result": "done"});
    let call = until(&mut stream, "local_tool_call").data();
    let mut drawn = answer(&call);
    drawn["files"] = json!([{"filename": "a.pdf", "mimeType": "application/pdf", "data": zeros(A_PDF, LARGEST)}]);
    let path = format!("/agent-runs/{run}/tool-results");
    assert_eq!(api.post(&path, &drawn).status, 200);
    let call = until(&mut stream, "local_tool_call").data();
    server.kill();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    assert_eq!(api.post(&path, &answer(&call)).status, 200);
    let frames = replay(&api, &run).unwrap();
    let told = "draw returned: done\nwait returned: done\na.pdf (application/pdf, 5242880 bytes)";
    assert_eq!(frames.last().unwrap().data()["text"], told);
    let kinds: Vec<&str> = frames.iter().map(|frame| frame.kind()).collect();
    let at = kinds.iter().position(|kind| *kind == "tool_files").unwrap();
    assert_eq!(kinds[at + 1], "local_tool_result_in");
}

#[test]
fn the_command_line_attaches_files() {
    let command_line = CommandLine::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("n.md"), "# Notes").unwrap();
    std::fs::write(path("LICENSE"), "as is").unwrap();
    std::fs::write(path("a.bin"), [0xff, 0xfe, 0x00]).unwrap();
    let notes = path("n.md");
    let license = path("LICENSE");
    let shown = command_line.ended(&["run", "files", "--attach", &notes, "--attach", &license]);
    assert!(shown.status.success(), "{}", err(&shown));
    let told = "n.md (text/markdown, 7 bytes): # Notes\nLICENSE (text/plain, 5 bytes): as is\n";
    assert_eq!(out(&shown), told);
    for (name, why) in [
        (path("a.bin"), "no type"),
        (path("missing.png"), "No such file"),
        ("http://h.example/a.png".to_owned(), "only https"),
    ] {
        let refused = command_line.ended(&["run", "files", "--attach", &name]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(err(&refused).contains(why), "{}", err(&refused));
    }
}
