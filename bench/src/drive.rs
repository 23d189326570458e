//! The load: runs against Runloom, a floor or the provider itself, each checked to be complete.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::outcome::{Outcome, Shot};
use crate::script::own_time;
use crate::wire::{Connection, Frame, Frames};

/// One run may take this long, whatever it waits for.
const RUN_AT_MOST: Duration = Duration::from_secs(180);

/// Whom the load is for.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The provider or the floor: one request, its answer is the stream.
    Plain(SocketAddr),
    /// Runloom: the run is posted, then its stream is read.
    Runloom {
        address: SocketAddr,
        workspace: String,
        key: String,
    },
}

/// A run that is ready to be sent any number of times.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    request: Vec<u8>,
    /// So many pieces of text must come.
    pub(crate) tokens: u64,
}

impl Target {
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Plain(address) | Self::Runloom { address, .. } => *address,
        }
    }

    /// A run of one prompt.
    pub(crate) fn job(&self, model: &str, prompt: &str, tokens: u64) -> Job {
        let (path, body) = match self {
            Self::Plain(_) => (
                "/v1/responses".to_owned(),
                serde_json::json!({"model": model, "stream": true, "input": prompt}),
            ),
            Self::Runloom { .. } => {
                return self.run_of(model, prompt, serde_json::json!({}), tokens);
            }
        };
        self.posting(&path, body.to_string().as_bytes(), tokens)
    }

    /// A run of Runloom with more in its request than a prompt.
    pub(crate) fn run_of(&self, model: &str, prompt: &str, mut body: Value, tokens: u64) -> Job {
        let workspace = match self {
            Self::Plain(_) => "",
            Self::Runloom { workspace, .. } => workspace,
        };
        body["modelId"] = format!("provider:script:{model}").into();
        body["systemPrompt"] = "Answer.".into();
        body["prompt"] = prompt.into();
        let path = format!("/api/v1/workspaces/{workspace}/agent-runs");
        self.posting(&path, body.to_string().as_bytes(), tokens)
    }

    /// A run by a body that is already there.
    pub(crate) fn posting(&self, path: &str, body: &[u8], tokens: u64) -> Job {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.credential(),
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Job { request, tokens }
    }

    /// The bytes of a `GET`.
    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nhost: bench\r\n{}\r\n",
            self.credential()
        )
        .into_bytes()
    }

    /// Where a run of this workspace is streamed from.
    pub(crate) fn stream_of(&self, run: &str) -> Vec<u8> {
        let workspace = match self {
            Self::Plain(_) => "",
            Self::Runloom { workspace, .. } => workspace,
        };
        self.get(&format!(
            "/api/v1/workspaces/{workspace}/agent-runs/{run}/stream"
        ))
    }

    fn credential(&self) -> String {
        match self {
            Self::Plain(_) => String::new(),
            Self::Runloom { key, .. } => format!("authorization: Bearer {key}\r\n"),
        }
    }
}

impl Job {
    pub(crate) fn request(&self) -> &[u8] {
        &self.request
    }
}

/// Sends `runs` runs, at most `at_once` of them at a time, each client on a connection of its own.
pub(crate) async fn load(target: &Target, job: &Job, runs: u64, at_once: u64) -> Outcome {
    let left = Rc::new(Cell::new(runs));
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..at_once.min(runs) {
        let (target, job, left) = (target.clone(), job.clone(), Rc::clone(&left));
        clients.spawn_local(async move {
            let mut outcome = Outcome::default();
            let mut connection = Connection::new(target.address());
            while left.get() > 0 {
                left.set(left.get() - 1);
                outcome.count(shoot(&target, &job, &mut connection).await);
            }
            outcome
        });
    }
    let mut whole = gather(clients).await;
    whole.elapsed = begun.elapsed();
    whole
}

/// Sends `runs` runs of each job, one after the other, for at most `at_once` jobs at a time, each client on a connection of its
/// own.
pub(crate) async fn load_each(target: &Target, jobs: &[Job], runs: u64, at_once: u64) -> Outcome {
    let left = Rc::new(RefCell::new(jobs.to_vec()));
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..at_once {
        let (target, left) = (target.clone(), Rc::clone(&left));
        clients.spawn_local(async move {
            let mut outcome = Outcome::default();
            let mut connection = Connection::new(target.address());
            let next = || left.borrow_mut().pop();
            while let Some(job) = next() {
                for _ in 0..runs {
                    outcome.count(shoot(&target, &job, &mut connection).await);
                }
            }
            outcome
        });
    }
    let mut whole = gather(clients).await;
    whole.elapsed = begun.elapsed();
    whole
}

/// Starts one run after the other, `pace` apart, and lets them all go on beside each other.
pub(crate) async fn burst(target: &Target, job: &Job, runs: u64, pace: Duration) -> Outcome {
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    let mut due = tokio::time::Instant::now();
    for _ in 0..runs {
        let (target, job) = (target.clone(), job.clone());
        clients.spawn_local(async move {
            let mut outcome = Outcome::default();
            let mut connection = Connection::new(target.address());
            outcome.count(shoot(&target, &job, &mut connection).await);
            outcome
        });
        due += pace;
        tokio::time::sleep_until(due).await;
    }
    let mut whole = gather(clients).await;
    whole.elapsed = begun.elapsed();
    whole
}

/// Waits for all clients and adds up what they saw.
pub(crate) async fn gather(mut clients: JoinSet<Outcome>) -> Outcome {
    let mut whole = Outcome::default();
    while let Some(ended) = clients.join_next().await {
        match ended {
            Ok(outcome) => whole.add(outcome),
            Err(error) => whole.count(Err(error.into())),
        }
    }
    whole
}

/// One run, from the request to the terminal event.
pub(crate) async fn shoot(
    target: &Target,
    job: &Job,
    connection: &mut Connection,
) -> anyhow::Result<Shot> {
    let run = tokio::time::timeout(RUN_AT_MOST, follow(target, job, connection)).await;
    let shot = run.unwrap_or_else(|_| anyhow::bail!("a run took more than {RUN_AT_MOST:?}"));
    if shot.is_err() {
        connection.forget();
    }
    shot
}

async fn follow(target: &Target, job: &Job, connection: &mut Connection) -> anyhow::Result<Shot> {
    let begun = Instant::now();
    let head = match target {
        Target::Plain(_) => connection.ask(&job.request).await?,
        Target::Runloom { .. } => {
            let run = start(job, connection).await?;
            connection.ask(&target.stream_of(&run)).await?
        }
    };
    if head.status != 200 {
        let body = connection.whole(head).await?;
        let body = String::from_utf8_lossy(&body).into_owned();
        anyhow::bail!("the stream was refused with {}: {body}", head.status);
    }
    let mut frames = Frames::default();
    let mut watch = Watch::new(begun);
    connection
        .body(head, |piece| frames.push(piece, |frame| watch.see(frame)))
        .await?;
    watch.close(job.tokens)
}

/// Posts a run and answers its id.
pub(crate) async fn start(job: &Job, connection: &mut Connection) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Started {
        run_id: String,
    }
    let head = connection.ask(&job.request).await?;
    let body = connection.whole(head).await?;
    if head.status != 202 {
        let body = String::from_utf8_lossy(&body).into_owned();
        anyhow::bail!("the run was refused with {}: {body}", head.status);
    }
    let started: Started = serde_json::from_slice(&body).context("a strange answer to a run")?;
    Ok(started.run_id)
}

/// Follows one stream: its times, and whether it is whole.
#[derive(Debug)]
pub(crate) struct Watch {
    begun: Instant,
    deltas: u64,
    last_id: u64,
    first: Option<Duration>,
    own: Duration,
    end: Option<Duration>,
}

impl Watch {
    pub(crate) fn new(begun: Instant) -> Self {
        Self {
            begun,
            deltas: 0,
            last_id: 0,
            first: None,
            own: Duration::ZERO,
            end: None,
        }
    }

    /// Looks at one event, of the provider's or of Runloom's.
    pub(crate) fn see(&mut self, frame: Frame<'_>) -> anyhow::Result<()> {
        if let Some(id) = frame.id {
            anyhow::ensure!(id == self.last_id + 1, "event {id} after {}", self.last_id);
            self.last_id = id;
        }
        match frame.event {
            b"assistant_delta" | b"response.output_text.delta" => {
                if self.deltas == 0 {
                    self.first = Some(self.begun.elapsed());
                    self.own = own_time(frame.data).unwrap_or_default();
                }
                self.deltas += 1;
            }
            b"result" | b"response.completed" => self.end = Some(self.begun.elapsed()),
            b"error" | b"cancelled" => {
                anyhow::bail!("the run failed: {}", String::from_utf8_lossy(frame.data));
            }
            _ => {}
        }
        Ok(())
    }

    /// How many events came, as their numbers say.
    pub(crate) fn events(&self) -> u64 {
        self.last_id
    }

    /// The stream has ended: was it whole?
    pub(crate) fn close(&self, tokens: u64) -> anyhow::Result<Shot> {
        let to_end = self
            .end
            .context("the stream ended without a terminal event")?;
        anyhow::ensure!(
            self.deltas == tokens,
            "{} pieces of text came, not {tokens}",
            self.deltas
        );
        Ok(Shot {
            to_first: self.first.unwrap_or(to_end),
            own: self.own,
            to_end,
        })
    }
}
