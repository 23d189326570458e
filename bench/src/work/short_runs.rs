//! W1, W2 and W3: one turn of 50 tokens, as fast as it goes; two turns with a tool between them; and what the way through the
//! server adds to the first token.

use serde_json::json;

use crate::child::Running;
use crate::drive::{Target, load};
use crate::report::{Goal, Row};
use crate::script::TOOL;
use crate::server::Place;

use super::{Bench, ROUNDS, Sample, errors, sample};

const MODEL: &str = "bench-t50";
const TOKENS: u64 = 50;
const PROMPT: &str = "Say fifty words about keeping a log.";

/// Runs before anything is measured: connections, caches, allocators.
const WARM_UP: u64 = 100;

/// W1.
pub(super) async fn throughput(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (floor, at_floor) = bench.floor()?;
    let server = bench.server("w1", &[MODEL])?;
    let floor_job = at_floor.job(MODEL, PROMPT, TOKENS);
    let our_job = server.target.job(MODEL, PROMPT, TOKENS);
    load(&at_floor, &floor_job, WARM_UP, 8).await;
    load(&server.target, &our_job, WARM_UP, 8).await;
    let mut rows = Vec::new();
    for (at_once, full) in [(1, 3000), (16, 6000), (64, 6000)] {
        let runs = bench.effort.of(full) / ROUNDS;
        let mut ours = Sample::default();
        let mut floors = Sample::default();
        for _ in 0..ROUNDS {
            floors.add(sample(&at_floor, floor.meter(), &floor_job, runs, at_once).await?);
            let meter = server.running.meter();
            ours.add(sample(&server.target, meter, &our_job, runs, at_once).await?);
        }
        rows.extend(judged("W1", &ours, &floors, at_once));
    }
    let peak = server.running.meter().peak()? / f64::from(1 << 20);
    let floor_peak = floor.meter().peak()? / f64::from(1 << 20);
    let peaks = (peak, floor_peak);
    rows.push(Row::beside("W1", "peak memory", "MiB", peaks, Goal::Told));
    bench.place.clear("w1");
    drop(server);
    rows.extend(without_disk(bench, &floor, &at_floor).await?);
    Ok(rows)
}

/// The same with the store on a file system in memory, where that exists: what is left is the server's own work, and the
/// difference is what durability costs.
async fn without_disk(
    bench: &Bench,
    floor: &Running,
    at_floor: &Target,
) -> anyhow::Result<Vec<Row>> {
    let memory = std::path::Path::new("/dev/shm");
    if !memory.is_dir() {
        return Ok(Vec::new());
    }
    let place = Place {
        binary: bench.place.binary.clone(),
        folder: memory.join(format!("runloom-bench-{}", std::process::id())),
    };
    let server = place.fresh("w1", &bench.provider.url(), &[MODEL])?;
    let floor_job = at_floor.job(MODEL, PROMPT, TOKENS);
    let our_job = server.target.job(MODEL, PROMPT, TOKENS);
    load(&server.target, &our_job, WARM_UP, 8).await;
    let mut rows = Vec::new();
    for (at_once, full) in [(1, 1500), (16, 6000)] {
        let runs = bench.effort.of(full) / ROUNDS;
        let floors = sample(at_floor, floor.meter(), &floor_job, runs, at_once).await?;
        let meter = server.running.meter();
        let ours = sample(&server.target, meter, &our_job, runs, at_once).await?;
        let row = |what: &str, unit, of: fn(&Sample) -> f64| {
            let what = format!("{what} without a disk, {at_once} at once");
            Row::beside("W1", what, unit, (of(&ours), of(&floors)), Goal::Told)
        };
        rows.push(row("CPU per 1,000 runs", "s", Sample::cpu_per_thousand));
        rows.push(row("rate", "runs/s", |sample| sample.outcome.rate()));
        rows.push(row("p99 to the terminal event", "ms", |sample| {
            sample.outcome.to_end(0.99)
        }));
    }
    drop(server);
    std::fs::remove_dir_all(&place.folder).ok();
    Ok(rows)
}

fn judged(work: &'static str, ours: &Sample, floor: &Sample, at_once: u64) -> Vec<Row> {
    let row = |what: &str, unit, pair, goal| {
        Row::beside(work, format!("{what}, {at_once} at once"), unit, pair, goal)
    };
    let pair = |of: fn(&Sample) -> f64| (of(ours), of(floor));
    vec![
        row(
            "CPU per 1,000 runs",
            "s",
            pair(Sample::cpu_per_thousand),
            Goal::RatioAtMost(2.0),
        ),
        row(
            "rate",
            "runs/s",
            pair(|sample| sample.outcome.rate()),
            Goal::RatioAtLeast(0.6),
        ),
        row(
            "p99 to the terminal event",
            "ms",
            pair(|sample| sample.outcome.to_end(0.99)),
            Goal::RatioAtMost(2.5),
        ),
        row(
            "p50 to the terminal event",
            "ms",
            pair(|sample| sample.outcome.to_end(0.5)),
            Goal::Told,
        ),
        errors(
            work,
            &format!("{at_once} at once"),
            &[&ours.outcome, &floor.outcome],
        ),
    ]
}

/// W2.
pub(super) async fn tool_loop(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    const AT_ONCE: u64 = 16;
    const CALLING: &str = "bench-t50-call";
    let (floor, at_floor) = bench.floor()?;
    let server = bench.server("w2", &[CALLING])?;
    let asked = json!({"model": CALLING, "stream": true, "input": PROMPT});
    let floor_job = at_floor.posting("/v1/loop", asked.to_string().as_bytes(), TOKENS);
    let asked = json!({"tools": [{"kind": "mantyx", "id": TOOL}]});
    let our_job = server.target.run_of(CALLING, PROMPT, asked, TOKENS);
    load(&at_floor, &floor_job, WARM_UP, 8).await;
    load(&server.target, &our_job, WARM_UP, 8).await;
    let runs = bench.effort.of(4000) / ROUNDS;
    let (mut ours, mut floors) = (Sample::default(), Sample::default());
    let before = bench.stats().await?.tools;
    for _ in 0..ROUNDS {
        floors.add(sample(&at_floor, floor.meter(), &floor_job, runs, AT_ONCE).await?);
        let meter = server.running.meter();
        ours.add(sample(&server.target, meter, &our_job, runs, AT_ONCE).await?);
    }
    let called = bench.stats().await?.tools - before;
    let missing = (2 * runs * ROUNDS).abs_diff(called);
    let mut rows = judged("W2", &ours, &floors, AT_ONCE);
    rows.push(Row::alone(
        "W2",
        "calls of the tool too few or too many",
        "calls",
        missing as f64,
        Goal::AtMost(0.0),
    ));
    bench.place.clear("w2");
    Ok(rows)
}

/// W3.
pub(super) async fn first_token(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    // The provider thinks for a moment, as providers do: the way to it is done by then, and every token is a wait. It tells how long it took
    // itself: its clock strikes once in a millisecond, which is more than what is measured here.
    const THINKING: &str = "bench-t5-d5-f20-own";
    let provider = Target::Plain(bench.provider.address);
    let (_floor, at_floor) = bench.floor()?;
    let server = bench.server("w3", &[THINKING])?;
    let runs = bench.effort.of(400) / ROUNDS;
    let mut outcomes = Vec::new();
    for target in [&provider, &at_floor, &server.target] {
        let job = target.job(THINKING, PROMPT, 5);
        load(target, &job, 20, 1).await;
        outcomes.push(Sample::default());
    }
    for _ in 0..ROUNDS {
        for (index, target) in [&provider, &at_floor, &server.target]
            .into_iter()
            .enumerate()
        {
            let job = target.job(THINKING, PROMPT, 5);
            let outcome = load(target, &job, runs, 1).await;
            outcomes[index].outcome.add(outcome);
        }
    }
    let [direct, floor, ours] = outcomes.as_slice() else {
        anyhow::bail!("three targets were measured");
    };
    let mut shots = outcomes.iter().flat_map(|sample| &sample.outcome.shots);
    anyhow::ensure!(
        shots.all(|shot| !shot.own.is_zero()),
        "a first token does not tell how long the provider took"
    );
    let added = |sample: &Sample, quantile| {
        sample.outcome.way_to_first(quantile) - direct.outcome.way_to_first(quantile)
    };
    bench.place.clear("w3");
    Ok(vec![
        Row::beside(
            "W3",
            "added to the first token, p50",
            "ms",
            (added(ours, 0.5), added(floor, 0.5)),
            Goal::RatioAtMost(3.0),
        ),
        Row::beside(
            "W3",
            "added to the first token, p99",
            "ms",
            (added(ours, 0.99), added(floor, 0.99)),
            Goal::Told,
        ),
        errors(
            "W3",
            "1 at once",
            &[&ours.outcome, &floor.outcome, &direct.outcome],
        ),
    ])
}
