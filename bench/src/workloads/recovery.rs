//! W9: time to start, and to continue the runs of a killed server.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::http::Connection;
use crate::load::create_run;
use crate::procfs::open_files_limit;
use crate::report::{Goal, Row};
use crate::target::{Prompt, Target};

use super::replay::LONG_RUN;
use super::{Bench, log_growth};

/// The provider stays silent long enough that every run is open when the server is killed.
const PROMPT: Prompt = Prompt {
    model: "bench-t5-f50000",
    text: "Think for long.",
    tokens: 5,
};
const RUNS: u64 = 10_000;
const STARTS: u32 = 5;
const CONCURRENCY: u64 = 32;
/// Open files besides the connections to the provider: the store, listeners, logs.
const OTHER_FILES: usize = 300;
const OPEN_TIMEOUT: Duration = Duration::from_secs(40);
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    Ok(vec![
        start_empty(bench)?,
        start_large(bench)?,
        recover(bench).await?,
    ])
}

fn start_empty(bench: &Bench) -> anyhow::Result<Row> {
    let mut total = Duration::ZERO;
    for _ in 0..STARTS {
        total += bench.server("w9", &[PROMPT.model])?.ready_after();
    }
    let mean = total.as_secs_f64() * 1000.0 / f64::from(STARTS);
    let measure = "cold start to ready, empty store";
    Ok(Row::single(measure, "ms", mean, Goal::None))
}

fn start_large(bench: &Bench) -> anyhow::Result<Row> {
    let measure = "cold start to ready, store of W8";
    let Ok(store) = bench.launcher.database_file(log_growth::NAME).metadata() else {
        return Ok(Row::missing(measure, "needs W8 in the same run"));
    };
    let server = bench
        .launcher
        .restart(log_growth::NAME, &[LONG_RUN.model])?;
    let ms = server.ready_after().as_secs_f64() * 1000.0;
    let size = format!("{} MiB", store.len() >> 20);
    Ok(Row::single(measure, "ms", ms, Goal::None).note(size))
}

async fn recover(bench: &Bench) -> anyhow::Result<Row> {
    let max = open_files_limit()?.saturating_sub(OTHER_FILES) as u64;
    let runs = bench.effort.scale(RUNS).min(max);
    let server = bench.server("w9", &[PROMPT.model])?;
    let before = bench.provider_stats().await?.requests;
    create_runs(&server.subject.target, runs).await?;
    wait_for_requests(bench, before + runs, OPEN_TIMEOUT).await?;
    drop(server);
    let before = bench.provider_stats().await?.requests;
    let started = Instant::now();
    let _server = bench.launcher.restart("w9", &[PROMPT.model])?;
    wait_for_requests(bench, before + runs, RECOVERY_TIMEOUT).await?;
    let seconds = started.elapsed().as_secs_f64();
    bench.launcher.clear("w9");
    let measure = format!("kill -9 with {runs} open runs, to the last one's new model call");
    Ok(Row::single(measure, "s", seconds, Goal::AtMost(10.0)))
}

async fn create_runs(target: &Target, runs: u64) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CONCURRENCY {
        let target = target.clone();
        let share = runs / CONCURRENCY + u64::from(client < runs % CONCURRENCY);
        clients.spawn_local(async move {
            let mut connection = Connection::new(target.address());
            let request = target.run(PROMPT);
            for _ in 0..share {
                create_run(&request, &mut connection).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits until the provider has received `wanted` requests.
async fn wait_for_requests(bench: &Bench, wanted: u64, timeout: Duration) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let received = bench.provider_stats().await?.requests;
        if received >= wanted {
            return Ok(());
        }
        anyhow::ensure!(
            started.elapsed() < timeout,
            "{} model calls did not reach the provider within {timeout:?}",
            wanted - received
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
