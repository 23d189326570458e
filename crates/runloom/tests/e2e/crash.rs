//! A crash at every named point, under every kind of work: nothing that a client saw or was promised is lost.
//!
//! Each test is one kind of work; it is done once for each point that it passes, on a server that aborts there and is
//! started again. A point that is not met fails the test, so that none is renamed away.

use serde_json::{Value, json};

use crate::checker::Seen;
use crate::server::{Settings, settings};
use crate::world::{Tools, World};

fn quick() -> Settings {
    settings([("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "100000")])
}

fn at_each(points: &[&str], settings: &Settings, work: impl Fn(&World)) {
    for point in points {
        let world = World::new(settings.clone());
        let crashes = world.survive(point, |world| {
            // Says in which round a failure was.
            println!("crashing at {point}");
            work(world);
        });
        assert_eq!(crashes, 1, "{point} was not met");
    }
}

fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "You are tested.", "modelId": "platform:demo", "prompt": prompt})
}

const READING: [&str; 2] = ["read_a", "read_b"];

fn with_tools(prompt: &str) -> Value {
    let tool = |name: &str| {
        json!({"kind": "local", "name": name, "readOnly": READING.contains(&name),
               "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}})
    };
    let mut body = agent(prompt);
    body["tools"] = ["read_a", "act_one", "read_b", "act_two"]
        .map(tool)
        .into_iter()
        .collect();
    body
}

const TOOL_PROMPT: &str = "text let me see\ncall act_one {\"n\":1}\ncall read_a {\"n\":2}\ncall act_two {\"n\":3}\n\
                           call read_b {\"n\":4}\nthen\ncall act_one {\"n\":5}\ncall read_a {\"n\":6}";

/// Two clients follow the run; one of them answers its tools.
fn followed(world: &World, run: &str) -> Vec<Seen> {
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| world.follow(run, Tools::Watch));
        let answering = world.follow(run, Tools::Answer);
        vec![answering, watching.join().unwrap()]
    })
}

/// Judges a run with tools: everything was executed, and the model got every answer.
fn judge_tools(world: &World, run: &str, seen: Vec<Seen>) {
    let evidence = world.judge(run, seen, &READING);
    let end = evidence.log.last().unwrap();
    assert_eq!(end.kind(), "result", "{}", end.json());
    for n in [1, 2, 3, 4, 5, 6] {
        let result = format!("of {{\"n\":{n}}}");
        assert!(
            end.data()["text"].as_str().unwrap().contains(&result),
            "{}",
            end.json()
        );
    }
    let asked = evidence
        .log
        .iter()
        .filter(|frame| frame.kind() == "local_tool_call");
    assert_eq!(asked.count(), 6);
}

#[test]
fn a_streamed_answer_survives() {
    let points = [
        "before_commit.create_run",
        "after_commit.create_run",
        "before_commit.append",
        "before_commit.append:3",
        "after_commit.append",
        "after_commit.append:3",
        "before_commit.finish",
        "after_commit.finish",
        "before_publish",
        "after_publish:2",
        "before_model",
        "mid_stream",
        "mid_stream:9",
        "turn_done",
    ];
    at_each(&points, &quick(), |world| {
        let mut body = agent("think I shall count\nslow 10ms\ntokens 20");
        body["reasoningLevel"] = json!("high");
        let run = world.create("/agent-runs", "k", &body);
        let evidence = world.judge(&run, followed(world, &run), &[]);
        assert_eq!(
            evidence.snapshot["status"], "succeeded",
            "{}",
            evidence.snapshot
        );
        assert_eq!(world.runs().len(), 1);
    });
}

#[test]
fn fallback_survives_a_crash() {
    // The sixth call is the first of the fallback: the model is tried five times.
    let points = ["after_fallback", "before_model:6", "turn_done"];
    at_each(&points, &quick(), |world| {
        let mut body = agent("fail 503\nslow 10ms\nsay here I am");
        body["fallbackModelId"] = json!("platform:demo-spare");
        let run = world.create("/agent-runs", "k", &body);
        let evidence = world.judge(&run, followed(world, &run), &[]);
        let moved = evidence
            .log
            .iter()
            .filter(|frame| frame.kind() == "model_fallback");
        assert_eq!(moved.count(), 1);
        let end = evidence.log.last().unwrap();
        assert_eq!(end.data()["text"], "here I am", "{}", end.json());
        assert_eq!(end.data()["model"]["id"], "platform:demo-spare");
    });
}

#[test]
fn tools_of_clients_survive() {
    let points = [
        "before_commit.append",
        "before_commit.append:2",
        "after_commit.append:3",
        "before_commit.append:5",
        "after_commit.append:6",
        "before_commit.tool_result",
        "before_commit.tool_result:4",
        "after_commit.tool_result",
        "after_commit.tool_result:3",
        "before_commit.finish",
        "after_commit.finish",
        "before_publish:3",
        "after_publish:4",
        "after_ask",
        "after_ask:2",
        "after_ask:3",
        "mail_read",
        "mail_read:4",
        "turn_done",
        "turn_done:2",
        "before_model:2",
    ];
    at_each(&points, &quick(), |world| {
        let run = world.create("/agent-runs", "k", &with_tools(TOOL_PROMPT));
        judge_tools(world, &run, followed(world, &run));
    });
}

#[test]
fn parked_runs_survive() {
    let points = [
        "before_commit.park",
        "after_commit.park",
        "before_commit.claim",
        "after_commit.claim",
        "after_commit.claim:2",
        "after_commit.tool_result:2",
        "after_publish:5",
    ];
    let mut settings = quick();
    settings.push(("RUNLOOM_RUNS__PARK_AFTER_MS".to_owned(), "1".to_owned()));
    at_each(&points, &settings, |world| {
        let run = world.create("/agent-runs", "k", &with_tools(TOOL_PROMPT));
        // Each answer is given after another run, which takes longer than it takes to park this one.
        let other = agent("slow 10ms\ntokens 3");
        let seen = world.follow_and(&run, Tools::Answer, |seen| {
            let last = seen.frames.last().unwrap();
            if last.kind() == "local_tool_call" {
                let other = world.create("/agent-runs", &format!("k{}", last.seq()), &other);
                world.follow(&other, Tools::Watch);
            }
        });
        judge_tools(world, &run, vec![seen]);
    });
}

#[test]
fn approvals_survive() {
    let points = [
        "before_commit.ask_approval",
        "after_commit.ask_approval",
        "after_approval_request",
        "before_commit.decide_approval",
        "after_commit.decide_approval",
        "after_commit.decide_approval:2",
        "approval_read",
        "approval_read:3",
    ];
    at_each(&points, &quick(), |world| {
        let mut body = with_tools(TOOL_PROMPT);
        body["policy"] = json!({"rules": [{"tools": ["act_*"], "decision": "ask"}]});
        let run = world.create("/agent-runs", "k", &body);
        let path = format!("/agent-runs/{run}/approvals");
        let seen = world.follow_and(&run, Tools::Answer, |seen| {
            let last = seen.frames.last().unwrap();
            if last.kind() == "approval_requested" {
                let approval = last.data()["approvalId"].clone();
                let decision = json!({"approvalId": approval, "decision": "approve"}).to_string();
                let decided = world.insist(|api| api.send("POST", &path, &[], decision.as_bytes()));
                assert_eq!(decided.status, 200, "{decided:?}");
            }
        });
        judge_tools(world, &run, vec![seen]);
        let log = &world.evidence(&run, &[], &READING).log;
        for kind in ["approval_requested", "approval_decided"] {
            let found = log.iter().filter(|frame| frame.kind() == kind);
            assert_eq!(found.count(), 3, "{kind}");
        }
    });
}

#[test]
fn a_session_survives() {
    let points = [
        "before_commit.create_session",
        "after_commit.create_session",
        "before_commit.create_run:2",
        "after_commit.create_run:2",
        "before_commit.finish",
        "after_commit.finish",
        "before_commit.finish:3",
        "after_commit.finish:3",
        "after_commit.append:3",
        "before_commit.end_session",
        "after_commit.end_session",
    ];
    at_each(&points, &quick(), conversation);
}

fn conversation(world: &World) {
    let mut spec = with_tools("");
    spec.as_object_mut().unwrap().remove("prompt");
    let bytes = spec.to_string().into_bytes();
    let made = world.insist(|api| api.send("POST", "/agent-sessions", &[], &bytes));
    assert_eq!(made.status, 201, "{made:?}");
    let session = made.json()["sessionId"].as_str().unwrap().to_owned();
    let path = format!("/agent-sessions/{session}");
    // Sent without waiting for each other: they must be answered in this order.
    let prompts = [
        "say first",
        "call act_one {\"n\":1}\nsay second",
        "fail 400",
        "history",
    ];
    let runs: Vec<String> = prompts
        .iter()
        .map(|prompt| {
            world.create(
                &format!("{path}/messages"),
                prompt.get(..5).unwrap(),
                &json!({"prompt": prompt}),
            )
        })
        .collect();
    let mut expected: Vec<Value> = Vec::new();
    for (run, prompt) in runs.iter().zip(prompts) {
        let evidence = world.judge(run, followed(world, run), &READING);
        let end = evidence.log.last().unwrap();
        assert_eq!(
            end.kind() == "error",
            prompt == "fail 400",
            "{}",
            end.json()
        );
        if prompt == "history" {
            let told: Value = serde_json::from_str(end.data()["text"].as_str().unwrap()).unwrap();
            assert_eq!(told, Value::Array(expected.clone()));
        }
        if end.kind() == "result" {
            expected.push(json!({"role": "user", "content": prompt}));
            expected.push(json!({"role": "assistant", "content": end.data()["text"]}));
        }
    }
    let ended = world.insist(|api| api.send("DELETE", &path, &[], b""));
    assert_eq!(ended.status, 200, "{ended:?}");
    let known = world.insist(|api| api.send("GET", &path, &[], b"")).json();
    assert_eq!(known["messages"], Value::Array(expected));
    assert_eq!(known["status"], "ended");
    let late = world.insist(|api| {
        api.send(
            "POST",
            &format!("{path}/messages"),
            &[],
            br#"{"prompt":"hi"}"#,
        )
    });
    assert_eq!(late.refusal(), (409, "session_ended".to_owned()));
}

#[test]
fn a_cancel_survives() {
    let points = [
        "before_commit.cancel",
        "after_commit.cancel",
        "before_commit.cancel:2",
        "after_commit.cancel:2",
        "before_commit.finish",
        "after_commit.finish",
        "after_commit.finish:2",
    ];
    at_each(&points, &quick(), |world| {
        let streaming = world.create("/agent-runs", "a", &agent("slow 20ms\ntokens 5000"));
        cancelled(world, &streaming, "assistant_delta");
        let waiting = world.create("/agent-runs", "b", &with_tools("call act_one {}"));
        let call = cancelled(world, &waiting, "local_tool_call");
        let late = json!({"toolUseId": call["toolUseId"], "result": "late"})
            .to_string()
            .into_bytes();
        let path = format!("/agent-runs/{waiting}/tool-results");
        assert_eq!(
            world
                .insist(|api| api.send("POST", &path, &[], &late))
                .status,
            200
        );
    });
}

/// Cancels the run at its first event of this kind and judges it; gives that event's payload.
fn cancelled(world: &World, run: &str, kind: &str) -> Value {
    let mut at = None;
    let seen = world.follow_and(run, Tools::Watch, |seen| {
        let last = seen.frames.last().unwrap();
        if at.is_none() && last.kind() == kind {
            at = Some(last.data());
            let answer = world
                .insist(|api| api.send("POST", &format!("/agent-runs/{run}/cancel"), &[], b""));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    });
    let evidence = world.judge(run, vec![seen], &[]);
    let end = evidence.log.last().unwrap();
    assert_eq!(
        (end.kind(), end.data()["reason"].as_str()),
        ("cancelled", Some("user"))
    );
    // A cancel of what has ended changes nothing.
    let again =
        world.insist(|api| api.send("POST", &format!("/agent-runs/{run}/cancel"), &[], b""));
    assert_eq!(again.status, 200);
    assert_eq!(world.evidence(run, &[], &[]).log, evidence.log);
    at.unwrap()
}

#[test]
fn repeated_create_stays_one_run() {
    let points = [
        "before_commit.create_run",
        "after_commit.create_run",
        "before_model",
        "after_commit.finish",
    ];
    at_each(&points, &quick(), |world| {
        let body = agent("say once");
        let ids: Vec<String> = std::thread::scope(|scope| {
            let creating: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| world.create("/agent-runs", "the key", &body)))
                .collect();
            creating
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        world.judge(&ids[0], followed(world, &ids[0]), &[]);
        assert_eq!(
            world.runs().into_iter().collect::<Vec<_>>(),
            [ids[0].clone()]
        );
    });
}

#[test]
fn create_is_atomic() {
    for (point, most) in [
        ("before_commit.create_run", 1),
        ("after_commit.create_run", 2),
    ] {
        let world = World::new(quick());
        let crashes = world.survive(point, |world| {
            let body = agent("say once").to_string().into_bytes();
            let answer = world.insist(|api| api.send("POST", "/agent-runs", &[], &body));
            assert_eq!(answer.status, 202, "{answer:?}");
            let runs = world.runs();
            assert!(runs.contains(answer.json()["runId"].as_str().unwrap()));
            assert_eq!(runs.len(), most, "{point}");
            for run in &runs {
                world.judge(run, vec![world.follow(run, Tools::Watch)], &[]);
            }
        });
        assert_eq!(crashes, 1, "{point} was not met");
    }
}
