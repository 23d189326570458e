//! Code tools: JavaScript in a process of its own, started for one call and gone with it.
//!
//! The engine runs in a child of this program that has no environment, no descriptors but its pipes, and limits on memory, time,
//! files and processes which it sets before it reads the code. The child asks for requests over its pipe; the parent makes
//! them through the guard. Nothing of one call is there in the next.
//!
//! Reading order: [`Sandbox::run`], `wire` (what both say), `fetch` (requests that the code makes), [`sandbox`] (the child).

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

use crate::action::Secrets;
use crate::content::{self, Content};
use crate::host::ToolLimits;
use crate::outbound::Outbound;
use crate::places::Places;

use wire::{Done, Ended, Job};

pub use child::sandbox;

/// The program that becomes the child: it must call [`sandbox`] and nothing else when it is started like this.
#[derive(Debug, Clone)]
pub struct SandboxProgram {
    /// What is started.
    pub program: PathBuf,
    /// Arguments before the sandbox's own.
    pub arguments: Vec<String>,
}

impl SandboxProgram {
    /// This program itself, with a word that makes it a sandbox.
    ///
    /// # Errors
    /// When the system does not tell where this program is.
    pub fn this_program(word: &str) -> std::io::Result<Self> {
        // On Linux this is the running image, even when an upgrade has replaced the file.
        let image = PathBuf::from("/proc/self/exe");
        let program = if cfg!(target_os = "linux") && image.exists() {
            image
        } else {
            std::env::current_exe()?
        };
        Ok(Self {
            program,
            arguments: vec![word.to_owned()],
        })
    }
}

/// Runs a program of one number, to see whether sandboxes work on this system.
///
/// # Errors
/// What does not work.
pub async fn probe(program: &SandboxProgram) -> Result<(), String> {
    let job = Job {
        source: "return 1".to_owned(),
        arguments: serde_json::json!({}),
        tool_use_id: "probe".to_owned(),
        secrets: std::collections::BTreeMap::new(),
        timeout_ms: 5000,
        memory_mb: 16,
        max_output_bytes: 16,
        allow_fetch: false,
    };
    match process::run(program, &job, None).await?.ended {
        Ended::Result { text, .. } if text == "1" => Ok(()),
        Ended::Broken { message } => Err(message),
        other => Err(format!("it ended unexpectedly: {other:?}")),
    }
}

/// How much longer than its tool's time a call may take: a child that was killed for it is still to be heard and buried.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// One call of a code tool.
#[derive(Clone, Copy)]
pub(crate) struct Script<'a> {
    pub(crate) code: &'a CodeCall,
    pub(crate) within: Duration,
    pub(crate) call: &'a Invocation,
    pub(crate) secrets: &'a Secrets,
}

/// Runs code tools.
pub(crate) struct Sandbox {
    program: SandboxProgram,
    outbound: Outbound,
    places: Places,
    /// The operator is told once of sandboxes that break, and the model each time.
    told: Once,
}

impl Sandbox {
    /// No process is started before the first call.
    pub(crate) fn new(program: SandboxProgram, outbound: Outbound, limits: &ToolLimits) -> Self {
        Self {
            program,
            outbound,
            places: Places::new(limits.max_sandboxes, limits.max_workspace_sandboxes),
            told: Once::new(),
        }
    }

    /// Runs the code to its end. Dropping the future kills the process.
    ///
    /// # Errors
    /// Why it has no result, in words for a model and without secrets.
    pub(crate) async fn run(&self, workspace: &str, script: Script<'_>) -> Result<Outcome, String> {
        let begun = Instant::now();
        let waiting = tokio::time::timeout(script.within, self.places.take(workspace));
        let Ok(_place) = waiting.await else {
            return Err("too many code tools run at once; try again later".to_owned());
        };
        let left = script.within.saturating_sub(begun.elapsed());
        let CodeCall {
            memory_mb,
            max_output_bytes,
            allow_fetch,
            ..
        } = *script.code;
        let secrets = script.secrets.iter();
        let job = Job {
            source: script.code.source.clone(),
            arguments: script.call.input.clone(),
            tool_use_id: script.call.tool_use_id.clone(),
            secrets: secrets
                .map(|(name, clear)| (name.to_owned(), clear.to_owned()))
                .collect(),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            memory_mb,
            max_output_bytes,
            allow_fetch,
        };
        let outbound = allow_fetch.then_some(&self.outbound);
        let done = process::run(&self.program, &job, outbound).await?;
        if let Ended::Broken { message } = &done.ended {
            self.told.call_once(|| {
                tracing::warn!(%message, "the sandbox of a code tool broke; `runloom doctor` says whether code tools can run here (told once)");
            });
        }
        outcome(done, &script)
    }
}

fn outcome(done: Done, script: &Script<'_>) -> Result<Outcome, String> {
    let why = match done.ended {
        Ended::Result { text, left_out: 0 } => {
            let mut content = Content::new();
            content.text(&script.secrets.redact(text));
            return Ok(content.success());
        }
        Ended::Result { text, left_out } => {
            let mut content = Content::new();
            content.text(&script.secrets.redact_cut(text));
            content.text(&format!(
                "[cut: {left_out} more bytes were left out; the tool's limit is {} bytes]",
                script.code.max_output_bytes
            ));
            return Ok(content.success());
        }
        Ended::Exception {
            message,
            line: Some(line),
        } => format!("{} (line {line})", message.trim_end_matches('.')),
        Ended::Exception {
            message,
            line: None,
        } => message.trim_end_matches('.').to_owned(),
        Ended::OutOfTime => format!("it did not end within {:?}", script.within),
        Ended::OutOfMemory => {
            let limit = script.code.memory_mb;
            format!("it used up its memory of {limit} MB")
        }
        Ended::NeverSettles => "it waits for a promise that nothing will ever settle".to_owned(),
        Ended::Broken { message } => format!("the sandbox could not be set up: {message}"),
    };
    let console = script.secrets.redact(done.console);
    Err(script.secrets.redact(match console.trim_end() {
        "" => why,
        console => format!("{why}. It wrote:\n{}\n", content::cut(console, 2048)),
    }))
}
