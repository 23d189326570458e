//! Reading the stream of a finished run again; used by W7 and W8.

use std::time::Instant;

use anyhow::Context;

use crate::http::Connection;
use crate::load::create_run;
use crate::stream_check::StreamCheck;
use crate::target::Target;

use super::sample::Subject;

pub(super) use crate::decoding::PROMPT as LONG_RUN;

/// The cost of reading a run several times.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Replay {
    events: f64,
    cpu: f64,
    seconds: f64,
}

impl Replay {
    pub(super) fn merge(&mut self, other: Self) {
        self.events += other.events;
        self.cpu += other.cpu;
        self.seconds += other.seconds;
    }

    /// Events per CPU second of the server.
    pub(super) fn per_cpu_second(self) -> f64 {
        self.events / self.cpu
    }

    /// Events per second of elapsed time.
    pub(super) fn per_second(self) -> f64 {
        self.events / self.seconds
    }
}

/// Creates a run of [`LONG_RUN`], waits for its end and reads it `times` times.
pub(super) async fn replay_long_run(subject: &Subject, times: u64) -> anyhow::Result<Replay> {
    let target = &subject.target;
    let mut connection = Connection::new(target.address());
    let run = create_run(&target.run(LONG_RUN), &mut connection).await?;
    read_stream(target, &run, &mut connection).await?;
    let cpu_before = subject.processes.cpu_seconds()?;
    let started = Instant::now();
    let mut events = 0;
    for _ in 0..times {
        events += read_stream(target, &run, &mut connection).await?;
    }
    Ok(Replay {
        events: events as f64,
        cpu: subject.processes.cpu_seconds()? - cpu_before,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Reads a run's stream to its end and returns its number of events.
async fn read_stream(
    target: &Target,
    run: &str,
    connection: &mut Connection,
) -> anyhow::Result<u64> {
    let head = connection.send(&target.get_stream(run)).await?;
    let check = StreamCheck::read(connection, head, Instant::now()).await?;
    check
        .finish(LONG_RUN.tokens)
        .context("a replay is incomplete")?;
    Ok(check.events())
}
