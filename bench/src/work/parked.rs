//! W6: runs that wait for their client's tool: what they cost while they wait, and how fast they go on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::drive::{Job, Target, Watch, start};
use crate::outcome::Outcome;
use crate::report::{Goal, Row};
use crate::script::TOOL;
use crate::wire::{Connection, Frames};

use super::{Bench, errors};

const MODEL: &str = "bench-t5-call";
const TOKENS: u64 = 5;
const AT_ONCE: u64 = 64;

/// Longer than the server keeps a waiting run in memory.
const SETTLE: Duration = Duration::from_secs(3);
/// After the last answer.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// So many of the resumed runs are read to their end.
const CHECKED: usize = 200;

/// A run that waits, and the call that it waits for.
struct Waiting {
    run: String,
    call: String,
}

/// W6.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let runs = bench.effort.of(100_000);
    let server = bench.server("w6", &[MODEL])?;
    let target = &server.target;
    let meter = server.running.meter();
    let idle = meter.resident()?;
    let before = bench.stats().await?;
    let begun = Instant::now();
    let (waiting, mut outcome) = park(target, runs).await;
    let parking = begun.elapsed();
    tokio::time::sleep(SETTLE).await;
    let resident = meter.resident()?;
    let cpu = meter.cpu()?;
    let begun = Instant::now();
    let waiting = Rc::new(waiting);
    answer(target, &waiting, &mut outcome).await;
    let wanted = before.finished + runs + waiting.len() as u64;
    resumed(bench, wanted).await?;
    let resuming = begun.elapsed();
    let cpu = meter.cpu()? - cpu;
    check(target, &waiting, &mut outcome).await;
    let peak = meter.peak()?;
    drop(server);
    bench.place.clear("w6");
    let mib = f64::from(1 << 20);
    let count = runs as f64;
    Ok(vec![
        errors("W6", &format!("{runs} runs"), &[&outcome]),
        Row::alone(
            "W6",
            format!("resident memory with {runs} runs parked"),
            "MiB",
            resident / mib,
            Goal::AtMost(1024.0),
        ),
        Row::alone(
            "W6",
            "of it per parked run",
            "bytes",
            (resident - idle) / count,
            Goal::Told,
        ),
        Row::alone(
            "W6",
            "peak memory, resuming included",
            "MiB",
            peak / mib,
            Goal::Told,
        ),
        Row::alone(
            "W6",
            "rate of parking",
            "runs/s",
            count / parking.as_secs_f64(),
            Goal::Told,
        ),
        Row::alone(
            "W6",
            "rate of resuming",
            "runs/s",
            count / resuming.as_secs_f64(),
            Goal::Told,
        ),
        Row::alone(
            "W6",
            "CPU to resume 1,000 runs",
            "s",
            cpu / count * 1000.0,
            Goal::Told,
        ),
    ])
}

/// Starts the runs and waits until each has asked for its tool.
async fn park(target: &Target, runs: u64) -> (Vec<Waiting>, Outcome) {
    let job = calling(target);
    let left = Rc::new(Cell::new(runs));
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE.min(runs) {
        let (target, job, left) = (target.clone(), job.clone(), Rc::clone(&left));
        clients.spawn_local(async move {
            let mut connection = Connection::new(target.address());
            let mut waiting = Vec::new();
            let mut outcome = Outcome::default();
            while left.get() > 0 {
                left.set(left.get() - 1);
                match ask(&target, &job, &mut connection).await {
                    Ok(run) => waiting.push(run),
                    Err(error) => outcome.count(Err(error)),
                }
            }
            (waiting, outcome)
        });
    }
    let mut all = Vec::new();
    let mut whole = Outcome::default();
    while let Some(ended) = clients.join_next().await {
        match ended {
            Ok((waiting, outcome)) => {
                all.extend(waiting);
                whole.add(outcome);
            }
            Err(error) => whole.count(Err(error.into())),
        }
    }
    (all, whole)
}

fn calling(target: &Target) -> Job {
    let body = json!({"modelId": format!("provider:script:{MODEL}"), "systemPrompt": "Answer.", "prompt": "Look it up.",
        "tools": [{"kind": "local", "name": TOOL, "description": "Looks it up.",
            "parameters": {"type": "object", "properties": {}}}]});
    target.posting(&path(target, ""), body.to_string().as_bytes(), TOKENS)
}

fn path(target: &Target, rest: &str) -> String {
    match target {
        Target::Plain(_) => rest.to_owned(),
        Target::Runloom { workspace, .. } => {
            format!("/api/v1/workspaces/{workspace}/agent-runs{rest}")
        }
    }
}

/// One run up to its tool call; then the client goes away.
async fn ask(target: &Target, job: &Job, posts: &mut Connection) -> anyhow::Result<Waiting> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Call {
        tool_use_id: String,
    }
    let run = start(job, posts).await?;
    let mut stream = Connection::new(target.address());
    let head = stream.ask(&target.stream_of(&run)).await?;
    anyhow::ensure!(
        head.status == 200,
        "the stream was refused: {}",
        head.status
    );
    let mut frames = Frames::default();
    let mut found: Option<Call> = None;
    let read = stream.body(head, |piece| {
        frames.push(piece, |frame| {
            if frame.event == b"local_tool_call" {
                found = Some(serde_json::from_slice(frame.data)?);
                anyhow::bail!("enough");
            }
            Ok(())
        })
    });
    let ended = tokio::time::timeout(ENDS_WITHIN, read).await;
    stream.forget();
    match (found, ended) {
        (Some(call), _) => Ok(Waiting {
            run,
            call: call.tool_use_id,
        }),
        (None, Ok(Err(error))) => Err(error),
        (None, _) => anyhow::bail!("the run asked for no tool"),
    }
}

/// Answers every call.
async fn answer(target: &Target, waiting: &Rc<Vec<Waiting>>, outcome: &mut Outcome) {
    let next = Rc::new(Cell::new(0));
    let failed = Rc::new(RefCell::new(Outcome::default()));
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (target, waiting) = (target.clone(), Rc::clone(waiting));
        let (next, failed) = (Rc::clone(&next), Rc::clone(&failed));
        clients.spawn_local(async move {
            let mut connection = Connection::new(target.address());
            while let Some(run) = waiting.get(next.replace(next.get() + 1)) {
                if let Err(error) = tell(&target, run, &mut connection).await {
                    failed.borrow_mut().count(Err(error));
                }
            }
        });
    }
    while clients.join_next().await.is_some() {}
    outcome.add(failed.take());
}

async fn tell(target: &Target, run: &Waiting, connection: &mut Connection) -> anyhow::Result<()> {
    let path = path(target, &format!("/{}/tool-results", run.run));
    let body = json!({"toolUseId": run.call, "result": "found"}).to_string();
    let job = target.posting(&path, body.as_bytes(), 0);
    let head = connection.ask(job.request()).await?;
    let answer = connection.whole(head).await?;
    anyhow::ensure!(
        head.status == 200,
        "a result was refused with {}: {}",
        head.status,
        String::from_utf8_lossy(&answer)
    );
    Ok(())
}

/// Waits until the provider has finished so many answers.
async fn resumed(bench: &Bench, wanted: u64) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let finished = bench.stats().await?.finished;
        if finished >= wanted {
            return Ok(());
        }
        anyhow::ensure!(
            begun.elapsed() < ENDS_WITHIN,
            "{} runs did not go on within {ENDS_WITHIN:?}",
            wanted - finished
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads some of the runs to their end, spread over all.
async fn check(target: &Target, waiting: &[Waiting], outcome: &mut Outcome) {
    let mut connection = Connection::new(target.address());
    for run in waiting.iter().step_by((waiting.len() / CHECKED).max(1)) {
        outcome.count(whole(target, run, &mut connection).await);
    }
}

async fn whole(
    target: &Target,
    run: &Waiting,
    connection: &mut Connection,
) -> anyhow::Result<crate::outcome::Shot> {
    let head = connection.ask(&target.stream_of(&run.run)).await?;
    let mut frames = Frames::default();
    let mut watch = Watch::new(Instant::now());
    let read = connection.body(head, |piece| frames.push(piece, |frame| watch.see(frame)));
    tokio::time::timeout(ENDS_WITHIN, read)
        .await
        .context("a resumed run did not end")??;
    watch.close(TOKENS)
}
