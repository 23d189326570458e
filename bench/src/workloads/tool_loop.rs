//! W2: two turns with a call of an HTTP tool between them.

use serde_json::json;

use crate::load::Volume;
use crate::report::{Goal, Row};
use crate::script::TOOL;
use crate::target::Prompt;

use super::Bench;
use super::sample::{Goals, Side, alternate, compare, failures};

pub(super) const PROMPT: Prompt = Prompt {
    model: "bench-t50-call",
    ..super::short_runs::PROMPT
};

const VOLUME: Volume = Volume {
    runs: 4000,
    concurrency: 16,
};

const GOALS: Goals = Goals {
    cpu: Goal::RatioAtMost(3.0),
    ..Goals::NONE
};

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let floor = bench.floor()?;
    let server = bench.server("w2", &[PROMPT.model])?;
    let body = json!({"model": PROMPT.model, "stream": true, "input": PROMPT.text}).to_string();
    let floor_request = floor
        .subject
        .target
        .post("/v1/tool-loop", body.as_bytes(), PROMPT.tokens);
    let tools = json!([{"kind": "mantyx", "id": TOOL}]);
    let our_request = server.subject.target.run_with_tools(PROMPT, &tools);
    let sides = [
        Side {
            subject: &floor.subject,
            request: &floor_request,
        },
        Side {
            subject: &server.subject,
            request: &our_request,
        },
    ];
    for side in sides {
        side.warm_up().await;
    }
    let calls_before = bench.provider_stats().await?.tool_calls;
    let [floor, ours] = alternate(sides, bench.effort.scale_runs(VOLUME)).await?;
    let calls = bench.provider_stats().await?.tool_calls - calls_before;
    let load = format!("{} at once", VOLUME.concurrency);
    let mut rows = compare(&ours, &floor, &load, GOALS);
    rows.push(failures(&load, &[&ours.load, &floor.load]));
    let runs = (ours.load.runs.len() + floor.load.runs.len()) as u64;
    rows.push(Row::single(
        "missing or repeated tool calls",
        "calls",
        runs.abs_diff(calls) as f64,
        Goal::AtMost(0.0),
    ));
    drop(server);
    bench.launcher.clear("w2");
    Ok(rows)
}
