//! Tools that the server executes, and a server that dies in the middle: a tool server counts what really reached it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::checker::Evidence;
use crate::peer::{Peer, Reply};
use crate::server::{Settings, settings};
use crate::tool_server::{is_call, mcp, text};
use crate::world::{Tools, World};

/// What the tool server does with the first call of a tool; every later one is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Answered,
    Silent,
}

/// A tool server with a tool of each effect.
fn tool_server(first: First) -> Peer {
    let tool = |name: &str, annotations: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations});
    let tools = json!([
        tool("look", json!({"readOnlyHint": true})),
        tool(
            "store",
            json!({"readOnlyHint": false, "idempotentHint": true})
        ),
        tool("pay", json!({"readOnlyHint": false})),
    ]);
    let calls = AtomicUsize::new(0);
    mcp(tools, move |asked| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 && first == First::Silent {
            return Reply::EventsThenSilence(vec![]);
        }
        let name = asked.body["params"]["name"].as_str().unwrap();
        text(asked, &format!("{name} is done"))
    })
}

fn outbound() -> Settings {
    settings([("RUNLOOM_OUTBOUND__ALLOW_PRIVATE_NETWORKS", "true")])
}

fn body(peer: &Peer, tool: &str) -> Value {
    json!({
        "systemPrompt": "s", "modelId": "platform:demo",
        "prompt": format!("call srv_{tool} {{\"n\":1}}"),
        "tools": [{"kind": "mcp", "name": "srv", "url": format!("{}/mcp", peer.url)}]
    })
}

/// The calls that reached the tool server: the idempotency key of each.
fn keys(peer: &Peer) -> Vec<String> {
    peer.asked()
        .iter()
        .filter(|asked| is_call(asked))
        .map(|asked| {
            let meta = &asked.body["params"]["_meta"]["io.runloom/toolUseId"];
            meta.as_str().unwrap().to_owned()
        })
        .collect()
}

/// What must hold after a death, whatever it was: `reached` is how often the call got to the tool server before.
fn judge(world: &World, peer: &Peer, run: &str, tool: &str, reached: usize) -> Evidence {
    let seen = world.follow(run, Tools::Watch);
    let evidence = world.judge(run, vec![seen], &["srv_look"]);
    let end = evidence.log.last().unwrap();
    assert_eq!(end.kind(), "result", "{}", end.json());
    let said = end.data()["text"].as_str().unwrap().to_owned();
    let keys = keys(peer);
    let events = |kind: &str| {
        evidence
            .log
            .iter()
            .filter(|frame| frame.kind() == kind)
            .count()
    };
    assert_eq!(
        (events("tool_call"), events("tool_result")),
        (1, 1),
        "one call, one result"
    );
    if tool == "pay" {
        assert_eq!(keys.len(), reached, "what must happen once was repeated");
        assert!(said.contains("outcome_unknown"), "{said}");
        assert!(!said.contains("pay is done"), "{said}");
    } else {
        assert_eq!(keys.len(), reached + 1, "{tool} was not repeated once");
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert!(said.contains(&format!("{tool} is done")), "{said}");
    }
    for key in &keys {
        let call = evidence
            .log
            .iter()
            .find(|frame| frame.kind() == "tool_call")
            .unwrap();
        assert_eq!(call.data()["toolUseId"], json!(key));
    }
    evidence
}

#[test]
fn effect_decides_whether_a_call_is_repeated() {
    for tool in ["look", "store", "pay"] {
        let peer = tool_server(First::Silent);
        let world = World::new(outbound());
        let mut server = world.start(&[]);
        let run = world.create("/agent-runs", "k", &body(&peer, tool));
        peer.until(1, is_call);
        server.kill();
        let _server = world.start(&[]);
        judge(&world, &peer, &run, tool, 1);
    }
}

#[test]
fn cancelled_run_ends_its_tool_call() {
    let peer = tool_server(First::Silent);
    let world = World::new(outbound());
    let _server = world.start(&[]);
    let run = world.create("/agent-runs", "k", &body(&peer, "pay"));
    peer.until(1, is_call);
    let path = format!("/agent-runs/{run}/cancel");
    world.insist(|api| api.send("POST", &path, &[], b""));
    // A call that nobody cancels is given up after a minute of silence.
    peer.until_left_within(Duration::from_secs(20));
    peer.until(1, |asked| asked.body["method"] == "notifications/cancelled");
}

#[test]
fn call_is_durable_before_it_is_made() {
    for tool in ["look", "store", "pay"] {
        for (point, reached) in [("before_tool", 0), ("tool_done", 1)] {
            let peer = tool_server(First::Answered);
            let world = World::new(outbound());
            let crashes = world.survive(point, |world| {
                println!("{tool}, crashing at {point}");
                let run = world.create("/agent-runs", "k", &body(&peer, tool));
                judge(world, &peer, &run, tool, reached);
            });
            assert_eq!(crashes, 1, "{point} was not met");
        }
    }
}

#[test]
fn call_before_durability_is_made_once() {
    for tool in ["look", "pay"] {
        let peer = tool_server(First::Answered);
        let world = World::new(outbound());
        let crashes = world.survive("turn_done", |world| {
            let run = world.create("/agent-runs", "k", &body(&peer, tool));
            let seen = world.follow(&run, Tools::Watch);
            let evidence = world.judge(&run, vec![seen], &["srv_look"]);
            let end = evidence.log.last().unwrap().data();
            assert!(
                end["text"]
                    .as_str()
                    .unwrap()
                    .contains(&format!("{tool} is done")),
                "{end}"
            );
            assert_eq!(keys(&peer).len(), 1);
        });
        assert_eq!(crashes, 1);
    }
}
