//! W3: time that the server adds to the first token.

use crate::load::{Volume, closed_loop};
use crate::load_result::LoadResult;
use crate::report::{Compared, Goal, Row};
use crate::target::Prompt;

use super::Bench;
use super::sample::{ROUNDS, failures};

/// The provider pauses before its first byte, so connecting and the run's first commit are over by then. Its first
/// token contains its own time, because its timer is too coarse to assume the nominal pause.
const PROMPT: Prompt = Prompt {
    model: "bench-t5-d5-f20-timed",
    text: "Say five words about keeping a log.",
    tokens: 5,
};

const RUNS: u64 = 400;

const WARM_UP: Volume = Volume {
    runs: 20,
    concurrency: 1,
};

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let provider = bench.provider();
    let floor = bench.floor()?;
    let server = bench.server("w3", &[PROMPT.model])?;
    let targets = [&provider, &floor.subject.target, &server.subject.target];
    for target in targets {
        closed_loop(target, &target.run(PROMPT), WARM_UP).await;
    }
    let volume = Volume {
        runs: bench.effort.scale(RUNS) / ROUNDS,
        concurrency: 1,
    };
    let mut results: [LoadResult; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (target, result) in targets.into_iter().zip(&mut results) {
            result.merge(closed_loop(target, &target.run(PROMPT), volume).await);
        }
    }
    let mut runs = results.iter().flat_map(|result| &result.runs);
    anyhow::ensure!(
        runs.all(|run| !run.provider.is_zero()),
        "a first token does not contain the provider's time"
    );
    drop(server);
    bench.launcher.clear("w3");
    let [direct, floor, ours] = &results;
    let added = |quantile| {
        let baseline = direct.first_text_overhead_ms(quantile);
        Compared {
            ours: ours.first_text_overhead_ms(quantile) - baseline,
            reference: floor.first_text_overhead_ms(quantile) - baseline,
        }
    };
    let row = |name, quantile| {
        let measure = format!("time added to the first token, {name}");
        Row::compared(measure, "ms", added(quantile), Goal::None)
    };
    Ok(vec![
        row("p50", 0.5),
        row("p99", 0.99),
        failures("1 at once", &[ours, floor, direct]),
    ])
}
