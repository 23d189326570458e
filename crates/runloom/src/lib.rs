//! The Runloom server and command line.
//!
//! Not here: the product. This crate reads the configuration, puts the parts together and speaks with people.
//!
//! Reading order: [`config`] (what can be set), [`app`] (the parts put together: [`app::App`]), `cli` and `commands` (one file
//! per command), `connect` and `data_dir` (how client commands find a server), `output` (the only place that prints), `exit`
//! (exit codes), `plugin_folder` (plugins as folders), `shutdown`, `telemetry`.

pub mod app;
mod cli;
mod commands;
pub mod config;
mod config_file;
mod connect;
mod data_dir;
mod exit;
mod output;
mod plugin_folder;
mod render;
mod shutdown;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::{Exit, Failure};

/// Every second task that a worker thread runs is taken from the queue that all share.
const GLOBAL_QUEUE_INTERVAL: u32 = 2;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no failure; a reader who left is none either.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Ok
            }
            .into();
        }
    };
    // Before anything else is set up: a sandbox has no threads, no TLS and no runtime.
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
    // A second installation would only say that there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // By default tasks that were woken by the store's thread, or for which a worker's own queue had no room, may wait for seconds
        // where thousands of others are ready.
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
