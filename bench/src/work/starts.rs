//! W9: how long a server takes to be there, and to take up again what a killed one left.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::drive::{Target, start};
use crate::meter::open_files_limit;
use crate::report::{Goal, Row};
use crate::wire::Connection;

use super::{Bench, growth, replay};

/// Silent long enough that every run is open when the server is killed.
const MODEL: &str = "bench-t5-f50000";
const STARTS: u32 = 5;
const AT_ONCE: u64 = 32;
/// Descriptors beside the connections to the provider: the store's files, listeners, logs.
const SPARE_FILES: usize = 300;
const OPEN_WITHIN: Duration = Duration::from_secs(40);
const RECOVERED_WITHIN: Duration = Duration::from_secs(120);

/// W9.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![empty(bench)?];
    rows.push(large(bench)?);
    rows.push(recovery(bench).await?);
    Ok(rows)
}

fn empty(bench: &Bench) -> anyhow::Result<Row> {
    let mut all = Duration::ZERO;
    for _ in 0..STARTS {
        all += bench.server("w9", &[MODEL])?.running.ready_after;
    }
    let mean = all.as_secs_f64() * 1000.0 / f64::from(STARTS);
    Ok(Row::alone(
        "W9",
        "cold start to ready, empty store",
        "ms",
        mean,
        Goal::Told,
    ))
}

fn large(bench: &Bench) -> anyhow::Result<Row> {
    let what = "cold start to ready, the store of W8";
    let Ok(store) = bench.place.store(growth::NAME).metadata() else {
        return Ok(Row::missing("W9", what, "run it together with W8"));
    };
    let server = bench.server_again(growth::NAME, &[replay::LONG])?;
    let took = server.running.ready_after.as_secs_f64() * 1000.0;
    let size = format!("{} MiB", store.len() >> 20);
    Ok(Row::alone("W9", what, "ms", took, Goal::Told).noted(size))
}

async fn recovery(bench: &Bench) -> anyhow::Result<Row> {
    let most = open_files_limit()?.saturating_sub(SPARE_FILES) as u64;
    let runs = bench.effort.of(10_000).min(most);
    let server = bench.server("w9", &[MODEL])?;
    let before = bench.stats().await?.requests;
    open(&server.target, runs).await?;
    called(bench, before + runs, OPEN_WITHIN).await?;
    drop(server);
    let before = bench.stats().await?.requests;
    let begun = Instant::now();
    let _server = bench.server_again("w9", &[MODEL])?;
    called(bench, before + runs, RECOVERED_WITHIN).await?;
    let took = begun.elapsed().as_secs_f64();
    bench.place.clear("w9");
    let what = format!("kill -9 with {runs} open runs, to the last one's new model call");
    Ok(Row::alone("W9", what, "s", took, Goal::AtMost(10.0)))
}

/// Starts runs whose model keeps silent.
async fn open(target: &Target, runs: u64) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..AT_ONCE {
        let target = target.clone();
        let share = runs / AT_ONCE + u64::from(client < runs % AT_ONCE);
        clients.spawn_local(async move {
            let mut connection = Connection::new(target.address());
            let job = target.job(MODEL, "Think for long.", 5);
            for _ in 0..share {
                start(&job, &mut connection).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits until the provider has been asked so many times.
async fn called(bench: &Bench, wanted: u64, within: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let asked = bench.stats().await?.requests;
        if asked >= wanted {
            return Ok(());
        }
        anyhow::ensure!(
            begun.elapsed() < within,
            "{} model calls did not come within {within:?}",
            wanted - asked
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
