//! Monthly budgets through the real server, with a provider that bills.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::http::Api;
use crate::peer::{Peer, Reply, chat};
use crate::server::Server;
use crate::sse::{Stream, replay, until};

/// A token of output costs a tenth of a cent, input nothing: an answer of 100 tokens is ten cents.
const MODEL: &str =
    "{ id = \"m\", max_output_tokens = 100, pricing = { input = 0.0, output = 1000.0 } }";

fn key(name: &str) -> String {
    format!("mantyx_{name}_0123456789abcdef0123456789abcdef")
}

/// A server whose workspace `acme` has this budget and these keys with theirs.
fn serve(
    folder: &std::path::Path,
    url: &str,
    budget: &str,
    keys: &[(&str, &str)],
) -> (Server, Vec<Api>) {
    let mut config = format!(
        "[limits]\nrun_starts_per_minute = 100000\nreads_per_minute = 100000\n[[workspaces]]\nslug = \"acme\"\n{budget}\n"
    );
    let mut variables = vec![("RUNLOOM_MASTER_KEY".to_owned(), "ab".repeat(32))];
    for (name, budget) in keys {
        config.push_str(&format!(
            "[[workspaces.api_keys]]\nname = \"{name}\"\nkey_env = \"KEY_{name}\"\n{budget}\n"
        ));
        variables.push((format!("KEY_{name}"), key(name)));
    }
    config.push_str(&format!(
        "[[workspaces.providers]]\nid = \"p\"\nkind = \"openai-compatible\"\nbase_url = \"{url}\"\nmodels = [{MODEL}]\n"
    ));
    let server = Server::serve(folder, &config, &variables);
    let api = |(name, _): &(&str, &str)| Api {
        address: server.address.clone(),
        workspace: "acme".to_owned(),
        key: key(name),
    };
    let apis = keys.iter().map(api).collect();
    (server, apis)
}

fn body() -> Value {
    json!({"systemPrompt": "s", "modelId": "m", "prompt": "Hello"})
}

/// The last event of a run.
fn end_of(api: &Api, run: &str) -> (String, Value) {
    let frames = replay(api, run).unwrap();
    let end = frames.last().unwrap();
    (end.kind().to_owned(), end.data())
}

/// A provider that answers with this many tokens, up to the limit of the request, and adds them up.
fn billing(tokens: impl Fn(usize) -> u64 + Send + Sync + 'static) -> (Peer, Arc<AtomicU64>) {
    let billed = Arc::new(AtomicU64::new(0));
    let bill = Arc::clone(&billed);
    let peer = Peer::start(move |asked, number| {
        let bound = asked.body["max_tokens"].as_u64().unwrap();
        let used = tokens(number).min(bound);
        bill.fetch_add(used, Ordering::SeqCst);
        Reply::Events(chat(&["Hello."], &[], "stop", (10, used)))
    });
    (peer, billed)
}

fn a_hundred_runs(api: &Api) -> Vec<(String, Value)> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    let run = api.run(&body());
                    end_of(api, &run)
                })
            })
            .collect();
        running.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

#[test]
fn concurrent_runs_never_overspend_a_budget() {
    let (peer, billed) = billing(|_| 100);
    let folder = tempfile::tempdir().unwrap();
    let (_server, apis) = serve(
        folder.path(),
        &peer.url,
        "monthly_budget_usd = 1.0",
        &[("a", "")],
    );
    let ends = a_hundred_runs(&apis[0]);
    assert_eq!(
        billed.load(Ordering::SeqCst),
        1_000,
        "ten answers of 100 tokens, and not one more"
    );
    assert_eq!(peer.asked().len(), 10);
    let succeeded = ends.iter().filter(|(kind, _)| kind == "result").count();
    assert_eq!(succeeded, 10);
    for (kind, data) in &ends {
        if kind != "result" {
            assert_eq!(
                (kind.as_str(), &data["errorClass"]),
                ("error", &json!("budget_exceeded")),
                "{data}"
            );
            assert_ne!(data["retryable"], true, "{data}");
            assert!(
                data["error"].as_str().unwrap().contains("refills at"),
                "{data}"
            );
        } else {
            assert_eq!(data["costUsd"], 0.1, "{data}");
        }
    }
    let usage = apis[0].get("/usage?groupBy=key").json();
    assert_eq!(usage["total"]["costUsd"], 1.0, "{usage}");
    assert_eq!(usage["total"]["runs"], 100, "{usage}");
    assert_eq!(usage["total"]["outputTokens"], 1_000, "{usage}");
}

#[test]
fn unused_reservations_are_returned() {
    let (peer, billed) = billing(|number| 10 + number as u64 * 7 % 90);
    let folder = tempfile::tempdir().unwrap();
    let (_server, apis) = serve(
        folder.path(),
        &peer.url,
        "monthly_budget_usd = 1.0",
        &[("a", "")],
    );
    let ends = a_hundred_runs(&apis[0]);
    let billed = billed.load(Ordering::SeqCst);
    assert!(
        billed <= 1_000,
        "{billed} tokens were billed, 1000 could be paid"
    );
    // Less than the shortest last turn is left.
    assert!(
        billed > 1_000 - 64,
        "{billed} tokens: money that was given back was not used"
    );
    assert!(peer.asked().len() > 10);
    assert!(
        ends.iter()
            .all(|(kind, data)| kind == "result" || data["errorClass"] == "budget_exceeded")
    );
}

#[test]
fn key_budget_survives_a_restart() {
    let (peer, _) = billing(|_| 100);
    let folder = tempfile::tempdir().unwrap();
    let keys = [("poor", "monthly_budget_usd = 0.1"), ("rich", "")];
    let start = || serve(folder.path(), &peer.url, "monthly_budget_usd = 0.3", &keys);
    let (mut server, apis) = start();
    let outcome = |api: &Api| {
        let (kind, data) = end_of(api, &api.run(&body()));
        data["errorClass"].as_str().map_or(kind, str::to_owned)
    };
    assert_eq!(outcome(&apis[0]), "result");
    assert_eq!(outcome(&apis[0]), "budget_exceeded");
    assert_eq!(outcome(&apis[1]), "result");
    server.kill();
    let (_server, apis) = start();
    assert_eq!(outcome(&apis[0]), "budget_exceeded");
    assert_eq!(outcome(&apis[1]), "result");
    assert_eq!(
        outcome(&apis[1]),
        "budget_exceeded",
        "the workspace's own purse is empty"
    );
    assert_eq!(peer.asked().len(), 3);
    let by_key = apis[1].get("/usage?groupBy=key").json();
    assert_eq!(by_key["rows"].as_array().unwrap().len(), 2, "{by_key}");
    for group in ["day", "model"] {
        let usage = apis[1].get(&format!("/usage?groupBy={group}")).json();
        assert_eq!(usage["rows"].as_array().unwrap().len(), 1, "{usage}");
        assert_eq!(usage["total"]["costUsd"], 0.3, "{usage}");
    }
}

#[test]
fn exhausted_budget_allows_an_affordable_last_turn() {
    for (budget, last) in [(0.17, Some(70)), (0.15, None)] {
        let peer = Peer::start(|asked, _| {
            let bound = asked.body["max_tokens"].as_u64().unwrap();
            let tools = asked.body["tool_choice"] != "none";
            let calls: &[(&str, Value)] = if tools { &[("act", json!({}))] } else { &[] };
            let finish = if tools { "tool_calls" } else { "stop" };
            Reply::Events(chat(&["So."], calls, finish, (10, bound)))
        });
        let folder = tempfile::tempdir().unwrap();
        let (_server, apis) = serve(folder.path(), &peer.url, "", &[("a", "")]);
        let mut body = body();
        body["budgets"] = json!({"maxCostUsd": budget});
        body["tools"] = json!([{"kind": "local", "name": "act"}]);
        let run = apis[0].run(&body);
        let mut stream = Stream::open(&apis[0], &run, 0).unwrap().unwrap();
        let call = until(&mut stream, "local_tool_call").data();
        let answer = json!({"toolUseId": call["toolUseId"], "result": "acted"});
        assert_eq!(
            apis[0]
                .post(&format!("/agent-runs/{run}/tool-results"), &answer)
                .status,
            200
        );
        let (kind, data) = end_of(&apis[0], &run);
        let asked = peer.asked();
        assert_eq!(asked[0].body["max_tokens"], 100);
        match last {
            Some(tokens) => {
                assert_eq!((kind.as_str(), asked.len()), ("result", 2), "{data}");
                assert_eq!(asked[1].body["max_tokens"], tokens);
                assert_eq!(asked[1].body["tool_choice"], "none");
                assert_eq!(data["costUsd"], budget, "{data}");
            }
            None => {
                assert_eq!((kind.as_str(), asked.len()), ("error", 1), "{data}");
                assert_eq!(data["errorClass"], "budget_exceeded", "{data}");
                assert_eq!(data["costUsd"], 0.1, "{data}");
            }
        }
    }
}

#[test]
fn dry_run_calls_and_creates_nothing() {
    let (peer, _) = billing(|_| 100);
    let folder = tempfile::tempdir().unwrap();
    let (_server, apis) = serve(
        folder.path(),
        &peer.url,
        "monthly_budget_usd = 5.0",
        &[("a", "")],
    );
    let mut body = body();
    body["tools"] = json!([{"kind": "local", "name": "act"}]);
    body["outputSchema"] = json!({"schema": {"type": "object"}});
    let told = apis[0].post("/agent-runs?dryRun=1", &body);
    assert_eq!(told.status, 200, "{told:?}");
    let told = told.json();
    assert_eq!(told["tools"], json!(["act"]), "{told}");
    assert_eq!(told["model"]["id"], "provider:p:m", "{told}");
    assert_eq!(told["worstCaseTurnUsd"], 0.1, "{told}");
    assert_eq!(told["budgets"][0]["remainingUsd"], 5.0, "{told}");
    assert!(
        told["estimatedPromptTokens"].as_u64().unwrap() > 0,
        "{told}"
    );
    assert_eq!(apis[0].get("/agent-runs").json()["runs"], json!([]));
    body["modelId"] = json!("nothing");
    assert_eq!(
        apis[0].post("/agent-runs?dryRun=1", &body).refusal(),
        (400, "invalid_model".to_owned())
    );
    assert!(peer.asked().is_empty());
}
