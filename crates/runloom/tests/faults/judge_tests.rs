//! The comparison with the tool server's ledger notices what it is for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::judge::{against_ledger, repeated};
use crate::sse::Frame;
use crate::tools::Entry;

fn frame(kind: &str, data: &Value) -> Frame {
    let json = json!({"seq": 1, "type": kind, "data": data});
    Frame(format!("id: 1\nevent: {kind}\ndata: {json}\n\n").into_bytes())
}

fn entry(id: &str, tool: &str, result: &str) -> Entry {
    Entry {
        id: id.to_owned(),
        tool: tool.to_owned(),
        token: "t".to_owned(),
        result: result.to_owned(),
    }
}

/// A call and its result, as a log has them.
fn log(ok: bool, result: &str) -> Vec<Frame> {
    let call = json!({"toolUseId": "a", "name": "kit_once", "input": {}});
    let done = json!({"toolUseId": "a", "name": "kit_once", "ok": ok, "result": result});
    vec![frame("tool_call", &call), frame("tool_result", &done)]
}

fn ledger(entries: &[Entry]) -> BTreeMap<String, Vec<Entry>> {
    let mut ledger: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        let calls = ledger.entry(entry.id.clone()).or_default();
        calls.push(entry.clone());
    }
    ledger
}

#[test]
fn accepts_real_results_and_unknown_outcomes() {
    let mut done = ledger(&[entry("a", "once", "r")]);
    assert!(against_ledger(&log(true, "r"), &mut done).is_empty());
    assert!(done.is_empty(), "the log accounts for the call");
    let unknown = log(false, "It may or may not have taken effect");
    assert!(against_ledger(&unknown, &mut ledger(&[])).is_empty());
}

#[test]
fn finds_an_invented_result() {
    for entries in [vec![], vec![entry("a", "once", "other")]] {
        let found = against_ledger(&log(true, "r"), &mut ledger(&entries));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}

#[test]
fn finds_an_unlogged_call() {
    let mut done = ledger(&[entry("a", "once", "r"), entry("b", "once", "r")]);
    against_ledger(&log(true, "r"), &mut done);
    assert!(done.contains_key("b"));
}

#[test]
fn finds_a_repeated_effect() {
    let twice = |tool| ledger(&[entry("a", tool, "1"), entry("b", tool, "2")]);
    assert_eq!(repeated(&twice("once")).len(), 1);
    assert!(repeated(&twice("read")).is_empty());
}
