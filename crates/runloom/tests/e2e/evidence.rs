//! Asking a server for everything it knows of a run.

use std::io;

use crate::checker::{Evidence, Seen};
use crate::http::Api;
use crate::sse::replay;

/// What a server knows of a run that has ended.
pub(crate) fn evidence(
    api: &Api,
    run: &str,
    seen: &[Seen],
    read_only: &[&str],
) -> io::Result<Evidence> {
    Ok(Evidence {
        log: replay(api, run)?,
        events: events(api, run)?,
        snapshot: api
            .send("GET", &format!("/agent-runs/{run}"), &[], b"")?
            .json(),
        seen: seen.to_vec(),
        read_only: read_only.iter().map(|name| (*name).to_owned()).collect(),
    })
}

fn events(api: &Api, run: &str) -> io::Result<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Page {
        events: Vec<Box<serde_json::value::RawValue>>,
    }
    let mut events: Vec<String> = Vec::new();
    loop {
        let path = format!("/agent-runs/{run}/events?limit=1000&after={}", events.len());
        let answer = api.send("GET", &path, &[], b"")?;
        let page: Page = serde_json::from_slice(&answer.body).unwrap();
        if page.events.is_empty() {
            return Ok(events);
        }
        events.extend(page.events.iter().map(|event| event.get().to_owned()));
    }
}

/// The log for people.
pub(crate) fn shown(evidence: &Evidence) -> String {
    let lines: Vec<&str> = evidence
        .log
        .iter()
        .filter_map(|frame| frame.field("data"))
        .collect();
    lines.join("\n")
}
