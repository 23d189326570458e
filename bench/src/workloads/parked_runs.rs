//! W6: runs that wait for a client's tool: their cost while they wait, and how fast they resume.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::http::{Connection, SseParser};
use crate::load::{collect, create_run};
use crate::load_result::{LoadResult, RunTimes};
use crate::report::{Goal, Row};
use crate::script::TOOL;
use crate::server::Server;
use crate::stream_check::StreamCheck;
use crate::target::{Prompt, RunRequest, Target};

use super::Bench;
use super::sample::failures;

const PROMPT: Prompt = Prompt {
    model: "bench-t5-call",
    text: "Look it up.",
    tokens: 5,
};

const RUNS: u64 = 100_000;
const CONCURRENCY: u64 = 64;

/// Longer than the server keeps a waiting run in memory.
const SETTLE: Duration = Duration::from_secs(3);
const RESUME_TIMEOUT: Duration = Duration::from_secs(300);
/// Number of resumed runs that are read to their end.
const CHECKED_RUNS: usize = 200;

/// A run that waits for the result of a tool call.
struct ParkedRun {
    id: String,
    tool_call: String,
}

/// The runs that parked, and those that failed before.
#[derive(Default)]
struct Parked {
    runs: Vec<ParkedRun>,
    failed: LoadResult,
}

/// Figures of one measurement.
struct Figures {
    runs: u64,
    idle_bytes: f64,
    parked_bytes: f64,
    peak_bytes: f64,
    parking: Duration,
    resuming: Duration,
    resume_cpu: f64,
    load: LoadResult,
}

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let server = bench.server("w6", &[PROMPT.model])?;
    let figures = park_and_resume(bench, &server).await?;
    drop(server);
    bench.launcher.clear("w6");
    Ok(figures.rows())
}

async fn park_and_resume(bench: &Bench, server: &Server) -> anyhow::Result<Figures> {
    let runs = bench.effort.scale(RUNS);
    let target = &server.subject.target;
    let processes = &server.subject.processes;
    let idle_bytes = processes.resident_bytes()?;
    let finished_before = bench.provider_stats().await?.finished;
    let started = Instant::now();
    let Parked {
        runs: parked,
        failed: mut load,
    } = park(target, runs).await;
    let parking = started.elapsed();
    tokio::time::sleep(SETTLE).await;
    let parked_bytes = processes.resident_bytes()?;
    let cpu_before = processes.cpu_seconds()?;
    let started = Instant::now();
    let parked = Rc::new(parked);
    load.merge(send_results(target, &parked).await);
    wait_until_finished(bench, finished_before + runs + parked.len() as u64).await?;
    let resuming = started.elapsed();
    let resume_cpu = processes.cpu_seconds()? - cpu_before;
    check_resumed(target, &parked, &mut load).await;
    Ok(Figures {
        runs,
        idle_bytes,
        parked_bytes,
        peak_bytes: processes.peak_resident_bytes()?,
        parking,
        resuming,
        resume_cpu,
        load,
    })
}

impl Figures {
    fn rows(&self) -> Vec<Row> {
        let mib = f64::from(1 << 20);
        let runs = self.runs as f64;
        let not_judged = |measure: &str, unit, value| Row::single(measure, unit, value, Goal::None);
        vec![
            Row::single(
                format!("resident memory with {} parked runs", self.runs),
                "MiB",
                self.parked_bytes / mib,
                Goal::AtMost(1024.0),
            ),
            not_judged(
                "memory per parked run",
                "bytes",
                (self.parked_bytes - self.idle_bytes) / runs,
            ),
            not_judged("peak memory", "MiB", self.peak_bytes / mib),
            not_judged(
                "rate of parking",
                "runs/s",
                runs / self.parking.as_secs_f64(),
            ),
            not_judged(
                "rate of resuming",
                "runs/s",
                runs / self.resuming.as_secs_f64(),
            ),
            not_judged(
                "CPU to resume 1,000 runs",
                "s",
                self.resume_cpu / runs * 1000.0,
            ),
            failures(&format!("{} runs", self.runs), &[&self.load]),
        ]
    }
}

/// Starts runs and waits until each has called its tool.
async fn park(target: &Target, runs: u64) -> Parked {
    let tools = json!([{"kind": "local", "name": TOOL, "description": "Looks it up.",
        "parameters": {"type": "object", "properties": {}}}]);
    let request = target.run_with_tools(PROMPT, &tools);
    let remaining = Rc::new(Cell::new(runs));
    let mut clients = JoinSet::new();
    for _ in 0..CONCURRENCY.min(runs) {
        let (target, request) = (target.clone(), request.clone());
        let remaining = Rc::clone(&remaining);
        clients.spawn_local(async move {
            let mut connection = Connection::new(target.address());
            let mut parked = Parked::default();
            while remaining.get() > 0 {
                remaining.set(remaining.get() - 1);
                match park_one(&target, &request, &mut connection).await {
                    Ok(run) => parked.runs.push(run),
                    Err(error) => parked.failed.record(Err(error)),
                }
            }
            parked
        });
    }
    let mut all = Parked::default();
    while let Some(ended) = clients.join_next().await {
        match ended {
            Ok(parked) => {
                all.runs.extend(parked.runs);
                all.failed.merge(parked.failed);
            }
            Err(error) => all.failed.record(Err(error.into())),
        }
    }
    all
}

/// Starts a run, reads its stream up to the tool call and disconnects.
async fn park_one(
    target: &Target,
    request: &RunRequest,
    connection: &mut Connection,
) -> anyhow::Result<ParkedRun> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Call {
        tool_use_id: String,
    }
    let id = create_run(request, connection).await?;
    let mut stream = Connection::new(target.address());
    let head = stream.send(&target.get_stream(&id)).await?;
    anyhow::ensure!(
        head.status == 200,
        "the stream was refused with status {}",
        head.status
    );
    let mut parser = SseParser::default();
    let mut found: Option<Call> = None;
    let read = stream.stream_body(head, |piece| {
        parser.push(piece, |event| {
            if event.event == b"local_tool_call" {
                found = Some(serde_json::from_slice(event.data)?);
                anyhow::bail!("the tool call was read");
            }
            Ok(())
        })
    });
    let ended = tokio::time::timeout(RESUME_TIMEOUT, read).await;
    stream.abort();
    match (found, ended) {
        (Some(call), _) => Ok(ParkedRun {
            id,
            tool_call: call.tool_use_id,
        }),
        (None, Ok(Err(error))) => Err(error),
        (None, _) => anyhow::bail!("the run did not call the tool"),
    }
}

/// Sends the result of every tool call. Only failures are in the returned result.
async fn send_results(target: &Target, parked: &Rc<Vec<ParkedRun>>) -> LoadResult {
    let started = Instant::now();
    let next = Rc::new(Cell::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CONCURRENCY {
        let (target, parked) = (target.clone(), Rc::clone(parked));
        let next = Rc::clone(&next);
        clients.spawn_local(async move {
            let mut failed = LoadResult::default();
            let mut connection = Connection::new(target.address());
            while let Some(run) = parked.get(next.replace(next.get() + 1)) {
                if let Err(error) = send_result(&target, run, &mut connection).await {
                    failed.record(Err(error));
                }
            }
            failed
        });
    }
    collect(clients, started).await
}

async fn send_result(
    target: &Target,
    run: &ParkedRun,
    connection: &mut Connection,
) -> anyhow::Result<()> {
    let path = target.path(&format!("/agent-runs/{}/tool-results", run.id));
    let body = json!({"toolUseId": run.tool_call, "result": "found"}).to_string();
    let request = target.post(&path, body.as_bytes(), 0);
    let head = connection.send(&request.bytes).await?;
    connection.expect_body(head, 200).await?;
    Ok(())
}

/// Waits until the provider has finished `wanted` responses.
async fn wait_until_finished(bench: &Bench, wanted: u64) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let finished = bench.provider_stats().await?.finished;
        if finished >= wanted {
            return Ok(());
        }
        anyhow::ensure!(
            started.elapsed() < RESUME_TIMEOUT,
            "{} runs did not resume within {RESUME_TIMEOUT:?}",
            wanted - finished
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads a sample of the resumed runs to their end.
async fn check_resumed(target: &Target, parked: &[ParkedRun], load: &mut LoadResult) {
    let mut connection = Connection::new(target.address());
    let step = (parked.len() / CHECKED_RUNS).max(1);
    for run in parked.iter().step_by(step) {
        load.record(read_resumed(target, run, &mut connection).await);
    }
}

async fn read_resumed(
    target: &Target,
    run: &ParkedRun,
    connection: &mut Connection,
) -> anyhow::Result<RunTimes> {
    let head = connection.send(&target.get_stream(&run.id)).await?;
    let read = StreamCheck::read(connection, head, Instant::now());
    let check = tokio::time::timeout(RESUME_TIMEOUT, read)
        .await
        .context("a resumed run did not end")??;
    check.finish(PROMPT.tokens)
}
