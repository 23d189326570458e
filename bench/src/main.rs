//! The measurements of Runloom: one program with several faces, one per process that takes part.
//!
//! `run` is the conductor: it starts the scripted `provider`, the `floor`, the `fan` and the server under test as
//! processes of their own, drives load at them, reads their meters and writes the report. Not here: absolute limits.
//! Every figure is a ratio to a floor, or to ourselves at another size, of the same run.
//!
//! Reading order: `work` (the table of workloads), `drive` (load), `meter`, `server`, `child`, `report`; then the other
//! faces: `provider` with its `script`, `floor`, `fan`; `wire` is the HTTP below.

mod child;
mod drive;
mod fan;
mod floor;
mod meter;
mod options;
mod outcome;
mod provider;
mod report;
mod script;
mod server;
mod wire;
mod work;

#[cfg(test)]
mod smoke;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::SignalKind;
use tokio::task::LocalSet;

use options::{Face, USAGE};

/// Connections that wait to be accepted: thousands come at once.
const BACKLOG: u32 = 4_096;

/// The same allocator as the server's, so that the floor's memory is comparable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match options::read(&arguments).and_then(act) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("runloom-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn act(face: Face) -> anyhow::Result<()> {
    match face {
        Face::Help => {
            say(USAGE);
            Ok(())
        }
        Face::Run(options) => alone(async {
            // Dropping the work ends the processes that it has started.
            tokio::select! {
                done = work::run(&options) => done,
                told = told_to_stop() => told,
            }
        }),
        Face::Provider => {
            end_with_the_conductor();
            alone(async { provider::serve(listen()?).await })
        }
        Face::Fan => {
            end_with_the_conductor();
            alone(async { fan::serve(listen()?).await })
        }
        Face::Floor { provider } => {
            end_with_the_conductor();
            install_crypto();
            tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?
                .block_on(async { floor::serve(listen()?, &provider).await })
        }
    }
}

/// Runs on one thread: the driver and the provider must take little from the cores they share with the server.
fn alone(task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, task)
}

async fn told_to_stop() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    anyhow::bail!("told to stop")
}

fn listen() -> anyhow::Result<TcpListener> {
    let listener = (|| {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket.listen(BACKLOG)
    })()
    .context("cannot listen on loopback")?;
    say(&format!("{}{}", child::READY, listener.local_addr()?));
    Ok(listener)
}

/// The conductor holds the other end of standard input; when it is gone, however it ended, so are we.
fn end_with_the_conductor() {
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        #[expect(
            clippy::disallowed_methods,
            reason = "nothing here outlives the process: no data, no destructors that matter"
        )]
        std::process::exit(0);
    });
}

/// Loopback is in clear, but a client wants to know its cryptography all the same.
fn install_crypto() {
    // An error says that it is installed already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}

/// Prints a line; a reader that has gone is no reason to stop.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").ok();
    out.flush().ok();
}
