//! W1: one turn of 50 tokens, as fast as possible.

use std::path::Path;

use crate::load::Volume;
use crate::procfs::cpu_seconds_of_program;
use crate::report::{Compared, Goal, Row};
use crate::server::{Deployment, Server, ServerLauncher};
use crate::target::Prompt;

use super::sample::{Goals, Sample, Side, alternate, compare, failures};
use super::{Bench, Floor};

pub(super) const PROMPT: Prompt = Prompt {
    model: "bench-t50",
    text: "Say fifty words about keeping a log.",
    tokens: 50,
};

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// The program name of PostgreSQL's processes.
const POSTGRES: &str = "postgres";

/// One size of load.
struct Level {
    volume: Volume,
    goals: Goals,
    /// Goal for the CPU on PostgreSQL divided by the CPU on SQLite.
    cpu_by_sqlite: Goal,
}

impl Level {
    fn label(&self) -> String {
        format!("{} at once", self.volume.concurrency)
    }
}

const GOALS: Goals = Goals {
    cpu: Goal::RatioAtMost(2.5),
    rate: Goal::RatioAtLeast(0.6),
    p99: Goal::RatioAtMost(3.0),
};

const LEVELS: [Level; 3] = [
    Level {
        volume: Volume {
            runs: 3000,
            concurrency: 1,
        },
        goals: Goals::NONE,
        cpu_by_sqlite: Goal::None,
    },
    Level {
        volume: Volume {
            runs: 6000,
            concurrency: 16,
        },
        goals: GOALS,
        cpu_by_sqlite: Goal::RatioAtMost(1.5),
    },
    Level {
        volume: Volume {
            runs: 6000,
            concurrency: 64,
        },
        goals: GOALS,
        cpu_by_sqlite: Goal::RatioAtMost(1.5),
    },
];

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let floor = bench.floor()?;
    let server = bench.server("w1", &[PROMPT.model])?;
    let mut rows = by_floor(bench, &floor, &server).await?;
    let mib = f64::from(1 << 20);
    let figures = Compared {
        ours: server.subject.processes.peak_resident_bytes()? / mib,
        reference: floor.subject.processes.peak_resident_bytes()? / mib,
    };
    rows.push(Row::compared("peak memory", "MiB", figures, Goal::None));
    if bench.launcher.deployment == Deployment::PostgresSingle {
        rows.extend(by_sqlite(bench, &server).await?);
    }
    drop(server);
    bench.launcher.clear("w1");
    if bench.launcher.deployment == Deployment::Sqlite {
        rows.extend(in_memory(bench, &floor).await?);
    }
    Ok(rows)
}

async fn by_floor(bench: &Bench, floor: &Floor, server: &Server) -> anyhow::Result<Vec<Row>> {
    let floor_request = floor.subject.target.run(PROMPT);
    let our_request = server.subject.target.run(PROMPT);
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
    let mut rows = Vec::new();
    for level in LEVELS {
        let postgres_before = cpu_seconds_of_program(POSTGRES)?;
        let volume = bench.effort.scale_runs(level.volume);
        let [floor, ours] = alternate(sides, volume).await?;
        let load = level.label();
        rows.extend(compare(&ours, &floor, &load, level.goals));
        if bench.launcher.deployment != Deployment::Sqlite
            && let Some(before) = postgres_before
            && let Some(after) = cpu_seconds_of_program(POSTGRES)?
        {
            let cpu = (after - before) / ours.load.runs.len() as f64 * 1000.0;
            let measure = format!("CPU of PostgreSQL per 1,000 runs, {load}");
            rows.push(Row::single(measure, "s", cpu, Goal::None));
        }
        rows.push(failures(&load, &[&ours.load, &floor.load]));
    }
    Ok(rows)
}

/// Compares a server on PostgreSQL with one on SQLite.
async fn by_sqlite(bench: &Bench, server: &Server) -> anyhow::Result<Vec<Row>> {
    const NAME: &str = "w1-sqlite";
    let launcher = ServerLauncher {
        deployment: Deployment::Sqlite,
        ..bench.launcher.clone()
    };
    let sqlite = launcher.start_empty(NAME, &[PROMPT.model])?;
    let sqlite_request = sqlite.subject.target.run(PROMPT);
    let our_request = server.subject.target.run(PROMPT);
    let sides = [
        Side {
            subject: &sqlite.subject,
            request: &sqlite_request,
        },
        Side {
            subject: &server.subject,
            request: &our_request,
        },
    ];
    sides[0].warm_up().await;
    let mut rows = Vec::new();
    for level in LEVELS {
        let volume = bench.effort.scale_runs(level.volume);
        let [sqlite, ours] = alternate(sides, volume).await?;
        let goals = Goals {
            cpu: level.cpu_by_sqlite,
            ..Goals::NONE
        };
        let compared = compare(&ours, &sqlite, &level.label(), goals);
        rows.extend(compared.into_iter().map(|row| row.against("SQLite")));
        rows.push(failures(&level.label(), &[&ours.load, &sqlite.load]));
    }
    drop(sqlite);
    launcher.clear(NAME);
    Ok(rows)
}

/// The same with the store in memory, where such a file system exists. The difference is the cost of the disk.
async fn in_memory(bench: &Bench, floor: &Floor) -> anyhow::Result<Vec<Row>> {
    const VOLUMES: [Volume; 2] = [
        Volume {
            runs: 1500,
            concurrency: 1,
        },
        Volume {
            runs: 6000,
            concurrency: 16,
        },
    ];
    if !Path::new(MEMORY).is_dir() {
        return Ok(Vec::new());
    }
    let launcher = ServerLauncher {
        folder: Path::new(MEMORY).join(format!("runloom-bench-{}", std::process::id())),
        ..bench.launcher.clone()
    };
    let server = launcher.start_empty("w1", &[PROMPT.model])?;
    let floor_request = floor.subject.target.run(PROMPT);
    let our_request = server.subject.target.run(PROMPT);
    let ours = Side {
        subject: &server.subject,
        request: &our_request,
    };
    let floor = Side {
        subject: &floor.subject,
        request: &floor_request,
    };
    ours.warm_up().await;
    let mut rows = Vec::new();
    for volume in VOLUMES {
        let load = format!("{} at once, store in memory", volume.concurrency);
        let [floor, ours]: [Sample; 2] =
            alternate([floor, ours], bench.effort.scale_runs(volume)).await?;
        rows.extend(compare(&ours, &floor, &load, Goals::NONE));
        rows.push(failures(&load, &[&ours.load, &floor.load]));
    }
    drop(server);
    std::fs::remove_dir_all(&launcher.folder).ok();
    Ok(rows)
}
