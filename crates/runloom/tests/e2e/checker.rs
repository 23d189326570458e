//! What must hold of every run, whatever died when: judged from its log and from what its clients saw.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::sse::Frame;

/// What one client of a run saw and did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Every frame, in the order in which it came, over all connections.
    pub(crate) frames: Vec<Frame>,
    /// Answers to tool calls that the server took with 200: the call's id and the answer.
    pub(crate) acknowledged: Vec<(String, String)>,
    /// First answers to calls that the server did not take: the call's id and the status.
    pub(crate) refused: Vec<(String, u16)>,
}

/// Everything that is known of a run after its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// The stream, replayed after the end.
    pub(crate) log: Vec<Frame>,
    /// The same by `GET …/events`: the JSON of each event.
    pub(crate) events: Vec<String>,
    /// The run's snapshot after the end.
    pub(crate) snapshot: Value,
    /// Its clients.
    pub(crate) seen: Vec<Seen>,
    /// Tools that may run together; all others run one at a time.
    pub(crate) read_only: BTreeSet<String>,
}

/// Every violation of the contract, in words.
pub(crate) fn violations(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    shape(evidence, &mut found);
    agreement(evidence, &mut found);
    turns(&evidence.log, &mut found);
    calls(evidence, &mut found);
    ending(evidence, &mut found);
    found
}

/// Numbers without gaps, frames that agree with themselves, one beginning and one end.
fn shape(evidence: &Evidence, found: &mut Vec<String>) {
    let log = &evidence.log;
    for (frame, expected) in log.iter().zip(1..) {
        let json = frame.json();
        if frame.seq() != expected || json["seq"] != expected {
            found.push(format!(
                "event {expected} is numbered {} and {}",
                frame.seq(),
                json["seq"]
            ));
        }
        if json["type"] != frame.kind() {
            found.push(format!(
                "event {expected} is {} and {}",
                frame.kind(),
                json["type"]
            ));
        }
        if json["at"].as_u64().is_none_or(|at| at == 0) {
            found.push(format!(
                "event {expected} does not tell when it was written"
            ));
        }
        let payload = json["data"].as_object();
        let mirrored =
            payload.is_some_and(|data| data.iter().all(|(key, value)| json[key] == *value));
        if !mirrored {
            found.push(format!("event {expected} does not show its payload twice"));
        }
    }
    let kinds: Vec<&str> = log.iter().map(Frame::kind).collect();
    if kinds.first() != Some(&"started")
        || kinds.iter().filter(|kind| **kind == "started").count() != 1
    {
        found.push(format!(
            "the log does not begin with its one `started`: {kinds:?}"
        ));
    }
    let ends = log.iter().filter(|frame| frame.is_terminal()).count();
    if ends != 1 || !log.last().is_some_and(Frame::is_terminal) {
        found.push(format!(
            "the log has {ends} ends, or events after its end: {kinds:?}"
        ));
    }
}

/// What clients saw is what is stored, byte for byte, each event once and in order.
fn agreement(evidence: &Evidence, found: &mut Vec<String>) {
    let shown: Vec<&str> = evidence
        .log
        .iter()
        .filter_map(|frame| frame.field("data"))
        .collect();
    if shown != evidence.events {
        found.push("the list of events is not the stream".to_owned());
    }
    for (client, seen) in evidence.seen.iter().enumerate() {
        let mut last = 0;
        for frame in &seen.frames {
            let seq = frame.seq();
            if seq != last + 1 {
                found.push(format!("client {client} saw event {seq} after {last}"));
            }
            last = seq;
            let stored = usize::try_from(seq)
                .ok()
                .and_then(|seq| evidence.log.get(seq.wrapping_sub(1)));
            if stored != Some(frame) {
                found.push(format!(
                    "client {client} saw another event {seq}: {}",
                    frame.json()
                ));
            }
        }
        if !seen.frames.last().is_some_and(Frame::is_terminal) {
            found.push(format!("client {client} did not see the end"));
        }
    }
}

/// One message per turn, numbered; its text is what the deltas since the turn's last beginning said.
fn turns(log: &[Frame], found: &mut Vec<String>) {
    let (mut text, mut turn) = (String::new(), 0);
    for frame in log {
        let (seq, data) = (frame.seq(), frame.data());
        match frame.kind() {
            "assistant_delta" => text.push_str(data["text"].as_str().unwrap_or_default()),
            "turn_restarted" => {
                text.clear();
                if data["turn"] != turn {
                    found.push(format!(
                        "event {seq} restarts turn {} in turn {turn}",
                        data["turn"]
                    ));
                }
            }
            "assistant_message" => {
                if data["turn"] != turn {
                    found.push(format!(
                        "event {seq} ends turn {} instead of {turn}",
                        data["turn"]
                    ));
                }
                let said = std::mem::take(&mut text);
                if data["text"] != said.as_str() {
                    found.push(format!(
                        "turn {turn} says {} and streamed {said:?}",
                        data["text"]
                    ));
                }
                turn += 1;
            }
            _ => {}
        }
    }
}

/// A call's way through the log.
#[derive(Default)]
struct Course {
    name: String,
    requested: u64,
    asked: Vec<u64>,
    answered: Vec<u64>,
    output: Option<String>,
}

/// Each call is asked once and answered once, in the order that its tool allows; no accepted answer is lost.
fn calls(evidence: &Evidence, found: &mut Vec<String>) {
    let courses = courses(&evidence.log, found);
    let end = evidence.log.last().map_or("", Frame::kind);
    for (id, course) in &courses {
        if course.asked.len() > 1 {
            found.push(format!("call {id} was asked {} times", course.asked.len()));
        }
        if course.answered.len() > 1 {
            found.push(format!(
                "call {id} was answered {} times",
                course.answered.len()
            ));
        }
        if end == "result" && course.answered.is_empty() {
            found.push(format!("the run succeeded without an answer to call {id}"));
        }
        if let (Some(asked), Some(answered)) = (course.asked.first(), course.answered.first())
            && (answered < asked || *asked < course.requested)
        {
            found.push(format!(
                "call {id} was requested, asked and answered in the wrong order"
            ));
        }
    }
    one_at_a_time(evidence, &courses, found);
    for seen in &evidence.seen {
        for (id, answer) in &seen.acknowledged {
            let kept = courses.get(id).and_then(|course| course.output.as_deref());
            // A cancel outruns answers that were taken in the meantime.
            if kept != Some(answer) && end != "cancelled" {
                found.push(format!(
                    "the accepted answer {answer:?} to {id} is {kept:?} in the log"
                ));
            }
        }
        for (id, status) in &seen.refused {
            if end != "cancelled" {
                found.push(format!(
                    "the answer to the open call {id} was refused with {status}"
                ));
            }
        }
    }
}

fn courses(log: &[Frame], found: &mut Vec<String>) -> BTreeMap<String, Course> {
    let mut courses: BTreeMap<String, Course> = BTreeMap::new();
    for frame in log {
        let (seq, data) = (frame.seq(), frame.data());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if frame.kind() == "assistant_message" {
            for call in data["toolCalls"].as_array().into_iter().flatten() {
                let course = Course {
                    name: text(&call["name"]),
                    requested: seq,
                    ..Course::default()
                };
                if courses.insert(text(&call["id"]), course).is_some() {
                    found.push(format!("call {} was requested twice", call["id"]));
                }
            }
        }
        if !["local_tool_call", "local_tool_result_in", "tool_result"].contains(&frame.kind()) {
            continue;
        }
        let Some(course) = courses.get_mut(data["toolUseId"].as_str().unwrap_or_default()) else {
            found.push(format!(
                "event {seq} is about a call that no turn requested"
            ));
            continue;
        };
        match frame.kind() {
            "local_tool_call" => course.asked.push(seq),
            _ => {
                course.answered.push(seq);
                course.output = data["output"].as_str().map(str::to_owned);
            }
        }
    }
    courses
}

/// Between the question and the answer of a tool that acts, no other call is open.
fn one_at_a_time(evidence: &Evidence, courses: &BTreeMap<String, Course>, found: &mut Vec<String>) {
    let open = |course: &Course| {
        let asked = *course.asked.first()?;
        Some((asked, course.answered.first().copied().unwrap_or(u64::MAX)))
    };
    for (id, course) in courses {
        if evidence.read_only.contains(&course.name) {
            continue;
        }
        let Some((from, to)) = open(course) else {
            continue;
        };
        for (other, span) in courses.iter().filter(|(other, _)| *other != id) {
            if open(span).is_some_and(|(asked, answered)| asked < to && from < answered) {
                found.push(format!("calls {id} and {other} were open together"));
            }
        }
    }
}

/// The end accounts for what was spent, and the snapshot says the same.
fn ending(evidence: &Evidence, found: &mut Vec<String>) {
    let Some(last) = evidence.log.last() else {
        return;
    };
    let (end, snapshot) = (last.data(), &evidence.snapshot);
    let status = match last.kind() {
        "result" => "succeeded",
        "error" => "failed",
        _ => "cancelled",
    };
    if snapshot["status"] != status {
        found.push(format!(
            "the run ended {status} and is {}",
            snapshot["status"]
        ));
    }
    let count = |name: &str| end["tokens"][name].as_u64();
    match (
        count("inputTokens"),
        count("outputTokens"),
        count("cachedTokens"),
        count("reasoningTokens"),
    ) {
        (Some(input), Some(output), Some(cached), Some(reasoning))
            if cached <= input && reasoning <= output =>
        {
            if status == "succeeded" && (input == 0 || output == 0) {
                found.push("a run that succeeded spent nothing".to_owned());
            }
        }
        _ => found.push(format!("these are no tokens: {}", end["tokens"])),
    }
    let messages = evidence
        .log
        .iter()
        .filter(|frame| frame.kind() == "assistant_message")
        .count() as u64;
    let turns = end["turns"].as_u64().unwrap_or(u64::MAX);
    // A turn that was broken by a failure or a cancel counts, although it has no message.
    if turns != messages && !(status != "succeeded" && turns == messages + 1) {
        found.push(format!(
            "{turns} turns are counted and {messages} are in the log"
        ));
    }
    for field in ["tokens", "turns"] {
        if snapshot[field] != end[field] {
            found.push(format!(
                "{field} are {} at the end and {} in the snapshot",
                end[field], snapshot[field]
            ));
        }
    }
    if status == "succeeded" && snapshot["finalText"] != end["text"] {
        found.push(format!(
            "the answer is {} and {}",
            end["text"], snapshot["finalText"]
        ));
    }
    for field in ["createdAt", "startedAt", "completedAt"] {
        if !snapshot[field].is_string() {
            found.push(format!("{field} is {} after the end", snapshot[field]));
        }
    }
}
