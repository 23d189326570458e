//! The parent's side: starts a child, answers what it asks for, and makes sure that it ends.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::BufReader;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::wire::{self, Done, Ended, FetchAnswer, Fetched, Job, Said};
use super::{SandboxProgram, fetch};
use crate::outbound::Outbound;

/// How much longer than its own clock a child may live: for starting, and for code that no clock interrupts.
const OVERTIME: Duration = Duration::from_millis(1500);

/// How long a child that has said its last word, or was killed, may take to be gone.
const END: Duration = Duration::from_secs(5);

/// Requests of one call, and how many of them at once.
const MAX_FETCHES: usize = 64;
const MAX_FETCHES_AT_ONCE: usize = 8;

/// Refusals are told so often; then the child is a flood.
const MAX_ASKED: usize = 1024;

/// Runs a job to its end. The child is killed when this is dropped.
pub(super) async fn run(
    program: &SandboxProgram,
    job: &Job,
    outbound: Option<&Outbound>,
) -> Result<Done, String> {
    let deadline = Instant::now() + Duration::from_millis(job.timeout_ms) + OVERTIME;
    let mut child = spawn(program, job).map_err(|error| {
        tracing::error!(%error, program = %program.program.display(), "a sandbox cannot be started");
        "the sandbox cannot be started".to_owned()
    })?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the sandbox has no pipes".to_owned());
    };
    let talking = talk(job, outbound, input, output);
    let done = match tokio::time::timeout_at(deadline, talking).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Some(error)),
        Err(_) => {
            let _ = child.start_kill();
            Err(None)
        }
    };
    let status = tokio::time::timeout(END, child.wait()).await;
    match done {
        Ok(done) => Ok(done),
        Err(None) => Ok(only(Ended::OutOfTime)),
        Err(Some(error)) => match status {
            Ok(Ok(status)) => Ok(only(post_mortem(status, &error))),
            _ => Err(format!("the sandbox broke ({error})")),
        },
    }
}

fn spawn(program: &SandboxProgram, job: &Job) -> io::Result<Child> {
    // The processor's time is bounded a little above the clock's: the clock is to be first.
    let seconds = (job.timeout_ms + 2000).div_ceil(1000);
    Command::new(&program.program)
        .args(&program.arguments)
        .args([job.memory_mb.to_string(), seconds.to_string()])
        .env_clear()
        // The allocator sets a gigabyte aside at its start, which no limit that comes later would count.
        .env("MIMALLOC_ARENA_RESERVE", "0")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Gives the job and answers requests until the child has said how it ended. Reading and writing go on beside each other: both
/// pipes may be full at once.
async fn talk(
    job: &Job,
    outbound: Option<&Outbound>,
    mut input: ChildStdin,
    output: ChildStdout,
) -> io::Result<Done> {
    let (answers, mut unsent) = mpsc::unbounded_channel();
    let writing = async {
        wire::send(&mut input, job).await?;
        while let Some(fetched) = unsent.recv().await {
            wire::send(&mut input, &fetched).await?;
        }
        io::Result::Ok(())
    };
    tokio::select! {
        done = listen(outbound, output, answers) => done,
        // A child that does not read any more may still have said its last word: only reading tells.
        never = async { drop(writing.await); std::future::pending().await } => never,
    }
}

async fn listen(
    outbound: Option<&Outbound>,
    output: ChildStdout,
    answers: mpsc::UnboundedSender<Fetched>,
) -> io::Result<Done> {
    // A message must not be dropped half-way, so that each is read by a future that lives as long as it takes.
    let messages = futures_util::stream::unfold(BufReader::new(output), |mut output| async {
        let said = wire::receive::<Said>(&mut output).await;
        Some((said, output))
    });
    let mut messages = std::pin::pin!(messages);
    let (mut running, mut waiting) = (FuturesUnordered::new(), VecDeque::new());
    let mut asked = 0_usize;
    loop {
        while running.len() < MAX_FETCHES_AT_ONCE
            && let Some(outbound) = outbound
            && let Some(request) = waiting.pop_front()
        {
            running.push(fetch::fetch(outbound, request));
        }
        tokio::select! {
            said = messages.next() => match said.transpose()? {
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(Said::Done(done)) => return Ok(done),
                Some(Said::Fetch(request)) => {
                    asked += 1;
                    if asked > MAX_ASKED {
                        return Err(io::Error::other("it does not stop asking for requests"));
                    }
                    if outbound.is_none() || asked > MAX_FETCHES {
                        let _ = answers.send(refusal(request.id, outbound));
                    } else {
                        waiting.push_back(request);
                    }
                }
            },
            Some(fetched) = running.next() => drop(answers.send(fetched)),
        }
    }
}

fn refusal(id: u32, outbound: Option<&Outbound>) -> Fetched {
    let error = match outbound {
        None => {
            "this tool may not make requests: its definition does not say allowFetch".to_owned()
        }
        Some(_) => format!("one call makes at most {MAX_FETCHES} requests"),
    };
    let answer = FetchAnswer::Failed { error };
    Fetched { id, answer }
}

fn only(ended: Ended) -> Done {
    Done {
        ended,
        console: String::new(),
    }
}

/// What a child died of that could not say so itself.
fn post_mortem(status: std::process::ExitStatus, error: &io::Error) -> Ended {
    match signal(status) {
        // SIGXCPU, and SIGKILL at the hard limit.
        Some(24 | 9) => Ended::OutOfTime,
        // An allocation that fails aborts; so does the kernel's last word on a stack.
        Some(6 | 11) => Ended::OutOfMemory,
        _ => Ended::Broken {
            message: format!("{status}, {error}"),
        },
    }
}

#[cfg(unix)]
fn signal(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: std::process::ExitStatus) -> Option<i32> {
    None
}
