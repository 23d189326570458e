//! Every guard through the real server, with a scripted provider (what the model is really sent) and with the demo
//! model.

use serde_json::{Value, json};

use crate::http::Api;
use crate::peer::{Peer, Reply, calls, chat, says};
use crate::server::Server;
use crate::sse::{Frame, Stream};

/// A server, its provider, and the API of its workspace.
struct CommandLine {
    _folder: tempfile::TempDir,
    _server: Server,
    peer: Peer,
    api: Api,
    model: String,
}

fn command_line(script: impl Fn(&Value, usize) -> Reply + Send + Sync + 'static) -> CommandLine {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let peer = Peer::start(move |asked, number| script(&asked.body, number));
    let model = server.provider(&peer.url, json!({"id": "m"}));
    CommandLine {
        api: server.api(),
        _folder: folder,
        _server: server,
        peer,
        model,
    }
}

fn tools_disabled(body: &Value) -> bool {
    body["tool_choice"] == "none"
}

impl CommandLine {
    fn spec(&self, more: Value) -> Value {
        let mut spec = json!({
            "systemPrompt": "s", "modelId": self.model,
            "tools": [{"kind": "local", "name": "act", "parameters": {"type": "object"}},
                      {"kind": "local", "name": "recall", "parameters": {"type": "object"}}]
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    }

    /// Starts a run and answers its tools to the end.
    fn run(&self, more: Value) -> Vec<Frame> {
        let mut spec = self.spec(more);
        spec["prompt"] = json!("Go.");
        let run = self.api.run(&spec);
        followed(&self.api, &run)
    }

    /// The messages of the last request, as the model saw them.
    fn last_messages(&self) -> Vec<Value> {
        let asked = self.peer.asked();
        asked.last().unwrap().body["messages"]
            .as_array()
            .unwrap()
            .clone()
    }
}

fn followed(api: &Api, run: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut stream = Stream::open(api, run, 0).unwrap().unwrap();
    while let Some(frame) = stream.next().unwrap() {
        if frame.kind() == "local_tool_call" {
            let answer = json!({"toolUseId": frame.data()["toolUseId"], "result": "acted"});
            let path = format!("/agent-runs/{run}/tool-results");
            assert_eq!(api.post(&path, &answer).status, 200);
        }
        frames.push(frame);
    }
    frames
}

fn of<'a>(frames: &'a [Frame], kind: &str) -> Vec<&'a Frame> {
    frames.iter().filter(|frame| frame.kind() == kind).collect()
}

/// A model that repeats itself until its tools are taken away.
fn stubborn(body: &Value, _: usize) -> Reply {
    if tools_disabled(body) {
        says("At last.")
    } else {
        calls("act", json!({"b": 1, "a": 2}))
    }
}

#[test]
fn stops_a_tool_loop_step_by_step() {
    let command_line = command_line(stubborn);
    let frames = command_line.run(json!({}));
    let loops: Vec<Value> = of(&frames, "loop_detected")
        .iter()
        .map(|frame| frame.data())
        .collect();
    assert_eq!(
        loops,
        [
            json!({"consecutiveCount": 3, "hardCutoff": false, "tools": ["act"]}),
            json!({"consecutiveCount": 6, "hardCutoff": true, "tools": ["act"]}),
        ]
    );
    assert_eq!(
        of(&frames, "local_tool_call").len(),
        2,
        "only the first two were executed"
    );
    // The synthetic result stands before the event, and no call is announced for it.
    let soft = frames
        .iter()
        .position(|frame| frame.kind() == "loop_detected")
        .unwrap();
    assert_eq!(frames[soft - 1].kind(), "tool_result");
    assert_eq!(frames[soft - 1].data()["ok"], false);
    assert_eq!(frames.last().unwrap().data()["text"], "At last.");
    let asked = command_line.peer.asked();
    assert_eq!(asked.len(), 7, "six turns of tools and one without");
    assert!(asked[..6].iter().all(|asked| !tools_disabled(&asked.body)));
    assert!(tools_disabled(&asked[6].body));
    assert!(
        asked[6].body["tools"].is_array(),
        "they stay declared, for the cache's sake"
    );
    let fourth = asked[3].body["messages"].as_array().unwrap();
    let nudge = fourth.last().unwrap();
    assert_eq!(nudge["role"], "user");
    assert!(
        nudge["content"]
            .as_str()
            .unwrap()
            .contains("repeating the same tool calls"),
        "{nudge}"
    );
    let skipped = &fourth[fourth.len() - 2];
    assert!(
        skipped["content"]
            .as_str()
            .unwrap()
            .contains("already made"),
        "{skipped}"
    );
}

#[test]
fn repeats_the_conversation_byte_for_byte() {
    let command_line = command_line(|body, number| match number {
        _ if tools_disabled(body) => says("Done."),
        1..=3 => calls("act", json!({"n": number})),
        _ => says("Done."),
    });
    command_line.run(json!({}));
    let asked = command_line.peer.asked();
    for (before, after) in asked.iter().zip(&asked[1..]) {
        assert_eq!(
            before.body["tools"].to_string(),
            after.body["tools"].to_string()
        );
        let messages = |body: &Value| body["messages"].as_array().unwrap().clone();
        let (before, after) = (messages(&before.body), messages(&after.body));
        assert_eq!(before.as_slice(), &after[..before.len()]);
    }
}

#[test]
fn disabled_guard_ends_at_the_turn_limit() {
    let command_line = command_line(stubborn);
    let frames = command_line.run(json!({"loopDetection": false, "budgets": {"maxToolTurns": 8}}));
    assert!(of(&frames, "loop_detected").is_empty());
    assert_eq!(of(&frames, "local_tool_call").len(), 8);
    assert_eq!(command_line.peer.asked().len(), 9);
    assert!(tools_disabled(&command_line.peer.asked()[8].body));
    let last = command_line.last_messages().pop().unwrap();
    assert!(
        last["content"]
            .as_str()
            .unwrap()
            .contains("No more tool calls"),
        "{last}"
    );
    assert_eq!(frames.last().unwrap().data()["turns"], 9);
}

/// Calls `recall` this many times, each with new arguments.
fn recalls(count: usize) -> impl Fn(&Value, usize) -> Reply + Send + Sync {
    move |body, number| {
        if tools_disabled(body) || number > count {
            says("Done.")
        } else {
            calls("recall", json!({"n": number}))
        }
    }
}

#[test]
fn tool_budgets_are_layered() {
    for (budgets, executed) in [
        (Value::Null, 4),
        (json!({"act": {"maxCalls": 1}}), 4),
        (json!({"recall": {"maxCalls": 2}}), 2),
        (json!({"recall": {"maxCalls": 0}}), 0),
        (json!({}), 6),
    ] {
        let command_line = command_line(recalls(6));
        let more = if budgets.is_null() {
            json!({})
        } else {
            json!({"toolBudgets": budgets})
        };
        let frames = command_line.run(more);
        assert_eq!(of(&frames, "local_tool_call").len(), executed, "{budgets}");
        let exceeded = of(&frames, "tool_budget_exceeded");
        assert_eq!(exceeded.len(), 6 - executed, "{budgets}");
        for (frame, index) in exceeded.iter().zip(executed + 1..) {
            assert_eq!(
                frame.data(),
                json!({"tool": "recall", "maxCalls": executed, "callIndex": index})
            );
        }
        assert_eq!(frames.last().unwrap().kind(), "result");
        if executed < 6 {
            let told = command_line.last_messages().pop().unwrap();
            assert_eq!(told["role"], "tool", "{told}");
            assert!(
                told["content"].as_str().unwrap().contains("budget"),
                "{told}"
            );
        }
    }
}

#[test]
fn messages_override_guards_of_the_session() {
    let command_line = command_line(|body, _| {
        // One call per prompt: as long as no result follows the last prompt.
        let messages = body["messages"].as_array().unwrap();
        if messages.last().unwrap()["role"] == "user" {
            calls("act", json!({"n": messages.len()}))
        } else {
            says("Done.")
        }
    });
    let spec = command_line.spec(json!({"toolBudgets": {"act": {"maxCalls": 0}}}));
    let session = command_line.api.post("/agent-sessions", &spec).json();
    let path = format!(
        "/agent-sessions/{}/messages",
        session["sessionId"].as_str().unwrap()
    );
    let say = |more: Value| {
        let mut message = json!({"prompt": "Go."});
        for (key, value) in more.as_object().unwrap() {
            message[key] = value.clone();
        }
        let answer = command_line.api.post(&path, &message);
        assert_eq!(answer.status, 202, "{answer:?}");
        let frames = followed(&command_line.api, answer.json()["runId"].as_str().unwrap());
        (
            of(&frames, "local_tool_call").len(),
            of(&frames, "tool_budget_exceeded").len(),
        )
    };
    assert_eq!(say(json!({})), (0, 1));
    assert_eq!(
        say(json!({"toolBudgets": {"act": {"maxCalls": 5}}})),
        (1, 0)
    );
    assert_eq!(
        say(json!({})),
        (0, 1),
        "the message's own held for that message only"
    );
}

#[test]
fn returns_a_malformed_call_once() {
    let broken = || {
        let call =
            json!({"index": 0, "id": "c", "function": {"name": "act", "arguments": "{\"a\":"}});
        Reply::Events(vec![
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}],
                   "usage": {"prompt_tokens": 10, "completion_tokens": 5}}),
            json!("[DONE]"),
        ])
    };
    let healed = command_line(move |_, number| {
        if number == 1 {
            broken()
        } else {
            says("Better.")
        }
    });
    let frames = healed.run(json!({}));
    assert_eq!(frames.last().unwrap().data()["text"], "Better.");
    let told = healed.last_messages().pop().unwrap();
    assert!(
        told["content"].as_str().unwrap().contains("malformed"),
        "{told}"
    );
    let hopeless = command_line(move |_, _| broken());
    let frames = hopeless.run(json!({}));
    let end = frames.last().unwrap();
    assert_eq!(end.kind(), "error", "{}", end.json());
    assert_eq!(end.data()["finishReason"], "malformed_function_call");
    assert_eq!(hopeless.peer.asked().len(), 2);
    assert_eq!(
        end.data()["tokens"]["outputTokens"],
        10,
        "the failing turn is counted: {}",
        end.json()
    );
}

#[test]
fn limits_time_and_output() {
    let silent = command_line(|_, _| {
        Reply::EventsThenSilence(vec![json!({"choices": [{"delta": {"content": "Hm"}}]})])
    });
    let frames = silent.run(json!({"budgets": {"maxWallMs": 1000}}));
    let end = frames.last().unwrap().data();
    assert_eq!(end["errorClass"], "local_timeout", "{end}");
    silent.peer.until_left();

    let talkative = command_line(|body, _| {
        let bound = body["max_tokens"].as_u64().unwrap();
        let used = bound.min(60);
        if tools_disabled(body) {
            Reply::Events(chat(&["Done."], &[], "stop", (10, used)))
        } else {
            Reply::Events(chat(
                &["So."],
                &[("act", json!({"bound": bound}))],
                "tool_calls",
                (10, used),
            ))
        }
    });
    let frames = talkative.run(json!({"budgets": {"maxOutputTokens": 100}}));
    let end = frames.last().unwrap();
    let bounds: Vec<u64> = talkative
        .peer
        .asked()
        .iter()
        .map(|asked| asked.body["max_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(bounds, [100, 40]);
    assert_eq!(
        end.data()["errorClass"],
        "budget_exceeded",
        "{}",
        end.json()
    );
    assert_eq!(end.data()["tokens"]["outputTokens"], 100);
}

#[test]
fn guards_apply_to_the_demo_model() {
    let command_line = command_line(|_, _| says("never asked"));
    let run = |prompt: &str, more: Value| {
        let mut spec = command_line.spec(more);
        spec["modelId"] = json!("platform:demo");
        spec["prompt"] = json!(prompt);
        followed(&command_line.api, &command_line.api.run(&spec))
    };
    let frames = run(
        "call act {}\nrepeat\nsay at last",
        json!({"loopDetection": {"consecutiveThreshold": 2, "hardCutoffThreshold": 3}}),
    );
    assert_eq!(of(&frames, "loop_detected").len(), 2);
    assert_eq!(of(&frames, "local_tool_call").len(), 1);
    let frames = run(
        "call act {\"n\":1}\nthen\ncall act {\"n\":2}",
        json!({"toolBudgets": {"act": {"maxCalls": 1}}}),
    );
    assert_eq!(of(&frames, "tool_budget_exceeded").len(), 1);
    let frames = run(
        "call act {}\nrepeat\nsay done",
        json!({"loopDetection": false, "budgets": {"maxToolTurns": 3}}),
    );
    assert_eq!(of(&frames, "local_tool_call").len(), 3);
    assert_eq!(frames.last().unwrap().kind(), "result");
    assert!(command_line.peer.asked().is_empty());
}
