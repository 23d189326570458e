//! The parent's side: starts the sandbox process, serves its requests, and ensures that it ends.

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

use super::wire::{
    self, CodeEnd, CodeJob, CodeResult, FetchRequest, FetchResponse, FetchResult, SandboxMessage,
};
use super::{SandboxProgram, fetch};
use crate::outbound::Outbound;

/// Added to the child's own timeout, for its start and for code that its clock does not interrupt.
const OVERTIME: Duration = Duration::from_millis(1500);

/// Timeout of waiting for the exit of a child that has sent its result or was killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum requests of one call, in total and at once.
const MAX_FETCHES: usize = 64;
const MAX_CONCURRENT_FETCHES: usize = 8;

/// Maximum requests including refused ones; a child that sends more is stopped.
const MAX_FETCH_ATTEMPTS: usize = 1024;

/// Runs a job to its end. Dropping the future kills the child.
pub(super) async fn run(
    program: &SandboxProgram,
    job: &CodeJob,
    outbound: Option<&Outbound>,
) -> Result<CodeResult, String> {
    let deadline = Instant::now() + Duration::from_millis(job.timeout_ms) + OVERTIME;
    let mut child = spawn(program, job).map_err(|error| {
        tracing::error!(%error, program = %program.program.display(), "sandbox cannot be started");
        "the sandbox cannot be started".to_owned()
    })?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the sandbox has no pipes".to_owned());
    };
    let serving = serve(job, outbound, input, output);
    let served = match tokio::time::timeout_at(deadline, serving).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(Some(error)),
        Err(_) => {
            let _ = child.start_kill();
            Err(None)
        }
    };
    let status = tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await;
    match served {
        Ok(result) => Ok(result),
        Err(None) => Ok(without_console(CodeEnd::OutOfTime)),
        Err(Some(error)) => match status {
            Ok(Ok(status)) => Ok(without_console(end_of_dead_child(status, &error))),
            Ok(Err(_)) | Err(_) => Err(format!("the sandbox failed ({error})")),
        },
    }
}

fn spawn(program: &SandboxProgram, job: &CodeJob) -> io::Result<Child> {
    // The limit of CPU time is a little longer than the timeout, which has the better message.
    let seconds = (job.timeout_ms + 2000).div_ceil(1000);
    Command::new(&program.program)
        .args(&program.arguments)
        .args([job.memory_mb.to_string(), seconds.to_string()])
        .env_clear()
        // The allocator reserves a gigabyte at its start otherwise, before the limits are set.
        .env("MIMALLOC_ARENA_RESERVE", "0")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Sends the job and serves requests until the child sends its result. Reads and writes concurrently, because both
/// pipes may be full at once.
async fn serve(
    job: &CodeJob,
    outbound: Option<&Outbound>,
    mut input: ChildStdin,
    output: ChildStdout,
) -> io::Result<CodeResult> {
    let (responses, mut unsent) = mpsc::unbounded_channel();
    let writing = async {
        wire::send(&mut input, job).await?;
        while let Some(response) = unsent.recv().await {
            wire::send(&mut input, &response).await?;
        }
        io::Result::Ok(())
    };
    tokio::select! {
        result = read_messages(outbound, output, responses) => result,
        // After a write error the child may still have sent its result, so only reading ends the loop.
        never = async { drop(writing.await); std::future::pending().await } => never,
    }
}

async fn read_messages(
    outbound: Option<&Outbound>,
    output: ChildStdout,
    responses: mpsc::UnboundedSender<FetchResponse>,
) -> io::Result<CodeResult> {
    // `receive` is not cancel-safe, so the stream keeps its future across iterations of the loop.
    let messages = futures_util::stream::unfold(BufReader::new(output), |mut output| async {
        let message = wire::receive::<SandboxMessage>(&mut output).await;
        Some((message, output))
    });
    let mut messages = std::pin::pin!(messages);
    let mut running = FuturesUnordered::new();
    let mut waiting: VecDeque<FetchRequest> = VecDeque::new();
    let mut attempts = 0_usize;
    loop {
        while running.len() < MAX_CONCURRENT_FETCHES
            && let Some(outbound) = outbound
            && let Some(request) = waiting.pop_front()
        {
            running.push(fetch::fetch(outbound, request));
        }
        tokio::select! {
            message = messages.next() => match message.transpose()? {
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(SandboxMessage::Done(result)) => return Ok(result),
                Some(SandboxMessage::Fetch(request)) => {
                    attempts += 1;
                    if attempts > MAX_FETCH_ATTEMPTS {
                        return Err(io::Error::other("it sends too many requests"));
                    }
                    if outbound.is_none() || attempts > MAX_FETCHES {
                        let _ = responses.send(refusal(request.id, outbound));
                    } else {
                        waiting.push_back(request);
                    }
                }
            },
            Some(response) = running.next() => drop(responses.send(response)),
        }
    }
}

fn refusal(id: u32, outbound: Option<&Outbound>) -> FetchResponse {
    let error = match outbound {
        None => {
            "this tool may not make requests: its definition does not set allowFetch".to_owned()
        }
        Some(_) => format!("one call makes at most {MAX_FETCHES} requests"),
    };
    let result = FetchResult::Failed { error };
    FetchResponse { id, result }
}

fn without_console(end: CodeEnd) -> CodeResult {
    CodeResult {
        end,
        console: String::new(),
    }
}

/// The end of a child that died before it sent a result.
fn end_of_dead_child(status: std::process::ExitStatus, error: &io::Error) -> CodeEnd {
    match signal(status) {
        // SIGXCPU, and SIGKILL at the hard limit.
        Some(24 | 9) => CodeEnd::OutOfTime,
        // SIGABRT after a failed allocation, SIGSEGV after a stack overflow.
        Some(6 | 11) => CodeEnd::OutOfMemory,
        _ => CodeEnd::SandboxFailed {
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
