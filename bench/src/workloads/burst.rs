//! Burst: 1,000 runs at once to one provider.
//!
//! The provider takes one second to its first token, and four more to its last one. The first burst needs new
//! connections to the provider, the second one may reuse them.

use crate::load::all_at_once;
use crate::load_result::LoadResult;
use crate::report::{Compared, Goal, Row};
use crate::target::Prompt;

use super::Bench;
use super::sample::{Subject, failures};

const PROMPT: Prompt = Prompt {
    model: "bench-t40-d100-f900-timed",
    text: "Say forty words about keeping a log.",
    tokens: 40,
};

const RUNS: u64 = 1_000;

/// One burst.
struct Burst {
    load: LoadResult,
    /// Most model calls that were open at the provider at the same time.
    peak_open: u64,
}

/// Two bursts to the same server.
struct Bursts {
    first: Burst,
    second: Burst,
}

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let runs = bench.effort.scale(RUNS);
    let floor = bench.floor()?;
    let floor_bursts = send_twice(bench, &floor.subject, runs).await?;
    drop(floor);
    let server = bench.server("burst", &[PROMPT.model])?;
    let ours = send_twice(bench, &server.subject, runs).await?;
    drop(server);
    bench.launcher.clear("burst");
    let mut rows = compare(
        &ours.first,
        &floor_bursts.first,
        &format!("{runs} runs, new connections"),
        runs,
    );
    rows.extend(compare(
        &ours.second,
        &floor_bursts.second,
        &format!("{runs} runs, second burst"),
        runs,
    ));
    Ok(rows)
}

async fn send_twice(bench: &Bench, subject: &Subject, runs: u64) -> anyhow::Result<Bursts> {
    Ok(Bursts {
        first: send(bench, subject, runs).await?,
        second: send(bench, subject, runs).await?,
    })
}

async fn send(bench: &Bench, subject: &Subject, runs: u64) -> anyhow::Result<Burst> {
    bench.reset_peak_open().await?;
    let target = &subject.target;
    let load = all_at_once(target, &target.run(PROMPT), usize::try_from(runs)?).await;
    let peak_open = bench.provider_stats().await?.peak_open;
    Ok(Burst { load, peak_open })
}

fn compare(ours: &Burst, floor: &Burst, load: &str, runs: u64) -> Vec<Row> {
    let measure = |quantile: &str| format!("{quantile} to the first text, {load}");
    let by_provider = |quantile, name, goal| {
        let figures = Compared {
            ours: ours.load.first_text_ms(quantile),
            reference: ours.load.provider_ms(quantile),
        };
        Row::compared(measure(name), "ms", figures, goal).against("provider's own time")
    };
    let by_floor = |quantile, name| {
        let figures = Compared {
            ours: ours.load.first_text_ms(quantile),
            reference: floor.load.first_text_ms(quantile),
        };
        Row::compared(measure(name), "ms", figures, Goal::None)
    };
    vec![
        by_provider(0.5, "p50", Goal::RatioAtMost(1.5)),
        by_provider(0.99, "p99", Goal::None),
        by_floor(0.5, "p50"),
        by_floor(0.99, "p99"),
        Row::single(
            format!("model calls open at once, {load}"),
            "calls",
            ours.peak_open as f64,
            Goal::AtLeast(runs as f64),
        )
        .note(format!("floor: {}", floor.peak_open)),
        failures(load, &[&ours.load, &floor.load]),
    ]
}
