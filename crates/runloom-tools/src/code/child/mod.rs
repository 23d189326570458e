//! The child's side: limits the process, then reads and runs the code.

#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
mod seccomp;

mod engine;
#[cfg(test)]
mod engine_tests;
mod limits;

use std::io::{self, StdinLock, StdoutLock};

use super::wire::{
    self, CodeEnd, CodeJob, CodeResult, FetchRequest, FetchResponse, SandboxMessage,
};
use engine::ParentLink;

/// Turns this process into a sandbox: limits it to `memory_mb` and `cpu_seconds`, runs the job from standard input and
/// writes the result to standard output. Must be called first in a process that does nothing else.
///
/// # Errors
/// A pipe broke.
pub fn sandbox(memory_mb: u32, cpu_seconds: u64) -> io::Result<()> {
    let limited = limits::apply(memory_mb, cpu_seconds);
    let mut pipes = ParentPipes {
        input: io::stdin().lock(),
        output: io::stdout().lock(),
    };
    let job: CodeJob = wire::read(&mut pipes.input)?;
    let result = match limited {
        Ok(()) => engine::run(&job, &mut pipes),
        // Without its limits the code is not run.
        Err(message) => CodeResult {
            end: CodeEnd::SandboxFailed { message },
            console: String::new(),
        },
    };
    wire::write(&mut pipes.output, &SandboxMessage::Done(result))
}

struct ParentPipes {
    input: StdinLock<'static>,
    output: StdoutLock<'static>,
}

impl ParentLink for ParentPipes {
    fn request(&mut self, request: FetchRequest) -> io::Result<()> {
        wire::write(&mut self.output, &SandboxMessage::Fetch(request))
    }

    fn response(&mut self) -> io::Result<FetchResponse> {
        wire::read(&mut self.input)
    }
}
