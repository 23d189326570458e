//! W5: what the next run of a session costs when much has been said before.

use serde::Deserialize;

use crate::drive::{Job, Target, load, load_each};
use crate::report::{Goal, Row};
use crate::server::Server;
use crate::wire::Connection;

use super::{Bench, ROUNDS, Sample, errors};

/// The run of W1, with more before it.
const MODEL: &str = "bench-t50";
const TOKENS: u64 = 50;
const PROMPT: &str = "And what else is there to say about keeping a log of everything?";

/// Sessions that talk beside each other.
const AT_ONCE: u64 = 16;

/// Turns that were, sessions that have so many, next runs of each. The more turns, the less a few more of them matter, so
/// that every size has runs enough for a meter with steps of 10 ms.
const SIZES: [(u64, u64, u64); 4] = [(1, 1600, 1), (50, 128, 12), (200, 48, 32), (1000, 16, 96)];

/// W5.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let server = bench.server("w5", &[MODEL])?;
    let (floor, at_floor) = bench.floor()?;
    let warm_up = at_floor.job(MODEL, PROMPT, TOKENS);
    load(&at_floor, &warm_up, 200, AT_ONCE).await;
    let mut rows = Vec::new();
    let mut first = None;
    for (turns, sessions, next) in SIZES {
        let sessions = bench.effort.of(sessions).max(AT_ONCE);
        let next = bench.effort.of(next);
        let jobs = filled(&server.target, turns, sessions).await?;
        let (mut ours, mut floors, mut bytes) = (Sample::default(), Sample::default(), 0);
        for (jobs, next) in rounds(&jobs, next) {
            ours.add(further(&server, jobs, next).await?);
            // What our last run sent: the floor posts the same.
            let body = bench.ask_provider("/last").await?;
            bytes = body.len();
            let job = at_floor.posting("/v1/responses", &body, TOKENS);
            let runs = jobs.len() as u64 * next;
            floors.add(super::sample(&at_floor, floor.meter(), &job, runs, AT_ONCE).await?);
        }
        let (of_first, of_first_floor) =
            *first.get_or_insert((ours.cpu_per_thousand(), floors.cpu_per_thousand()));
        rows.extend(judged(&ours, &floors, turns, bytes));
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

/// The sessions of each round, and how many runs each of them has in it: ours and the floor's take turns. Where a session has fewer runs
/// than there are rounds, each round has sessions of its own.
fn rounds(jobs: &[Job], next: u64) -> Vec<(&[Job], u64)> {
    if next >= ROUNDS {
        return vec![(jobs, next / ROUNDS); ROUNDS as usize];
    }
    let each = jobs.len().div_ceil(ROUNDS as usize).max(1);
    jobs.chunks(each).map(|jobs| (jobs, next)).collect()
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

/// Sessions with so many turns; a job is the next message to one.
async fn filled(target: &Target, turns: u64, sessions: u64) -> anyhow::Result<Vec<Job>> {
    let mut connection = Connection::new(target.address());
    let mut jobs = Vec::new();
    for _ in 0..sessions {
        jobs.push(session(target, &mut connection).await?);
    }
    let filled = load_each(target, &jobs, turns, AT_ONCE).await;
    anyhow::ensure!(
        filled.failed == 0,
        "the sessions could not be filled: {}",
        filled.errors.join("; ")
    );
    Ok(jobs)
}

/// The next runs of sessions.
async fn further(server: &Server, jobs: &[Job], next: u64) -> anyhow::Result<Sample> {
    let meter = server.running.meter();
    let before = meter.cpu()?;
    let outcome = load_each(&server.target, jobs, next, AT_ONCE).await;
    let cpu = meter.cpu()? - before;
    Ok(Sample { outcome, cpu })
}

/// Opens a session; the job is a message to it.
pub(super) async fn session(target: &Target, connection: &mut Connection) -> anyhow::Result<Job> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_share_out_the_runs_of_long_sessions_and_short_sessions_themselves() {
        let target = Target::Plain(([127, 0, 0, 1], 1).into());
        let jobs = vec![target.job(MODEL, PROMPT, TOKENS); 10];
        let sizes = |next| -> Vec<(usize, u64)> {
            let rounds = rounds(&jobs, next).into_iter();
            rounds.map(|(jobs, next)| (jobs.len(), next)).collect()
        };
        assert_eq!(sizes(12), [(10, 3); 4]);
        assert_eq!(sizes(1), [(3, 1), (3, 1), (3, 1), (1, 1)]);
    }
}
