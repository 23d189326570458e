//! Another tenant's runs, sessions and calls: not there, not disturbed, not guessed.

use serde_json::{Value, json};

use crate::http::{Answer, Api};
use crate::server::Server;
use crate::sse::{Stream, replay, until};

fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt,
           "tools": [{"kind": "local", "name": "act", "parameters": {"type": "object"}}]})
}

struct Tenants {
    _folder: tempfile::TempDir,
    _server: Server,
    mine: Api,
    theirs: Api,
    run: String,
    call: String,
    session: String,
}

/// Two tenants; the first has a run that waits for a call's answer, and a session.
fn tenants() -> Tenants {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let (mine, theirs) = (server.tenant("mine"), server.tenant("theirs"));
    let run = mine.run(&agent("call act {}\nsay done"));
    let call = until(
        &mut Stream::open(&mine, &run, 0).unwrap().unwrap(),
        "local_tool_call",
    )
    .data();
    let session = mine
        .post(
            "/agent-sessions",
            &json!({"systemPrompt": "s", "modelId": "platform:demo"}),
        )
        .json();
    Tenants {
        _folder: folder,
        _server: server,
        mine,
        theirs,
        run,
        call: call["toolUseId"].as_str().unwrap().to_owned(),
        session: session["sessionId"].as_str().unwrap().to_owned(),
    }
}

/// What can be asked of a run or session by its id.
fn everything(api: &Api, run: &str, session: &str, call: &str) -> Vec<(String, Answer)> {
    let result = json!({"toolUseId": call, "result": "stolen"}).to_string();
    [
        ("GET", format!("/agent-runs/{run}"), ""),
        ("GET", format!("/agent-runs/{run}/stream"), ""),
        ("GET", format!("/agent-runs/{run}/events"), ""),
        ("POST", format!("/agent-runs/{run}/tool-results"), &result),
        ("POST", format!("/agent-runs/{run}/cancel"), ""),
        ("GET", format!("/agent-sessions/{session}"), ""),
        (
            "POST",
            format!("/agent-sessions/{session}/messages"),
            r#"{"prompt":"say hi"}"#,
        ),
        ("DELETE", format!("/agent-sessions/{session}"), ""),
    ]
    .into_iter()
    .map(|(method, path, body)| {
        let answer = api.send(method, &path, &[], body.as_bytes()).unwrap();
        (format!("{method} {path}"), answer)
    })
    .collect()
}

#[test]
fn other_workspaces_are_404() {
    let t = tenants();
    let suffix = |id: &str| "0".repeat(id.len() - 4);
    let (no_run, no_session) = (
        format!("run_{}", suffix(&t.run)),
        format!("ses_{}", suffix(&t.session)),
    );
    let foreign = everything(&t.theirs, &t.run, &t.session, &t.call);
    let missing = everything(&t.theirs, &no_run, &no_session, &t.call);
    for ((what, foreign), (_, missing)) in foreign.iter().zip(&missing) {
        assert_eq!(foreign.refusal(), (404, "not_found".to_owned()), "{what}");
        assert_eq!(foreign.body, missing.body, "{what} tells that it exists");
        let names = |answer: &Answer| {
            answer
                .headers
                .iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(foreign), names(missing), "{what}");
    }
    // Nothing of it had an effect.
    let known = t.mine.get(&format!("/agent-runs/{}", t.run)).json();
    assert_eq!(known["status"], "waiting_tool");
    let session = t.mine.get(&format!("/agent-sessions/{}", t.session)).json();
    assert_eq!(
        (&session["status"], &session["messages"]),
        (&json!("active"), &json!([]))
    );
    let answer = t.mine.post(
        &format!("/agent-runs/{}/tool-results", t.run),
        &json!({"toolUseId": t.call, "result": "mine"}),
    );
    assert_eq!(answer.status, 200);
    let log = replay(&t.mine, &t.run).unwrap();
    assert_eq!(log.last().unwrap().data()["text"], "done");
}

#[test]
fn lists_and_keys_stay_in_a_workspace() {
    let t = tenants();
    for path in [
        "/agent-runs?includeTotal=true",
        &format!("/agent-runs?sessionId={}", t.session),
    ] {
        let list = t.theirs.get(path).json();
        assert_eq!(list["runs"], json!([]), "{path}");
    }
    // The same idempotency key of two tenants names two runs.
    let key = [("Idempotency-Key", "k")];
    let create = |api: &Api, prompt: &str| {
        let body = agent(prompt).to_string();
        let answer = api
            .send("POST", "/agent-runs", &key, body.as_bytes())
            .unwrap();
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["runId"].as_str().unwrap().to_owned()
    };
    assert_ne!(create(&t.mine, "say a"), create(&t.theirs, "say b"));
    // A call's id counts only in its own run.
    let own = t.theirs.run(&agent("call act {}"));
    until(
        &mut Stream::open(&t.theirs, &own, 0).unwrap().unwrap(),
        "local_tool_call",
    );
    let body = json!({"toolUseId": t.call, "result": "r"});
    let answer = t
        .theirs
        .post(&format!("/agent-runs/{own}/tool-results"), &body);
    assert_eq!(answer.refusal(), (404, "unknown_tool_use".to_owned()));
}

#[test]
fn credential_opens_its_own_workspace_only() {
    let t = tenants();
    let at = |slug: &str| {
        let api = Api {
            workspace: slug.to_owned(),
            ..t.theirs.clone()
        };
        api.get("/models")
    };
    let (existing, missing) = (at("mine"), at("nobody"));
    assert_eq!(existing.refusal(), (404, "not_found".to_owned()));
    assert_eq!(
        existing.json()["error"],
        "Workspace path does not match this credential"
    );
    assert!(
        existing.json()["hint"]
            .as_str()
            .unwrap()
            .contains("`theirs`")
    );
    assert_eq!(
        existing.body, missing.body,
        "a workspace that exists must look like one that does not"
    );
}

#[test]
fn invalid_ids_are_404() {
    let t = tenants();
    let long = format!("run_{}", "a".repeat(5000));
    for id in [
        "x",
        "run_",
        "run_%00",
        "run_%0a%0d",
        "run_..%2f..%2fadmin",
        "run_%F0%9F%92%A5",
        "run_%27%20OR%201%3D1",
        "%2e%2e",
        "run_*",
        "ses_0",
        &long,
    ] {
        for (what, answer) in everything(&t.theirs, id, &id.replace("run_", "ses_"), "tu_\u{1}") {
            assert!([400, 404].contains(&answer.status), "{what}: {answer:?}");
            answer.refusal();
        }
    }
    // Bytes that are not even text name nothing.
    let answer = t.theirs.get("/agent-runs/run_%ff%fe");
    assert_eq!(answer.refusal().0, 404, "{answer:?}");
    let body = json!({"toolUseId": "tu_\u{0}\u{1b}[2J", "result": "r"});
    let answer = t
        .mine
        .post(&format!("/agent-runs/{}/tool-results", t.run), &body);
    assert_eq!(answer.refusal(), (404, "unknown_tool_use".to_owned()));
}
