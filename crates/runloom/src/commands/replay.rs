//! `runloom runs replay`: decides a run again from its log without calling anything.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use runloom_client::Client;
use runloom_client::protocol::event::{Event, Sequenced};
use runloom_client::protocol::id::RunId;
use runloom_client::protocol::spec::AgentSpec;
use runloom_engine::run::{Divergence, Replayed, recorded_plan, replay};
use serde_json::{Value, json};

use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::{connect, output};

/// Maximum bytes of a line of an export.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// The source of the log.
pub(super) enum Source {
    /// A server.
    Run(RunId),
    /// A file of `runs export`.
    File(PathBuf),
}

/// A recorded run.
struct Recording {
    run: RunId,
    spec: AgentSpec,
    /// Events in order, without unknown kinds.
    events: Vec<(u64, Event)>,
    unknown: u64,
}

pub(super) async fn run(
    source: Source,
    max_tool_turns: u32,
    json: bool,
    environment: &Environment,
) -> Result<Exit, Failure> {
    let recording = match &source {
        Source::Run(run) => fetch(&connect::client(environment)?, run).await?,
        Source::File(path) => read(path)?,
    };
    let Recording {
        run,
        spec,
        events,
        unknown,
    } = recording;
    let (numbers, events): (Vec<u64>, Vec<Event>) = events.into_iter().unzip();
    let plan = recorded_plan(run.clone(), &spec, &events, max_tool_turns).map_err(|issues| {
        let words: Vec<String> = issues
            .iter()
            .map(|issue| format!("{}: {}", issue.path, issue.message))
            .collect();
        Failure::new(
            Exit::Failure,
            format!(
                "the spec of {run} cannot be planned by this version: {}",
                words.join("; ")
            ),
        )
    })?;
    if unknown > 0 {
        output::note(format!(
            "{unknown} events are of kinds that this version does not know; they are left out"
        ));
    }
    match replay(Arc::new(plan), &events) {
        Ok(replayed) => same(&run, replayed, json),
        Err(divergence) => differs(&run, divergence, &numbers, json),
    }
}

fn same(run: &RunId, replayed: Replayed, json: bool) -> Result<Exit, Failure> {
    let Replayed { events, decided } = replayed;
    if json {
        output::json(&json!({"run": run, "same": true, "events": events, "decided": decided}))?;
    } else {
        output::line(format!(
            "{run}: {events} events, {decided} decisions of the server, all the same again"
        ))?;
    }
    Ok(Exit::Ok)
}

fn differs(
    run: &RunId,
    divergence: Divergence,
    numbers: &[u64],
    json: bool,
) -> Result<Exit, Failure> {
    let place = usize::try_from(divergence.seq.saturating_sub(1)).unwrap_or(usize::MAX);
    let after_last = numbers.last().map_or(1, |last| last + 1);
    let seq = numbers.get(place).copied().unwrap_or(after_last);
    let Divergence {
        recorded, expected, ..
    } = divergence;
    if json {
        output::json(&json!({
            "run": run, "same": false, "seq": seq, "recorded": recorded, "expected": expected,
        }))?;
        return Ok(Exit::Failure);
    }
    let recorded = match recorded {
        Some(event) => serde_json::to_string(&event).context("cannot show an event")?,
        None => "the end of the log".to_owned(),
    };
    Err(Failure::new(
        Exit::Failure,
        format!("{run} differs at event {seq}\n  recorded: {recorded}\n  this version: {expected}"),
    ))
}

async fn fetch(client: &Client, run: &RunId) -> Result<Recording, Failure> {
    let snapshot = client.run(run).await?;
    if !snapshot.status.is_terminal() {
        let message = format!(
            "{run} is {}; only runs that have ended are replayed",
            snapshot.status
        );
        return Err(Failure::new(Exit::Failure, message));
    }
    let mut recording = Recording {
        run: run.clone(),
        spec: snapshot.agent_spec,
        events: Vec::new(),
        unknown: 0,
    };
    let mut stream = client.stream(run);
    while let Some(event) = stream.next().await? {
        recording.add(event.raw.get())?;
    }
    Ok(recording)
}

/// Reads a file of `runs export`.
fn read(path: &Path) -> Result<Recording, Failure> {
    let shown = path.display();
    let not_ours = || {
        let message = format!("{shown} is not a file of `runloom runs export`");
        Failure::new(Exit::Failure, message)
    };
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let mut lines = BufReader::new(file);
    let mut next = || -> Result<Option<String>, Failure> {
        let mut line = String::new();
        let mut bounded = std::io::Read::take(&mut lines, MAX_LINE);
        let read = bounded
            .read_line(&mut line)
            .with_context(|| format!("cannot read {shown}"))?;
        Ok((read > 0).then_some(line))
    };
    let head: Value = next()?
        .and_then(|line| serde_json::from_str(&line).ok())
        .filter(|head: &Value| head["type"] == "runloom.export")
        .ok_or_else(not_ours)?;
    let run = head["run"]["id"].as_str().and_then(RunId::parse);
    let spec = serde_json::from_value(head["run"]["agentSpec"].clone());
    let mut recording = Recording {
        run: run.ok_or_else(not_ours)?,
        spec: spec.with_context(|| format!("the spec in {shown} cannot be read"))?,
        events: Vec::new(),
        unknown: 0,
    };
    while let Some(line) = next()? {
        if !line.trim().is_empty() {
            recording.add(&line)?;
        }
    }
    Ok(recording)
}

impl Recording {
    fn add(&mut self, line: &str) -> Result<(), Failure> {
        match serde_json::from_str::<Sequenced>(line) {
            Ok(Sequenced { seq, event, .. }) => self.events.push((seq, event)),
            Err(error) => {
                let told: Value = serde_json::from_str(line).unwrap_or_default();
                if told["seq"].as_u64().is_none() || told["type"].as_str().is_none() {
                    let message = format!("a line is no event of a run: {error}");
                    return Err(Failure::new(Exit::Failure, message));
                }
                self.unknown += 1;
            }
        }
        Ok(())
    }
}
