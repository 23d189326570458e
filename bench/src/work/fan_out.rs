//! W7: one run and thousands who watch it; and a finished run, read again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::child::Running;
use crate::drive::{Target, Watch, start};
use crate::meter::{Meter, open_files_limit};
use crate::outcome::Outcome;
use crate::report::{Goal, Row};
use crate::wire::{Connection, Frames};

use super::{Bench, errors, replay};

/// The run says nothing until all have come.
const MODEL: &str = "bench-t100-d100-f15000";
const TOKENS: u64 = 100;
const GAP_MS: u64 = 100;
/// Within the first 15 s.
const ARRIVALS_WITHIN: Duration = Duration::from_secs(12);
/// Long after the last token.
const WATCHED_AT_MOST: Duration = Duration::from_secs(120);

/// W7.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let most = open_files_limit()?.saturating_sub(300) as u64;
    let subscribers = bench.effort.of(5_000).min(most);
    let server = bench.server("w7", &[MODEL, replay::LONG])?;
    let meter = server.running.meter();
    let mut connection = Connection::new(server.target.address());
    let job = server.target.job(MODEL, "Speak to all.", TOKENS);
    let run = start(&job, &mut connection).await?;
    let request = server.target.stream_of(&run);
    let ours = audience(
        &server.target,
        &request,
        meter,
        subscribers,
        async || Ok(()),
    )
    .await?;
    let head = connection.ask(&request).await?;
    let events = connection.whole(head).await?;

    let fan = Running::face(&["fan"], &bench.log("fan"))?;
    let at_fan = Target::Plain(fan.address);
    let request = at_fan.get("/fan");
    let go = at_fan.posting(&format!("/go/{GAP_MS}"), &events, TOKENS);
    let begin = async || {
        let mut connection = Connection::new(at_fan.address());
        let head = connection.ask(go.request()).await?;
        anyhow::ensure!(head.status == 200, "the fan refused with {}", head.status);
        Ok(())
    };
    let floor = audience(&at_fan, &request, fan.meter(), subscribers, begin).await?;

    let replayed = replay::long_run(&server.target, meter, bench.effort.of(100)).await?;
    drop(server);
    bench.place.clear("w7");
    Ok(judged(&ours, &floor, replayed, subscribers))
}

fn judged(
    ours: &Audience,
    floor: &Audience,
    replayed: replay::Replay,
    subscribers: u64,
) -> Vec<Row> {
    vec![
        Row::beside(
            "W7",
            format!("CPU per event and subscriber, {subscribers} subscribers"),
            "µs",
            (ours.cpu_per_delivery(), floor.cpu_per_delivery()),
            Goal::RatioAtMost(2.0),
        ),
        Row::alone(
            "W7",
            format!("memory per subscriber, {subscribers} subscribers"),
            "KiB",
            ours.memory / subscribers as f64 / 1024.0,
            Goal::Told,
        ),
        errors(
            "W7",
            &format!("{subscribers} subscribers"),
            &[&ours.outcome, &floor.outcome],
        ),
        Row::alone(
            "W7",
            "replay of a finished run of 10,000 events, per core",
            "events/s",
            replayed.per_core(),
            Goal::AtLeast(100_000.0),
        ),
        Row::alone(
            "W7",
            "replay of a finished run of 10,000 events",
            "events/s",
            replayed.per_second(),
            Goal::Told,
        ),
    ]
}

struct Audience {
    outcome: Outcome,
    events: u64,
    cpu: f64,
    memory: f64,
}

impl Audience {
    fn cpu_per_delivery(&self) -> f64 {
        let deliveries = self.events * self.outcome.shots.len() as u64;
        self.cpu / deliveries as f64 * 1e6
    }
}

/// Lets all subscribe, then begins, and measures from there to the end of the last stream.
async fn audience(
    target: &Target,
    request: &[u8],
    meter: Meter,
    subscribers: u64,
    begin: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Audience> {
    let empty = meter.resident()?;
    let arrived = Rc::new((Cell::new(0_u64), Notify::new()));
    let request: Rc<[u8]> = request.into();
    let mut watchers = JoinSet::new();
    for _ in 0..subscribers {
        let (address, request) = (target.address(), Rc::clone(&request));
        let arrived = Rc::clone(&arrived);
        watchers.spawn_local(async move {
            let watched = watch(Connection::new(address), &request, &arrived);
            let ended = tokio::time::timeout(WATCHED_AT_MOST, watched).await;
            ended.unwrap_or_else(|_| anyhow::bail!("a stream took more than {WATCHED_AT_MOST:?}"))
        });
    }
    let all_there = async {
        while arrived.0.get() < subscribers {
            arrived.1.notified().await;
        }
    };
    if tokio::time::timeout(ARRIVALS_WITHIN, all_there)
        .await
        .is_err()
    {
        anyhow::bail!(
            "only {} of {subscribers} could subscribe in time",
            arrived.0.get()
        );
    }
    let memory = meter.resident()? - empty;
    let before = meter.cpu()?;
    begin().await?;
    let mut outcome = Outcome::default();
    let mut events = 0;
    while let Some(ended) = watchers.join_next().await {
        let ended = ended.map_err(anyhow::Error::from).and_then(|ended| ended);
        outcome.count(ended.and_then(|watch| {
            events = events.max(watch.events());
            watch.close(TOKENS)
        }));
    }
    Ok(Audience {
        outcome,
        events,
        cpu: meter.cpu()? - before,
        memory,
    })
}

async fn watch(
    mut connection: Connection,
    request: &[u8],
    arrived: &(Cell<u64>, Notify),
) -> anyhow::Result<Watch> {
    let head = connection.ask(request).await?;
    anyhow::ensure!(
        head.status == 200,
        "the stream was refused: {}",
        head.status
    );
    arrived.0.set(arrived.0.get() + 1);
    arrived.1.notify_one();
    let mut frames = Frames::default();
    let mut watch = Watch::new(Instant::now());
    connection
        .body(head, |piece| frames.push(piece, |frame| watch.see(frame)))
        .await?;
    Ok(watch)
}
