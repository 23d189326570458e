//! W5: what the next run of a session costs when much has been said before.

use anyhow::Context;
use serde::Deserialize;

use crate::drive::{Job, Target, load, shoot};
use crate::meter::Meter;
use crate::outcome::Outcome;
use crate::report::{Goal, Row};
use crate::wire::Connection;

use super::{Bench, Sample, errors};

const MODEL: &str = "bench-t20";
const TOKENS: u64 = 20;
const PROMPT: &str = "And what else is there to say about keeping a log of everything?";

/// Turns that were, sessions that have so many, next runs of each. The more turns, the less a few more of them matter, so
/// that every size has runs enough for a meter with steps of 10 ms.
const SIZES: [(u64, u64, u64); 4] = [(1, 300, 1), (50, 20, 10), (200, 5, 30), (1000, 1, 100)];

/// W5.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let server = bench.server("w5", &[MODEL])?;
    let (floor, at_floor) = bench.floor()?;
    load(&at_floor, &at_floor.job(MODEL, PROMPT, TOKENS), 100, 1).await;
    let mut rows = Vec::new();
    let mut first = None;
    for (turns, sessions, next) in SIZES {
        let sessions = if sessions > 1 {
            bench.effort.of(sessions)
        } else {
            sessions
        };
        let size = (turns, sessions, next);
        let ours = ours(&server.target, server.running.meter(), size).await?;
        let bytes = bench.ask_provider("/last").await?;
        let job = at_floor.posting("/v1/responses", &bytes, TOKENS);
        let runs = sessions * next;
        let floors = super::sample(&at_floor, floor.meter(), &job, runs, 1).await?;
        let (of_first, of_first_floor) =
            *first.get_or_insert((ours.cpu_per_thousand(), floors.cpu_per_thousand()));
        rows.extend(judged(&ours, &floors, turns, bytes.len()));
        if turns > 1 {
            let pair = (
                ours.cpu_per_thousand() - of_first,
                floors.cpu_per_thousand() - of_first_floor,
            );
            let what = format!("CPU that {turns} turns add to 1,000 next runs");
            rows.push(Row::beside("W5", what, "s", pair, Goal::Told));
        }
    }
    bench.place.clear("w5");
    Ok(rows)
}

fn judged(ours: &Sample, floor: &Sample, turns: u64, bytes: usize) -> Vec<Row> {
    vec![
        Row::beside(
            "W5",
            format!("CPU per 1,000 next runs, {turns} turns"),
            "s",
            (ours.cpu_per_thousand(), floor.cpu_per_thousand()),
            Goal::RatioAtMost(1.5),
        )
        .noted(format!("{} KiB to the provider", bytes / 1024)),
        Row::beside(
            "W5",
            format!("p50 of the next run, {turns} turns"),
            "ms",
            (ours.outcome.to_end(0.5), floor.outcome.to_end(0.5)),
            Goal::Told,
        ),
        errors(
            "W5",
            &format!("{turns} turns"),
            &[&ours.outcome, &floor.outcome],
        ),
    ]
}

/// Fills the sessions, then measures the next runs of each.
async fn ours(
    target: &Target,
    meter: Meter,
    (turns, sessions, next): (u64, u64, u64),
) -> anyhow::Result<Sample> {
    let mut connection = Connection::new(target.address());
    let mut jobs = Vec::new();
    for _ in 0..sessions {
        let job = session(target, &mut connection).await?;
        for _ in 0..turns {
            shoot(target, &job, &mut connection)
                .await
                .context("a session could not be filled")?;
        }
        jobs.push(job);
    }
    let before = meter.cpu()?;
    let begun = std::time::Instant::now();
    let mut outcome = Outcome::default();
    for job in &jobs {
        for _ in 0..next {
            outcome.count(shoot(target, job, &mut connection).await);
        }
    }
    outcome.elapsed = begun.elapsed();
    Ok(Sample {
        outcome,
        cpu: meter.cpu()? - before,
    })
}

/// Opens a session; the job is a message to it.
async fn session(target: &Target, connection: &mut Connection) -> anyhow::Result<Job> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Opened {
        session_id: String,
    }
    let Target::Runloom { workspace, .. } = target else {
        anyhow::bail!("only Runloom has sessions");
    };
    let path = format!("/api/v1/workspaces/{workspace}/agent-sessions");
    let body = serde_json::json!({"modelId": format!("provider:script:{MODEL}"), "systemPrompt": "Answer."});
    let job = target.posting(&path, body.to_string().as_bytes(), 0);
    let head = connection.ask(job.request()).await?;
    let answer = connection.whole(head).await?;
    anyhow::ensure!(
        head.status == 201,
        "the session was refused with {}: {}",
        head.status,
        String::from_utf8_lossy(&answer)
    );
    let opened: Opened = serde_json::from_slice(&answer)?;
    let path = format!("{path}/{}/messages", opened.session_id);
    let body = serde_json::json!({"prompt": PROMPT});
    Ok(target.posting(&path, body.to_string().as_bytes(), TOKENS))
}
