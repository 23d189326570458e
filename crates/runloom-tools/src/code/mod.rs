//! Code tools: JavaScript in a sandbox process that is started for one call and ends with it.
//!
//! The engine runs in a child of this program without environment variables and without descriptors except its pipes.
//! The child limits its memory, time, files and processes before it reads the code. It sends `fetch` requests over its
//! pipe, and the parent makes them through the guarded client. Calls share no state.
//!
//! Reading order: [`Sandbox::run`], `wire` (messages), `fetch` (requests of the code), [`sandbox`] (the child).

mod child;
mod fetch;
mod process;
mod wire;

use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use runloom_ports::tools::{Invocation, Outcome};
use runloom_protocol::definition::CodeCall;
use tokio::time::Instant;

use crate::call_secrets::CallSecrets;
use crate::content::{self, ResultContent};
use crate::outbound::Outbound;
use crate::tool_limits::ToolLimits;
use crate::workspace_limits::{Capacity, WorkspaceLimits};

use wire::{CodeEnd, CodeJob, CodeResult};

pub use child::sandbox;

/// The program of the sandbox process. Started with these arguments, it must call [`sandbox`] and nothing else.
#[derive(Debug, Clone)]
pub struct SandboxProgram {
    /// Path of the executable.
    pub program: PathBuf,
    /// Arguments before the sandbox's own.
    pub arguments: Vec<String>,
}

impl SandboxProgram {
    /// This program itself, with the subcommand that starts a sandbox.
    ///
    /// # Errors
    /// The path of this program cannot be determined.
    pub fn this_program(subcommand: &str) -> std::io::Result<Self> {
        // On Linux this is the running image, even after an upgrade replaced the file.
        let image = PathBuf::from("/proc/self/exe");
        let program = if cfg!(target_os = "linux") && image.exists() {
            image
        } else {
            std::env::current_exe()?
        };
        Ok(Self {
            program,
            arguments: vec![subcommand.to_owned()],
        })
    }
}

/// Runs a trivial script, to check whether sandboxes work on this system.
///
/// # Errors
/// The reason, for display.
pub async fn probe(program: &SandboxProgram) -> Result<(), String> {
    let job = CodeJob {
        source: "return 1".to_owned(),
        arguments: serde_json::json!({}),
        tool_use_id: "probe".to_owned(),
        secrets: std::collections::BTreeMap::new(),
        timeout_ms: 5000,
        memory_mb: 16,
        max_output_bytes: 16,
        allow_fetch: false,
    };
    match process::run(program, &job, None).await?.end {
        CodeEnd::Result { text, .. } if text == "1" => Ok(()),
        CodeEnd::SandboxFailed { message } => Err(message),
        other => Err(format!("it ended unexpectedly: {other:?}")),
    }
}

/// Added to a tool's timeout, for the end of a sandbox that was killed at its timeout.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Maximum bytes of console output in an error message.
const MAX_CONSOLE_BYTES: usize = 2048;

/// One call of a code tool.
#[derive(Clone, Copy)]
pub(crate) struct CodeRun<'a> {
    pub(crate) code: &'a CodeCall,
    pub(crate) timeout: Duration,
    pub(crate) call: &'a Invocation,
    pub(crate) secrets: &'a CallSecrets,
}

/// Runs code tools.
pub(crate) struct Sandbox {
    program: SandboxProgram,
    outbound: Outbound,
    limits: WorkspaceLimits,
    /// A failure of the sandbox itself is logged once.
    failure_logged: Once,
}

impl Sandbox {
    /// Starts no process before the first call.
    pub(crate) fn new(program: SandboxProgram, outbound: Outbound, limits: &ToolLimits) -> Self {
        Self {
            program,
            outbound,
            limits: WorkspaceLimits::new(Capacity {
                total: limits.max_sandboxes,
                per_workspace: limits.max_workspace_sandboxes,
            }),
            failure_logged: Once::new(),
        }
    }

    /// Runs the code to its end. Dropping the future kills the process.
    ///
    /// # Errors
    /// A message for the model, without secrets.
    pub(crate) async fn run(&self, workspace: &str, run: CodeRun<'_>) -> Result<Outcome, String> {
        let begun = Instant::now();
        let waiting = tokio::time::timeout(run.timeout, self.limits.acquire(workspace));
        let Ok(_permit) = waiting.await else {
            return Err("too many code tools run at once; try again later".to_owned());
        };
        let remaining = run.timeout.saturating_sub(begun.elapsed());
        let CodeCall {
            memory_mb,
            max_output_bytes,
            allow_fetch,
            ..
        } = *run.code;
        let secrets = run.secrets.iter();
        let job = CodeJob {
            source: run.code.source.clone(),
            arguments: run.call.input.clone(),
            tool_use_id: run.call.tool_use_id.clone(),
            secrets: secrets
                .map(|(name, clear)| (name.to_owned(), clear.to_owned()))
                .collect(),
            timeout_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
            memory_mb,
            max_output_bytes,
            allow_fetch,
        };
        let outbound = allow_fetch.then_some(&self.outbound);
        let result = process::run(&self.program, &job, outbound).await?;
        if let CodeEnd::SandboxFailed { message } = &result.end {
            self.failure_logged.call_once(|| {
                tracing::warn!(%message, "sandbox of a code tool failed; run `runloom doctor` (logged once)");
            });
        }
        outcome(result, &run)
    }
}

fn outcome(result: CodeResult, run: &CodeRun<'_>) -> Result<Outcome, String> {
    let reason = match result.end {
        CodeEnd::Result {
            text,
            omitted_bytes: 0,
        } => {
            let mut content = ResultContent::new();
            content.text(&run.secrets.redact(text));
            return Ok(content.success());
        }
        CodeEnd::Result {
            text,
            omitted_bytes,
        } => {
            let mut content = ResultContent::new();
            content.text(&run.secrets.redact_truncated(text));
            content.text(&format!(
                "[truncated: {omitted_bytes} more bytes were omitted; the tool's limit is {} bytes]",
                run.code.max_output_bytes
            ));
            return Ok(content.success());
        }
        CodeEnd::Exception {
            message,
            line: Some(line),
        } => format!("{} (line {line})", message.trim_end_matches('.')),
        CodeEnd::Exception {
            message,
            line: None,
        } => message.trim_end_matches('.').to_owned(),
        CodeEnd::OutOfTime => format!("it did not end within {:?}", run.timeout),
        CodeEnd::OutOfMemory => {
            let limit = run.code.memory_mb;
            format!("it exceeded its memory limit of {limit} MB")
        }
        CodeEnd::NeverSettles => "it waits for a promise that can never settle".to_owned(),
        CodeEnd::SandboxFailed { message } => {
            format!("the sandbox could not be set up: {message}")
        }
    };
    let console = run.secrets.redact(result.console);
    Err(run.secrets.redact(match console.trim_end() {
        "" => reason,
        console => {
            let console = content::truncate(console, MAX_CONSOLE_BYTES);
            format!("{reason}. Console output:\n{console}\n")
        }
    }))
}
