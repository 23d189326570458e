//! W1: one turn of 50 tokens, as fast as possible.

use std::path::Path;

use crate::load::Volume;
use crate::report::{Compared, Goal, Row};
use crate::server::{Server, ServerLauncher};
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

/// One size of load.
struct Level {
    volume: Volume,
    goals: Goals,
}

impl Level {
    const fn new(concurrency: u64, runs: u64, goals: Goals) -> Self {
        Self {
            volume: Volume { runs, concurrency },
            goals,
        }
    }

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
    Level::new(1, 3000, Goals::NONE),
    Level::new(16, 6000, GOALS),
    Level::new(64, 6000, GOALS),
];

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let floor = bench.floor()?;
    let server = bench.server("w1", &[PROMPT.model])?;
    let mut rows = levels(bench, &floor, &server).await?;
    let mib = f64::from(1 << 20);
    let figures = Compared {
        ours: server.subject.processes.peak_resident_bytes()? / mib,
        reference: floor.subject.processes.peak_resident_bytes()? / mib,
    };
    rows.push(Row::compared("peak memory", "MiB", figures, Goal::None));
    drop(server);
    bench.launcher.clear("w1");
    rows.extend(without_disk(bench, &floor).await?);
    Ok(rows)
}

async fn levels(bench: &Bench, floor: &Floor, server: &Server) -> anyhow::Result<Vec<Row>> {
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
        let volume = bench.effort.scale_runs(level.volume);
        let [floor, ours] = alternate(sides, volume).await?;
        rows.extend(compare(&ours, &floor, &level.label(), level.goals));
        rows.push(failures(&level.label(), &[&ours.load, &floor.load]));
    }
    Ok(rows)
}

/// The same with the store in memory, where such a file system exists. The difference is the cost of the disk.
async fn without_disk(bench: &Bench, floor: &Floor) -> anyhow::Result<Vec<Row>> {
    const LEVELS: [Volume; 2] = [
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
    for volume in LEVELS {
        let load = format!("{} at once, store in memory", volume.concurrency);
        let [floor, ours]: [Sample; 2] =
            alternate([floor, ours], bench.effort.scale_runs(volume)).await?;
        rows.extend(compare(&ours, &floor, &load, Goals::NONE));
    }
    drop(server);
    std::fs::remove_dir_all(&launcher.folder).ok();
    Ok(rows)
}
