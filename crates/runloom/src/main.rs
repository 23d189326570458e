//! The `runloom` program. Everything is in the library, so that tests can start it.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    runloom::main()
}
