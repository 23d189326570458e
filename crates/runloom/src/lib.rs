//! The Runloom server and command line.
//!
//! The product is in the other crates. This one reads the configuration, connects the parts and has the command line.
//!
//! Reading order: [`config`] (settings), [`app`] (the parts connected: [`app::App`]), `cli` and `commands` (one file
//! per command), `connect` and `data_dir` (how client commands find a server), `output` (the only place that prints),
//! `exit` (exit codes), `plugin_folder` (plugins as folders), `shutdown`, `telemetry`.

pub mod app;
mod cli;
mod commands;
pub mod config;
mod config_file;
mod connect;
mod data_dir;
mod exit;
mod module_folder;
mod output;
mod plugin_folder;
mod render;
mod shutdown;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::{Exit, Failure};

/// A worker thread takes every second task from the global queue.
const GLOBAL_QUEUE_INTERVAL: u32 = 2;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are not failures; a closed pipe is not one either.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Ok
            }
            .into();
        }
    };
    // First of all: a sandbox has no threads, no TLS and no runtime.
    if let cli::Command::Sandbox {
        memory_mb,
        cpu_seconds,
    } = cli.command
    {
        let ended = runloom_tools::sandbox(memory_mb, cpu_seconds);
        return if ended.is_ok() {
            Exit::Ok
        } else {
            Exit::Failure
        }
        .into();
    }
    // Fails only when a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // With the default, tasks that the store's thread woke, or that overflowed a worker's own queue, may wait for
        // seconds while thousands of other tasks are ready.
        .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(cli::dispatch(cli.command)),
        Err(error) => Err(Failure::new(
            Exit::Failure,
            format!("cannot start: {error}"),
        )),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(message) = &failure.message {
                output::error(message);
            }
            failure.exit.into()
        }
    }
}
