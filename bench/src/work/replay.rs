//! Reading a finished run again: shared by the workloads that ask what the log costs to read.

use std::time::Instant;

use anyhow::Context;

use crate::drive::{Target, Watch, start};
use crate::meter::Meter;
use crate::wire::{Connection, Frames};

/// A long answer, handed over at once.
pub(super) const LONG: &str = "bench-t10000-bulk";
pub(super) const LONG_TOKENS: u64 = 10_000;

/// What reading a run several times took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Replay {
    events: f64,
    cpu: f64,
    seconds: f64,
}

impl Replay {
    /// Adds what reading more took.
    pub(super) fn add(&mut self, other: Self) {
        self.events += other.events;
        self.cpu += other.cpu;
        self.seconds += other.seconds;
    }

    /// Events for each second of a core of the server.
    pub(super) fn per_core(self) -> f64 {
        self.events / self.cpu
    }

    /// Events for each second by the clock.
    pub(super) fn per_second(self) -> f64 {
        self.events / self.seconds
    }
}

/// Makes a run of [`LONG_TOKENS`] tokens, waits for its end, and reads it `times` times.
pub(super) async fn long_run(target: &Target, meter: Meter, times: u64) -> anyhow::Result<Replay> {
    let mut connection = Connection::new(target.address());
    let job = target.job(LONG, "Say ten thousand words.", LONG_TOKENS);
    let run = start(&job, &mut connection).await?;
    read(target, &run, &mut connection).await?;
    let before = meter.cpu()?;
    let begun = Instant::now();
    let mut events = 0;
    for _ in 0..times {
        events += read(target, &run, &mut connection).await?;
    }
    Ok(Replay {
        events: events as f64,
        cpu: meter.cpu()? - before,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Reads the run's stream to its end and answers how many events it has.
async fn read(target: &Target, run: &str, connection: &mut Connection) -> anyhow::Result<u64> {
    let head = connection.ask(&target.stream_of(run)).await?;
    anyhow::ensure!(
        head.status == 200,
        "the stream was refused: {}",
        head.status
    );
    let mut frames = Frames::default();
    let mut watch = Watch::new(Instant::now());
    connection
        .body(head, |piece| frames.push(piece, |frame| watch.see(frame)))
        .await?;
    watch.close(LONG_TOKENS).context("a replay is not whole")?;
    Ok(watch.events())
}
