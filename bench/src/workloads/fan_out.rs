//! W7: thousands of subscribers of one run, and the replay of a finished run.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::load::create_run;
use crate::load_result::LoadResult;
use crate::process::ServerProcess;
use crate::procfs::open_files_limit;
use crate::report::{Compared, Goal, Row};
use crate::stream_check::StreamCheck;
use crate::target::{Prompt, Target};

use super::Bench;
use super::replay::{LONG_RUN, Replay, replay_long_run};
use super::sample::{Subject, failures};

/// The provider stays silent until all have subscribed.
const PROMPT: Prompt = Prompt {
    model: "bench-t100-d100-f15000",
    text: "Speak to all.",
    tokens: 100,
};
const GAP_MS: u64 = 100;
const SUBSCRIBERS: u64 = 5_000;
const REPLAYS: u64 = 100;
/// Less than the provider's 15 s of silence.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(12);
const STREAM_TIMEOUT: Duration = Duration::from_secs(120);
/// Open files besides the subscribers' connections.
const OTHER_FILES: usize = 300;

/// What one broadcast to all subscribers used.
struct Broadcast {
    load: LoadResult,
    events: u64,
    cpu: f64,
    memory: f64,
}

impl Broadcast {
    fn cpu_per_delivery(&self) -> f64 {
        let deliveries = self.events * self.load.runs.len() as u64;
        self.cpu / deliveries as f64 * 1e6
    }
}

/// Counts subscribers whose stream has begun.
#[derive(Default)]
struct Subscribed {
    count: Cell<u64>,
    changed: Notify,
}

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let max = open_files_limit()?.saturating_sub(OTHER_FILES) as u64;
    let subscribers = bench.effort.scale(SUBSCRIBERS).min(max);
    let server = bench.server("w7", &[PROMPT.model, LONG_RUN.model])?;
    let target = &server.subject.target;
    let mut connection = Connection::new(target.address());
    let run = create_run(&target.run(PROMPT), &mut connection).await?;
    let request = target.get_stream(&run);
    let ours = broadcast(&server.subject, &request, subscribers, async || Ok(())).await?;
    let head = connection.send(&request).await?;
    let events = connection.read_body(head).await?;
    let floor = floor_broadcast(bench, &events, subscribers).await?;
    let replay = replay_long_run(&server.subject, bench.effort.scale(REPLAYS)).await?;
    drop(server);
    bench.launcher.clear("w7");
    let mut rows = compare(&ours, &floor, subscribers);
    rows.extend(replay_rows(replay));
    Ok(rows)
}

/// The same events written to as many connections by the broadcast floor.
async fn floor_broadcast(
    bench: &Bench,
    events: &[u8],
    subscribers: u64,
) -> anyhow::Result<Broadcast> {
    let process = ServerProcess::start_role(&["broadcast"], &bench.log("broadcast"))?;
    let floor = Subject {
        target: Target::Direct(process.address),
        processes: process.usage(),
    };
    let request = floor.target.get("/subscribe");
    let path = format!("/broadcast/{GAP_MS}");
    let start = floor.target.post(&path, events, PROMPT.tokens);
    let address = process.address;
    let begin = async || {
        let mut connection = Connection::new(address);
        let head = connection.send(&start.bytes).await?;
        connection.expect_body(head, 200).await?;
        Ok(())
    };
    broadcast(&floor, &request, subscribers, begin).await
}

fn compare(ours: &Broadcast, floor: &Broadcast, subscribers: u64) -> Vec<Row> {
    let load = format!("{subscribers} subscribers");
    let figures = Compared {
        ours: ours.cpu_per_delivery(),
        reference: floor.cpu_per_delivery(),
    };
    vec![
        Row::compared(
            format!("CPU per event and subscriber, {load}"),
            "µs",
            figures,
            Goal::RatioAtMost(2.0),
        ),
        Row::single(
            format!("memory per subscriber, {load}"),
            "KiB",
            ours.memory / subscribers as f64 / 1024.0,
            Goal::None,
        ),
        failures(&load, &[&ours.load, &floor.load]),
    ]
}

fn replay_rows(replay: Replay) -> [Row; 2] {
    let measure = "replay of a finished run of 10,000 events";
    [
        Row::single(
            format!("{measure}, per CPU second"),
            "events/s",
            replay.per_cpu_second(),
            Goal::AtLeast(100_000.0),
        ),
        Row::single(measure, "events/s", replay.per_second(), Goal::None),
    ]
}

/// Waits until all have subscribed, calls `begin`, and measures until the last stream has ended.
async fn broadcast(
    subject: &Subject,
    request: &[u8],
    subscribers: u64,
    begin: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Broadcast> {
    let idle = subject.processes.resident_bytes()?;
    let subscribed = Rc::new(Subscribed::default());
    let mut streams = subscribe(&subject.target, request, subscribers, &subscribed);
    let all_subscribed = async {
        while subscribed.count.get() < subscribers {
            subscribed.changed.notified().await;
        }
    };
    let waited = tokio::time::timeout(SUBSCRIBE_TIMEOUT, all_subscribed).await;
    anyhow::ensure!(
        waited.is_ok(),
        "only {} of {subscribers} subscribed within {SUBSCRIBE_TIMEOUT:?}",
        subscribed.count.get()
    );
    let memory = subject.processes.resident_bytes()? - idle;
    let cpu_before = subject.processes.cpu_seconds()?;
    begin().await?;
    let mut load = LoadResult::default();
    let mut events = 0;
    while let Some(ended) = streams.join_next().await {
        let ended = ended.map_err(anyhow::Error::from).and_then(|ended| ended);
        load.record(ended.and_then(|check| {
            events = events.max(check.events());
            check.finish(PROMPT.tokens)
        }));
    }
    Ok(Broadcast {
        load,
        events,
        cpu: subject.processes.cpu_seconds()? - cpu_before,
        memory,
    })
}

fn subscribe(
    target: &Target,
    request: &[u8],
    subscribers: u64,
    subscribed: &Rc<Subscribed>,
) -> JoinSet<anyhow::Result<StreamCheck>> {
    let request: Rc<[u8]> = request.into();
    let mut streams = JoinSet::new();
    for _ in 0..subscribers {
        let (address, request) = (target.address(), Rc::clone(&request));
        let subscribed = Rc::clone(subscribed);
        streams.spawn_local(async move {
            let read = read_stream(Connection::new(address), &request, &subscribed);
            let ended = tokio::time::timeout(STREAM_TIMEOUT, read).await;
            ended
                .unwrap_or_else(|_| anyhow::bail!("a stream did not end within {STREAM_TIMEOUT:?}"))
        });
    }
    streams
}

async fn read_stream(
    mut connection: Connection,
    request: &[u8],
    subscribed: &Subscribed,
) -> anyhow::Result<StreamCheck> {
    let head = connection.send(request).await?;
    subscribed.count.set(subscribed.count.get() + 1);
    subscribed.changed.notify_one();
    StreamCheck::read(&mut connection, head, Instant::now()).await
}
