//! Runs that are decided once more from their log, with and without a server.

use serde_json::{Value, json};

use crate::command_line::{CommandLine, err, one_object, out};
use crate::sse::replay;

/// A run with a tool of the server, one of the client past its budget, and an end.
fn a_run(command_line: &CommandLine) -> String {
    let api = command_line.server.api();
    let tools = json!([
        {"kind": "mantyx_plugin", "name": "@time/now"},
        {"kind": "local", "name": "weather", "parameters": {"type": "object", "required": ["city"]}},
    ]);
    let prompt = "call now {}\ncall weather {}\ncall weather {\"city\": \"Oslo\"}";
    let body = json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt, "tools": tools,
        "toolBudgets": {"weather": {"maxCalls": 0}}});
    let run = api.run(&body);
    let kinds: Vec<String> = replay(&api, &run)
        .unwrap()
        .iter()
        .map(|frame| frame.kind().to_owned())
        .collect();
    for kind in ["tool_call", "tool_budget_exceeded", "result"] {
        assert!(kinds.iter().any(|seen| seen == kind), "{kind}: {kinds:?}");
    }
    run
}

#[test]
fn replays_a_run_of_the_server() {
    let command_line = CommandLine::new();
    let run = a_run(&command_line);
    let told = command_line.json(&["runs", "replay", &run, "--json"]);
    assert_eq!(told["same"], true, "{told}");
    assert!(told["decided"].as_u64().unwrap() >= 3, "{told}");
    let words = out(&command_line.ended(&["runs", "replay", &run]));
    assert!(words.contains("all the same"), "{words}");
}

#[test]
fn replays_an_export_and_finds_changes() {
    let mut command_line = CommandLine::new();
    let run = a_run(&command_line);
    let file = command_line.folder.path().join("run.jsonl");
    let file = file.to_str().unwrap();
    let exported = command_line.ended(&["runs", "export", &run, "--output", file]);
    assert_eq!(exported.status.code(), Some(0), "{}", err(&exported));
    command_line.server.kill();
    assert_eq!(
        command_line.json(&["runs", "replay", "--file", file, "--json"])["run"],
        run.as_str()
    );

    let text = std::fs::read_to_string(file).unwrap();
    let (mut kept, mut cut) = (Vec::new(), 0);
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["type"] == "tool_budget_exceeded" && cut == 0 {
            cut = event["seq"].as_u64().unwrap();
        } else {
            kept.push(line);
        }
    }
    std::fs::write(file, kept.join("\n")).unwrap();
    let told = command_line.ended(&["runs", "replay", "--file", file, "--json"]);
    assert_eq!(told.status.code(), Some(1), "{}", err(&told));
    let told = one_object(&out(&told));
    assert_eq!(told["same"], false);
    assert_eq!(
        told["seq"],
        cut + 1,
        "the first event that is not as expected"
    );
    let words = command_line.ended(&["runs", "replay", "--file", file]);
    assert!(
        err(&words).contains("tool_budget_exceeded"),
        "{}",
        err(&words)
    );
}

#[test]
fn refuses_invalid_recordings() {
    let command_line = CommandLine::new();
    let run = command_line
        .server
        .api()
        .run(&json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": "hang"}));
    let early = command_line.ended(&["runs", "replay", &run]);
    assert_eq!(early.status.code(), Some(1));
    assert!(
        err(&early).contains("only runs that have ended"),
        "{}",
        err(&early)
    );
    let file = command_line.folder.path().join("no.jsonl");
    for text in ["", "{}", "no json", "{\"type\":\"runloom.export\"}"] {
        std::fs::write(&file, text).unwrap();
        let refused = command_line.ended(&["runs", "replay", "--file", file.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(err(&refused).contains("no.jsonl"), "{}", err(&refused));
    }
    let neither = command_line.ended(&["runs", "replay"]);
    assert_eq!(neither.status.code(), Some(2), "{}", err(&neither));
}

/// Whatever happened to a run, as long as it is what happened.
#[test]
fn unchanged_runs_do_not_differ() {
    let command_line = CommandLine::new();
    let api = command_line.server.api();
    let strict = json!({"schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}, "enforcement": "strict"});
    let tools = json!([
        {"kind": "mantyx_plugin", "name": "@memory/recall"},
        {"kind": "mantyx_plugin", "name": "@memory/remember"},
        {"kind": "local", "name": "weather", "parameters": {"type": "object", "required": ["city"]}},
    ]);
    for (prompt, more) in [
        ("fail context", json!({"outputSchema": strict})),
        ("hello", json!({"outputSchema": strict})),
        (
            "fail 500",
            json!({"outputSchema": strict, "fallbackModelId": "platform:demo-spare"}),
        ),
        (
            "call recall {\"query\": \"x\"}\nthen\ncall recall {}\ncall weather {}",
            json!({"tools": tools}),
        ),
        ("call recall {}\ncall remember {}", json!({"tools": tools})),
        ("call recall {}\ncall nothing {}", json!({"tools": tools})),
        (
            "repeat 4 call recall {\"query\": \"x\"}",
            json!({"tools": tools}),
        ),
        ("truncate", json!({})),
        ("malformed", json!({})),
        ("refuse", json!({})),
    ] {
        let mut body = json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        let run = api.run(&body);
        replay(&api, &run).unwrap();
        let told = command_line.ended(&["runs", "replay", &run, "--json"]);
        assert_eq!(
            told.status.code(),
            Some(0),
            "{body}: {}{}",
            out(&told),
            err(&told)
        );
    }
}
