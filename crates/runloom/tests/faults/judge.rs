//! The verdict: every promise, checked against the log, what clients saw, the tool server's ledger and the database's
//! witness.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checker::{Evidence, Seen, violations};
use crate::clients::Tools;
use crate::evidence::{evidence, shown};
use crate::load::{Book, Load, Record};
use crate::random::Random;
use crate::report::Report;
use crate::script::{READ_ONLY, SERVER_TOOLS};
use crate::server::PATIENCE;
use crate::sse::{Frame, replay};
use crate::stage::Stage;
use crate::tools::Entry;

/// Ends that are nobody's bug: what was broken again and again at the same place is given up, and says so.
const GIVEN_UP: [&str; 2] = ["interrupted 5 times", "called again 5 times"];

/// Everything that is wrong, in words; what is right is counted in the report.
pub(crate) fn judge(
    stage: &mut Stage,
    load: &Load,
    book: Book,
    report: &mut Report,
) -> Vec<String> {
    let mut found = load.clients.complaints.lock().unwrap().clone();
    found.extend(stage.peers.complaints());
    let apis = stage.directory.apis();
    for run in &book.unfinished {
        let path = format!("/agent-runs/{run}");
        let status = apis[0].get(&path).json()["status"].clone();
        found.push(format!("{run} was accepted, never ended and is {status}"));
    }
    let known: Vec<String> = book
        .records
        .iter()
        .map(|record| record.run.clone())
        .collect();
    let mut ledger: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in stage.peers.ledger().iter() {
        let calls = ledger.entry(entry.id.clone()).or_default();
        calls.push(entry.clone());
    }
    report.tool_calls = ledger.values().map(Vec::len).sum();
    report.tool_repeats = report.tool_calls - ledger.len();
    found.extend(repeated(&ledger));
    for record in book.records {
        let run = record.run.clone();
        let Some(evidence) = settle(stage, load, record, &mut found) else {
            continue;
        };
        let mut wrong = violations(&evidence);
        for api in &apis[1..] {
            if replay(api, &run).unwrap() != evidence.log {
                wrong.push("another API shows another log".to_owned());
            }
        }
        wrong.extend(against_ledger(&evidence.log, &mut ledger));
        wrong.extend(unexpected_end(&evidence, report));
        report.events += evidence.log.len();
        if !wrong.is_empty() {
            found.push(format!(
                "{run}:\n  {}\n{}",
                wrong.join("\n  "),
                shown(&evidence)
            ));
        }
    }
    if book.unfinished.is_empty() {
        for (id, calls) in ledger {
            found.push(format!(
                "no log knows of the call {id}, which came {} times",
                calls.len()
            ));
        }
        for run in stage.audit.runs() {
            if !known.contains(&run) {
                found.push(format!("{run} is in the database, and nobody was told"));
            }
        }
    }
    found.extend(stage.audit.violations());
    report.runs = known.len() + book.unfinished.len();
    report.take_overs = stage.audit.take_overs(&stage.deaths);
    found
}

/// What is known of a run. One that waits for its client must really wait, and go on when it is answered.
fn settle(
    stage: &Stage,
    load: &Load,
    mut record: Record,
    found: &mut Vec<String>,
) -> Option<Evidence> {
    let apis = stage.directory.apis();
    let run = &record.run;
    let status = || apis[0].get(&format!("/agent-runs/{run}")).json()["status"].clone();
    if record.waits {
        let status = status();
        let last = record.seen[0].frames.last().map(Frame::data);
        if status == "waiting_tool" {
            load.clients.hurry(PATIENCE);
            let mut random = Random(1);
            let seen = &mut record.seen[0];
            let call = last.unwrap_or_default();
            let answered = load.clients.answer(&mut random, run, &call, seen);
            let followed = answered.and_then(|()| {
                load.clients
                    .follow(&mut random, run, Tools::Watch, seen, |_| false)
            });
            if followed.is_err() {
                found.push(format!("{run} waited for its client and did not go on"));
                record.seen = vec![Seen::default()];
            }
        } else {
            found.push(format!("{run} should wait for its client and is {status}"));
        }
    }
    let status = status();
    if !["succeeded", "failed", "cancelled"]
        .map(Value::from)
        .contains(&status)
    {
        found.push(format!("{run} should have ended and is {status}"));
        return None;
    }
    let mut evidence = evidence(&apis[0], run, &record.seen, &READ_ONLY).unwrap();
    if record.cancelled && evidence.snapshot["status"] != "cancelled" {
        // It may have been given up before; nothing else ends it so soon.
        let ended = evidence.log.last().is_some_and(|end| end.kind() == "error");
        if !ended {
            found.push(format!(
                "{run} was cancelled and is {}",
                evidence.snapshot["status"]
            ));
        }
    }
    evidence.seen.retain(|seen| !seen.frames.is_empty());
    Some(evidence)
}

/// Runs end well unless somebody cancelled them or they were broken too often.
fn unexpected_end(evidence: &Evidence, report: &mut Report) -> Option<String> {
    let end = evidence.log.last()?;
    let restarts = evidence
        .log
        .iter()
        .filter(|frame| frame.kind() == "turn_restarted");
    report.restarts += restarts.count();
    *report.ends.entry(end.kind().to_owned()).or_default() += 1;
    let data = end.data();
    let why = data["error"].as_str().unwrap_or_default();
    let is_expected = end.kind() != "error" || GIVEN_UP.iter().any(|words| why.contains(words));
    (!is_expected).then(|| format!("it ended with the error {data}"))
}

/// A tool that may be executed once was executed once, whatever the call was named.
pub(crate) fn repeated(ledger: &BTreeMap<String, Vec<Entry>>) -> Vec<String> {
    let mut effects: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for entry in ledger.values().flatten() {
        *effects.entry((&entry.tool, &entry.token)).or_default() += 1;
    }
    effects
        .into_iter()
        .filter(|((tool, _), times)| *tool == "once" && *times > 1)
        .map(|((tool, token), times)| format!("{tool} was executed {times} times for {token}"))
        .collect()
}

/// What the log says of server tools is what the tool server did. Takes the calls of this log out of the ledger.
pub(crate) fn against_ledger(
    log: &[Frame],
    ledger: &mut BTreeMap<String, Vec<Entry>>,
) -> Vec<String> {
    let mut found = Vec::new();
    for frame in log {
        let data = frame.data();
        let name = data["name"].as_str().unwrap_or_default();
        if !SERVER_TOOLS.contains(&name) || frame.kind() != "tool_result" {
            continue;
        }
        let id = data["toolUseId"].as_str().unwrap_or_default();
        let done = ledger.get(id).map(Vec::as_slice).unwrap_or_default();
        let result = data["result"].as_str().unwrap_or_default();
        if data["ok"] == true && !done.iter().any(|entry| entry.result == result) {
            found.push(format!(
                "{id} is said to have given {result:?}; it gave {done:?}"
            ));
        }
        if data["ok"] != true && !result.contains("may or may not") {
            found.push(format!("{id} is said to have failed: {result}"));
        }
    }
    for frame in log.iter().filter(|frame| frame.kind() == "tool_call") {
        ledger.remove(frame.data()["toolUseId"].as_str().unwrap_or_default());
    }
    found
}
