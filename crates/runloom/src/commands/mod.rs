//! One file per command.

pub(crate) mod admin;
mod attach;
pub(crate) mod chat;
mod config_check;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod migrate;
pub(crate) mod models;
mod replay;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
mod version;

use clap::CommandFactory;

use crate::cli::{Cli, Command, ConfigCommand};
use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::output;

/// Runs a command.
pub(crate) async fn dispatch(command: Command) -> Result<Exit, Failure> {
    let environment = Environment::of_process();
    match command {
        Command::Dev(dev) => dev::run(dev, &environment).await,
        Command::Serve(serve) => serve::run(serve, &environment).await,
        Command::Worker(worker) => serve::run(worker.into(), &environment).await,
        Command::Migrate(migrate) => migrate::run(&migrate, &environment).await,
        Command::Doctor(doctor) => doctor::run(&doctor, &environment).await,
        Command::Config(ConfigCommand::Check(file)) => config_check::run(&file, &environment),
        Command::Openapi => {
            output::line(runloom_http::OPENAPI.trim_end())?;
            Ok(Exit::Ok)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "runloom", &mut script);
            output::piece(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Ok)
        }
        Command::Version { json } => version::run(json),
        Command::Run(run) => run::run(run, &environment).await,
        Command::Chat(chat) => chat::run(chat, &environment).await,
        Command::Runs(runs) => runs::run(runs, &environment).await,
        Command::Models(models) => models::run(models, &environment).await,
        Command::Admin(admin) => admin::run(admin, &environment).await,
        Command::Sandbox { .. } => Err(Failure::new(
            Exit::Usage,
            "a sandbox is started by the server alone".to_owned(),
        )),
    }
}
