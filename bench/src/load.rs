//! Load generators. Every run is checked to be complete.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::load_result::{LoadResult, RunTimes};
use crate::stream_check::StreamCheck;
use crate::target::{RunRequest, Target};

const RUN_TIMEOUT: Duration = Duration::from_secs(180);

/// How many runs, and how many of them at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) runs: u64,
    pub(crate) concurrency: u64,
}

/// Runs that start one after the other at a fixed interval, whether or not earlier ones have ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ramp {
    pub(crate) runs: u64,
    pub(crate) interval: Duration,
}

/// Closed-loop load: each client has its own connection and starts its next run when the last one ended.
pub(crate) async fn closed_loop(
    target: &Target,
    request: &RunRequest,
    volume: Volume,
) -> LoadResult {
    let remaining = Rc::new(Cell::new(volume.runs));
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..volume.concurrency.min(volume.runs) {
        let (target, request) = (target.clone(), request.clone());
        let remaining = Rc::clone(&remaining);
        clients.spawn_local(async move {
            let mut result = LoadResult::default();
            let mut connection = Connection::new(target.address());
            while remaining.get() > 0 {
                remaining.set(remaining.get() - 1);
                result.record(run(&target, &request, &mut connection).await);
            }
            result
        });
    }
    collect(clients, started).await
}

/// Closed-loop load of many sessions: `volume.runs` runs of every request in sequence, `volume.concurrency` requests
/// at the same time.
pub(crate) async fn closed_loop_per_session(
    target: &Target,
    requests: &[RunRequest],
    volume: Volume,
) -> LoadResult {
    let remaining = Rc::new(RefCell::new(requests.to_vec()));
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..volume.concurrency {
        let (target, remaining) = (target.clone(), Rc::clone(&remaining));
        clients.spawn_local(async move {
            let mut result = LoadResult::default();
            let mut connection = Connection::new(target.address());
            let next = || remaining.borrow_mut().pop();
            while let Some(request) = next() {
                for _ in 0..volume.runs {
                    result.record(run(&target, &request, &mut connection).await);
                }
            }
            result
        });
    }
    collect(clients, started).await
}

/// Open-loop load: runs start at fixed times, each on its own connection.
pub(crate) async fn open_loop(target: &Target, request: &RunRequest, ramp: Ramp) -> LoadResult {
    let started = Instant::now();
    let mut clients = JoinSet::new();
    let mut due = tokio::time::Instant::now();
    for _ in 0..ramp.runs {
        let (target, request) = (target.clone(), request.clone());
        clients.spawn_local(async move {
            let mut result = LoadResult::default();
            let mut connection = Connection::new(target.address());
            result.record(run(&target, &request, &mut connection).await);
            result
        });
        due += ramp.interval;
        tokio::time::sleep_until(due).await;
    }
    collect(clients, started).await
}

/// All runs at the same moment, each on its own connection, which is opened before.
pub(crate) async fn all_at_once(target: &Target, request: &RunRequest, runs: usize) -> LoadResult {
    let connected = Rc::new(Barrier::new(runs + 1));
    let mut clients = JoinSet::new();
    for _ in 0..runs {
        let (target, request) = (target.clone(), request.clone());
        let connected = Rc::clone(&connected);
        clients.spawn_local(async move {
            let mut result = LoadResult::default();
            let mut connection = Connection::new(target.address());
            let opened = connection.connect().await;
            connected.wait().await;
            result.record(match opened {
                Ok(()) => run(&target, &request, &mut connection).await,
                Err(error) => Err(error),
            });
            result
        });
    }
    connected.wait().await;
    collect(clients, Instant::now()).await
}

/// Waits for all clients and merges their results.
pub(crate) async fn collect(mut clients: JoinSet<LoadResult>, started: Instant) -> LoadResult {
    let mut merged = LoadResult::default();
    while let Some(ended) = clients.join_next().await {
        match ended {
            Ok(result) => merged.merge(result),
            Err(error) => merged.record(Err(error.into())),
        }
    }
    merged.elapsed = started.elapsed();
    merged
}

/// One run, from its request to its terminal event.
pub(crate) async fn run(
    target: &Target,
    request: &RunRequest,
    connection: &mut Connection,
) -> anyhow::Result<RunTimes> {
    let timed = tokio::time::timeout(RUN_TIMEOUT, run_to_end(target, request, connection)).await;
    let times = timed.unwrap_or_else(|_| anyhow::bail!("a run did not end within {RUN_TIMEOUT:?}"));
    if times.is_err() {
        connection.abort();
    }
    times
}

async fn run_to_end(
    target: &Target,
    request: &RunRequest,
    connection: &mut Connection,
) -> anyhow::Result<RunTimes> {
    let started = Instant::now();
    let head = match target {
        Target::Direct(_) => connection.send(&request.bytes).await?,
        Target::Runloom { .. } => {
            let run = create_run(request, connection).await?;
            connection.send(&target.get_stream(&run)).await?
        }
    };
    let check = StreamCheck::read(connection, head, started).await?;
    check.finish(request.tokens)
}

/// Creates a run and returns its id.
pub(crate) async fn create_run(
    request: &RunRequest,
    connection: &mut Connection,
) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created {
        run_id: String,
    }
    let head = connection.send(&request.bytes).await?;
    let body = connection
        .expect_body(head, 202)
        .await
        .context("the run was refused")?;
    let created: Created =
        serde_json::from_slice(&body).context("the response to a new run has no `runId`")?;
    Ok(created.run_id)
}
