//! The child's side: closes every door, then reads the code.

#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
mod calls;
mod engine;
#[cfg(test)]
mod engine_tests;
mod limits;

use std::io::{self, StdinLock, StdoutLock};

use super::wire::{self, Done, Ended, Fetch, Fetched, Job, Said};
use engine::Peer;

/// Becomes a sandbox: limits this process to `memory_mb` and `cpu_seconds`, runs the one job that comes over standard input and
/// says on standard output how it ended. To be called first thing in a process that does nothing else.
///
/// # Errors
/// When the pipes break.
pub fn sandbox(memory_mb: u32, cpu_seconds: u64) -> io::Result<()> {
    let closed = limits::close_doors(memory_mb, cpu_seconds);
    let mut pipes = Pipes {
        input: io::stdin().lock(),
        output: io::stdout().lock(),
    };
    let job: Job = wire::read(&mut pipes.input)?;
    let done = match closed {
        Ok(()) => engine::run(&job, &mut pipes),
        // Without its limits the code is not run at all.
        Err(message) => Done {
            ended: Ended::Broken { message },
            console: String::new(),
        },
    };
    wire::write(&mut pipes.output, &Said::Done(done))
}

struct Pipes {
    input: StdinLock<'static>,
    output: StdoutLock<'static>,
}

impl Peer for Pipes {
    fn ask(&mut self, fetch: Fetch) -> io::Result<()> {
        wire::write(&mut self.output, &Said::Fetch(fetch))
    }

    fn answer(&mut self) -> io::Result<Fetched> {
        wire::read(&mut self.input)
    }
}
