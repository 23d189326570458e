//! The command line beside a running server: what it prints, exactly, and how it ends.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::command_line::{CommandLine, err, keys, one_object, out};
use crate::server::{Server, runloom};
use crate::sse::replay;

#[test]
fn the_printed_key_works_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = runloom(&["dev", "--port", "0", "--data-dir"]);
    command.arg(folder.path().join("data"));
    let mut server = Server::spawn(command, folder.path());
    let listening = server.line();
    let url = listening.strip_prefix("listening on ").unwrap().to_owned();
    let mut found = |start: &str| loop {
        let line = server.line();
        if let Some(rest) = line.trim_start().strip_prefix(start) {
            return rest.trim().to_owned();
        }
    };
    let link = found("open ");
    let key = found("key ");
    assert!(key.starts_with("mantyx_"), "{key}");
    assert!(link.starts_with(&url) && link.ends_with(&key), "{link}");
    let mut models = runloom(&["models", "list", "--json"]);
    models
        .env("MANTYX_BASE_URL", &url)
        .env("MANTYX_WORKSPACE_SLUG", "demo")
        .env("MANTYX_API_KEY", &key);
    let listed = models.output().unwrap();
    assert_eq!(
        one_object(&out(&listed))["defaultModelId"],
        "platform:demo",
        "{}",
        err(&listed)
    );
}

#[test]
fn shows_a_run_as_text_and_json() {
    let command_line = CommandLine::new();
    let words = command_line.ended(&["run", "say hello there"]);
    assert_eq!(
        (out(&words).as_str(), words.status.code()),
        ("hello there\n", Some(0))
    );
    let lines = out(&command_line.ended(&["run", "say hello there", "--json"]));
    let (first, events) = lines.split_once('\n').unwrap();
    let run = one_object(first)["runId"].as_str().unwrap().to_owned();
    assert_eq!(keys(&one_object(first)), ["runId"]);
    let log = replay(&command_line.server.api(), &run).unwrap();
    let stored: Vec<&str> = log
        .iter()
        .map(|frame| frame.field("data").unwrap())
        .collect();
    assert_eq!(events.lines().collect::<Vec<_>>(), stored);
    // From standard input, with a system prompt and thinking.
    let mut child = command_line
        .command(&[
            "run",
            "-",
            "--system",
            "s",
            "--reasoning",
            "high",
            "--model",
            "platform:demo",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"think deeply about it\nsay read")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(out(&output), "read\n");
    assert!(err(&output).contains("deeply about it"), "{}", err(&output));
}

#[test]
fn exit_codes_tell_outcomes() {
    let command_line = CommandLine::new();
    for (arguments, code, told) in [
        (&["run", "fail 401"][..], 5, "auth"),
        (&["run", "truncate"], 5, "truncation"),
        (&["run", "x", "--model", "nope"], 1, "invalid_model"),
        (&["run", "-"], 2, "standard input is empty"),
        (&["runs", "show", "run_0123456789abcdef"], 1, "not_found"),
        (&["runs", "tail", "run_0123456789abcdef"], 1, "not_found"),
        (&["runs", "show", "nonsense"], 2, "run_"),
        (&["runs", "list", "--status", "odd"], 2, "queued, running"),
        (
            &["run", "x", "--session", "ses_0123456789abcdef"],
            1,
            "not_found",
        ),
        (&["nonsense"], 2, "unrecognized subcommand"),
        (&[], 2, "Usage"),
    ] {
        let output = command_line.ended(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            err(&output)
        );
        assert!(
            err(&output).contains(told),
            "{arguments:?}: {}",
            err(&output)
        );
        assert_eq!(
            out(&output)
                .lines()
                .filter(|line| line.contains("error"))
                .count(),
            0,
            "{arguments:?}"
        );
    }
    let mut away = command_line.command(&["models", "list"]);
    away.env("MANTYX_BASE_URL", "http://127.0.0.1:1");
    let output = away.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("its key is sent nowhere else"));
    away.env("MANTYX_API_KEY", "mantyx_x");
    away.env("MANTYX_WORKSPACE_SLUG", "demo");
    let output = away.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    for arguments in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["version"],
    ] {
        assert_eq!(
            command_line.ended(arguments).status.code(),
            Some(0),
            "{arguments:?}"
        );
    }
}

#[test]
fn interrupt_cancels_the_shown_run() {
    let command_line = CommandLine::new();
    let mut shown = Server::spawn(
        command_line.command(&["run", "slow 20ms\ntokens 5000", "--json"]),
        command_line.folder.path(),
    );
    let run = one_object(&shown.line())["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    while !shown.line().contains("assistant_delta") {}
    shown.signal("INT");
    assert_eq!(shown.ended().code(), Some(130), "{}", shown.said());
    let log = replay(&command_line.server.api(), &run).unwrap();
    assert_eq!(log.last().unwrap().kind(), "cancelled");
}

#[test]
fn manages_runs() {
    let command_line = CommandLine::new();
    let api = command_line.server.api();
    let run = api.run(&json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": "hang", "metadata": {"team": "blue"}}));
    let mut tail = Server::spawn(
        command_line.command(&["runs", "tail", &run, "--json"]),
        command_line.folder.path(),
    );
    assert_eq!(one_object(&tail.line())["type"], "started");
    let early = command_line.ended(&["runs", "export", &run]);
    assert_eq!(early.status.code(), Some(1));
    assert!(
        err(&early).contains("only runs that have ended"),
        "{}",
        err(&early)
    );
    assert_eq!(
        command_line.json(&["runs", "cancel", &run, "--json"]),
        json!({"ok": true, "runId": run, "alreadyEnded": false})
    );
    assert_eq!(one_object(&tail.line())["type"], "cancelled");
    assert_eq!(tail.ended().code(), Some(130));

    let listed = command_line.json(&[
        "runs",
        "list",
        "--metadata",
        "team:blue",
        "--status",
        "cancelled",
        "--json",
    ]);
    assert_eq!(listed["runs"][0]["id"], run.as_str());
    assert_eq!(
        command_line.json(&["runs", "list", "--metadata", "team:red", "--json"])["runs"],
        json!([])
    );
    let table = out(&command_line.ended(&["runs", "list"]));
    assert!(table.starts_with("ID") && table.contains(&run), "{table}");
    assert_eq!(
        command_line.json(&["runs", "show", &run, "--json"]),
        api.get(&format!("/agent-runs/{run}")).json()
    );
    assert!(out(&command_line.ended(&["runs", "show", &run])).contains("cancelled"));

    let file = command_line.folder.path().join("run.jsonl");
    let output = command_line.ended(&["runs", "export", &run, "--output", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, events) = text.split_once('\n').unwrap();
    let head = one_object(head);
    assert_eq!(
        (&head["type"], &head["version"]),
        (&json!("runloom.export"), &json!(1))
    );
    let log = replay(&api, &run).unwrap();
    assert_eq!(
        events.lines().collect::<Vec<_>>(),
        log.iter()
            .map(|frame| frame.field("data").unwrap())
            .collect::<Vec<_>>()
    );
    let after = out(&command_line.ended(&["runs", "tail", &run, "--after", "1", "--json"]));
    assert_eq!(one_object(&after)["seq"], 2);
}

#[test]
fn chat_continues_a_session() {
    let command_line = CommandLine::new();
    let chat = |arguments: &[&str], text: &str| {
        let mut child = command_line
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    };
    let first = chat(&["chat"], "say one\n\n/exit\n");
    assert_eq!(
        (out(&first).as_str(), first.status.code()),
        ("one\n", Some(0))
    );
    let told = err(&first);
    let session = told
        .split_whitespace()
        .find(|word| word.starts_with("ses_"))
        .unwrap();
    let second = chat(&["chat", "--session", session], "history\n");
    assert!(
        out(&second).contains(r#"{"role":"assistant","content":"one"}"#),
        "{}",
        out(&second)
    );
}
