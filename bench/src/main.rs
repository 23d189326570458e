//! The benchmark of Runloom: one program with a role for each process that takes part.
//!
//! `run` starts the scripted `provider`, the `floor`, the `broadcast` floor and the server under test as processes of
//! their own, generates load, reads their CPU time and memory and writes the report. There are no absolute limits:
//! every judged time is a ratio to a floor, or to Runloom itself at another size, in the same run.
//!
//! Reading order: `workloads`, `load`, `stream_check`, `procfs`, `server`, `database`, `upstream`, `process`,
//! `report`; then the other roles: `provider` with `script` and `scripted_response`, `floor`, `broadcast`,
//! `decoding`; `http` is the HTTP/1.1 below.

mod broadcast;
mod database;
mod decoding;
mod floor;
mod http;
mod load;
mod load_result;
mod options;
mod process;
mod procfs;
mod provider;
mod report;
mod script;
mod scripted_response;
mod server;
mod stream_check;
mod target;
mod upstream;
mod workloads;

#[cfg(test)]
mod smoke;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::SignalKind;
use tokio::task::LocalSet;

use options::{Role, USAGE};
use upstream::Upstream;

/// Thousands of clients connect at the same time.
const BACKLOG: u32 = 4_096;

/// The server's allocator, so that the floor's memory is comparable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match options::parse(&arguments).and_then(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("runloom-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start(role: Role) -> anyhow::Result<()> {
    match role {
        Role::Help => {
            print_line(USAGE);
            Ok(())
        }
        Role::Run(options) => block_on_one_thread(async {
            // Dropping the workloads kills the processes that they started.
            tokio::select! {
                done = workloads::run(&options) => done,
                stopped = wait_for_signal() => stopped,
            }
        }),
        Role::Provider { upstream, ca_file } => {
            exit_with_parent();
            install_crypto();
            block_on_one_thread(run_provider(upstream, &ca_file))
        }
        Role::Broadcast => {
            exit_with_parent();
            block_on_one_thread(async { broadcast::serve(listen_and_announce()?).await })
        }
        Role::Floor(provider) => {
            exit_with_parent();
            install_crypto();
            tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?
                .block_on(async { floor::serve(listen_and_announce()?, &provider).await })
        }
        Role::Decode { provider, calls } => {
            install_crypto();
            block_on_one_thread(async {
                let costs = decoding::measure(&provider, calls).await?;
                print_line(&serde_json::to_string(&costs)?);
                Ok(())
            })
        }
    }
}

async fn run_provider(upstream: Upstream, ca_file: &Path) -> anyhow::Result<()> {
    let provider::ProviderTls { acceptor, ca_pem } = provider::create_tls(upstream.offered())?;
    std::fs::write(ca_file, ca_pem)
        .with_context(|| format!("cannot write {}", ca_file.display()))?;
    let tls = listen()?;
    print_line(&format!("{}{}", process::TLS_READY, tls.local_addr()?));
    let listeners = provider::Listeners {
        plain: listen_and_announce()?,
        tls,
        acceptor,
    };
    provider::serve(listeners).await
}

/// One thread: the load generator and the provider must take little CPU from the server.
fn block_on_one_thread(task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, task)
}

async fn wait_for_signal() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    anyhow::bail!("stopped by a signal")
}

fn listen() -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket.listen(BACKLOG)
    };
    listen().context("cannot listen on loopback")
}

fn listen_and_announce() -> anyhow::Result<TcpListener> {
    let listener = listen()?;
    print_line(&format!("{}{}", process::READY, listener.local_addr()?));
    Ok(listener)
}

/// Exits when standard input closes, which happens however the parent ends.
fn exit_with_parent() {
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        #[expect(
            clippy::disallowed_methods,
            reason = "the process has no data and no destructors that matter"
        )]
        std::process::exit(0);
    });
}

fn install_crypto() {
    // An error means that it is installed already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}

/// Prints a line. A closed standard output is not a reason to stop.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").ok();
    out.flush().ok();
}
