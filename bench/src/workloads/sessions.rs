//! W5: the next run of a session after many turns.

use serde::Deserialize;

use crate::http::Connection;
use crate::load::{Volume, closed_loop_per_session};
use crate::report::{Compared, Goal, Row};
use crate::server::Deployment;
use crate::target::{Prompt, RunRequest, Target, model_id};

use super::Bench;
use super::sample::{ROUNDS, Sample, Side, Subject, failures};

const PROMPT: Prompt = Prompt {
    model: "bench-t50",
    text: "And what else is there to say about keeping a log of everything?",
    tokens: 50,
};

/// Sessions that are used at the same time.
const CONCURRENCY: u64 = 16;

/// Sessions of one length.
struct Size {
    turns: u64,
    sessions: u64,
    /// Measured runs of each session: enough for a CPU clock of 10 ms, and few compared with `turns`.
    next_runs: u64,
    /// Goal for the CPU of the next run.
    cpu: Goal,
}

const SIZES: [Size; 4] = [
    Size {
        turns: 1,
        sessions: 1600,
        next_runs: 1,
        cpu: Goal::None,
    },
    Size {
        turns: 50,
        sessions: 128,
        next_runs: 12,
        cpu: Goal::None,
    },
    Size {
        turns: 200,
        sessions: 48,
        next_runs: 32,
        cpu: Goal::RatioAtMost(2.0),
    },
    Size {
        turns: 1000,
        sessions: 16,
        next_runs: 96,
        cpu: Goal::None,
    },
];

/// The sessions of one round and the runs of each.
struct Round<'a> {
    sessions: &'a [RunRequest],
    runs: u64,
}

/// The next runs of sessions of one length, ours and the floor's.
#[derive(Default)]
struct Measured {
    ours: Sample,
    floor: Sample,
    /// Size of the last request to the provider.
    request_bytes: usize,
}

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let server = bench.server("w5", &[PROMPT.model])?;
    let floor = bench.floor()?;
    let warm_up = floor.subject.target.run(PROMPT);
    let floor_side = Side {
        subject: &floor.subject,
        request: &warm_up,
    };
    floor_side.warm_up().await;
    let mut rows = Vec::new();
    let sizes = match bench.launcher.deployment {
        Deployment::Sqlite => &SIZES[..],
        // The longest sessions take too long to fill.
        Deployment::PostgresSingle | Deployment::PostgresCluster => &SIZES[..3],
    };
    for size in sizes {
        let sessions = bench.effort.scale(size.sessions).max(CONCURRENCY);
        let sessions = create_sessions(&server.subject.target, sessions, size.turns).await?;
        let mut measured = Measured::default();
        for round in rounds(&sessions, bench.effort.scale(size.next_runs)) {
            measured
                .add(bench, &server.subject, &floor.subject, &round)
                .await?;
        }
        rows.extend(measured.rows(size));
    }
    drop(server);
    bench.launcher.clear("w5");
    Ok(rows)
}

/// Splits the runs into rounds. Sessions with fewer runs than there are rounds are split by session.
fn rounds(sessions: &[RunRequest], next_runs: u64) -> Vec<Round<'_>> {
    if next_runs >= ROUNDS {
        let runs = next_runs / ROUNDS;
        return (0..ROUNDS).map(|_| Round { sessions, runs }).collect();
    }
    let each = sessions.len().div_ceil(ROUNDS as usize).max(1);
    sessions
        .chunks(each)
        .map(|sessions| Round {
            sessions,
            runs: next_runs,
        })
        .collect()
}

impl Measured {
    /// Ours first; then the floor posts the bytes that our last run sent to the provider.
    async fn add(
        &mut self,
        bench: &Bench,
        ours: &Subject,
        floor: &Subject,
        round: &Round<'_>,
    ) -> anyhow::Result<()> {
        let volume = Volume {
            runs: round.runs,
            concurrency: CONCURRENCY,
        };
        let before = ours.processes.cpu_seconds()?;
        let load = closed_loop_per_session(&ours.target, round.sessions, volume).await;
        let cpu = ours.processes.cpu_seconds()? - before;
        self.ours.merge(Sample { load, cpu });
        let body = bench.ask_provider("/last").await?;
        self.request_bytes = body.len();
        let request = floor.target.post("/v1/responses", &body, PROMPT.tokens);
        let floor = Side {
            subject: floor,
            request: &request,
        };
        let volume = Volume {
            runs: round.sessions.len() as u64 * round.runs,
            ..volume
        };
        self.floor.merge(floor.sample(volume).await?);
        Ok(())
    }

    fn rows(&self, size: &Size) -> Vec<Row> {
        let turns = size.turns;
        let row = |measure: &str, unit, value: fn(&Sample) -> f64, goal| {
            let figures = Compared {
                ours: value(&self.ours),
                reference: value(&self.floor),
            };
            Row::compared(
                format!("{measure}, after {turns} turns"),
                unit,
                figures,
                goal,
            )
        };
        let kib = self.request_bytes / 1024;
        vec![
            row(
                "CPU per 1,000 runs",
                "s",
                Sample::cpu_per_thousand,
                size.cpu,
            )
            .note(format!("requests of {kib} KiB")),
            row(
                "p50 to the terminal event",
                "ms",
                |sample| sample.load.end_ms(0.5),
                Goal::None,
            ),
            failures(
                &format!("after {turns} turns"),
                &[&self.ours.load, &self.floor.load],
            ),
        ]
    }
}

/// Creates sessions and gives each `turns` turns. The result is a request for each session's next run.
async fn create_sessions(
    target: &Target,
    count: u64,
    turns: u64,
) -> anyhow::Result<Vec<RunRequest>> {
    let mut connection = Connection::new(target.address());
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(create_session(target, &mut connection).await?);
    }
    let volume = Volume {
        runs: turns,
        concurrency: CONCURRENCY,
    };
    let filled = closed_loop_per_session(target, &sessions, volume).await;
    anyhow::ensure!(
        filled.failed == 0,
        "{} of the runs that fill the sessions failed: {}",
        filled.failed,
        filled.errors.join("; ")
    );
    Ok(sessions)
}

/// Creates a session. The result is a request for its next run.
pub(super) async fn create_session(
    target: &Target,
    connection: &mut Connection,
) -> anyhow::Result<RunRequest> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created {
        session_id: String,
    }
    let path = target.path("/agent-sessions");
    let body = serde_json::json!({"modelId": model_id(PROMPT.model), "systemPrompt": "Answer."});
    let request = target.post(&path, body.to_string().as_bytes(), 0);
    let head = connection.send(&request.bytes).await?;
    let body = connection.expect_body(head, 201).await?;
    let created: Created = serde_json::from_slice(&body)?;
    let path = format!("{path}/{}/messages", created.session_id);
    let body = serde_json::json!({"prompt": PROMPT.text}).to_string();
    Ok(target.post(&path, body.as_bytes(), PROMPT.tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_rounds_by_runs_or_by_sessions() {
        let target = Target::Direct(([127, 0, 0, 1], 1).into());
        let sessions = vec![target.run(PROMPT); 10];
        let sizes = |next_runs| -> Vec<(usize, u64)> {
            let rounds = rounds(&sessions, next_runs).into_iter();
            rounds
                .map(|round| (round.sessions.len(), round.runs))
                .collect()
        };
        assert_eq!(sizes(12), [(10, 3); 4]);
        assert_eq!(sizes(1), [(3, 1), (3, 1), (3, 1), (1, 1)]);
    }
}
