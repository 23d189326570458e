//! The command line: its commands and their dispatch.

use clap::{CommandFactory, Parser, Subcommand};

use crate::app::PROJECT_CLI;
use crate::app::SANDBOX_COMMAND;
use crate::commands::{
    admin, approvals, chat, config_check, dev, doctor, migrate, models, project_cli, run, runs,
    serve, version,
};
use crate::config::Environment;
use crate::config_file::ConfigFile;
use crate::exit::{Exit, Failure};
use crate::output;

const AFTER_HELP: &str = "\
Try it:
  runloom dev                          a server with everything inside, and a key
  runloom run \"say Hello.\"             a run on it (in another terminal, same folder)
  runloom serve --config runloom.toml  a server by the book

Client commands read MANTYX_BASE_URL, MANTYX_API_KEY and MANTYX_WORKSPACE_SLUG; without them they use
the `runloom dev` of this folder (./.runloom, or RUNLOOM_DATA_DIR).

Exit codes:
  0 done   1 it did not work   2 wrong usage   3 invalid configuration   4 server cannot be reached
  5 the run failed   130 interrupted, or the run was cancelled";

/// An open, self-hosted server for agent runs.
#[derive(Debug, Parser)]
#[command(name = "runloom", version, about, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a server with everything embedded, a demo workspace and a key
    Dev(dev::Dev),
    /// Start a server from a configuration
    Serve(serve::Serve),
    /// Start a worker: it drives runs, and answers probes only (serve --role worker)
    Worker(serve::Worker),
    /// Migrate the database to the schema of this version
    Migrate(migrate::Migrate),
    /// Check configuration, data, disk, database, queue, bus, port, clock, server and keys
    Doctor(doctor::Doctor),
    /// Work with the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the OpenAPI document of the HTTP API
    Openapi,
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version {
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Start a run and show it live
    Run(run::Run),
    /// Talk with a model in a session
    Chat(chat::Chat),
    /// List, show, follow, cancel, export and replay runs
    #[command(subcommand)]
    Runs(runs::Runs),
    /// List, show, approve and deny tool calls that wait for a person
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// List and try the models of the workspace
    #[command(subcommand)]
    Models(models::Models),
    /// Manage workspaces and keys of a running server
    Admin(admin::Admin),
    /// Run one action of a shipped project module: MODULE METHOD --format json, or --list
    #[command(name = PROJECT_CLI, disable_help_flag = true, disable_version_flag = true)]
    ProjectCli {
        /// MODULE METHOD --format json, or --list
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run one code tool; started by the server itself
    #[command(name = SANDBOX_COMMAND, hide = true)]
    Sandbox {
        /// Maximum memory in megabytes
        memory_mb: u32,
        /// Maximum processor time in seconds
        cpu_seconds: u64,
    },
}

/// `runloom config …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration with the environment laid over it; reports all problems at once
    Check(ConfigFile),
}

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
        Command::Approvals(command) => approvals::run(command, &environment).await,
        Command::Models(models) => models::run(models, &environment).await,
        Command::Admin(admin) => admin::run(admin, &environment).await,
        Command::ProjectCli { arguments } => Ok(project_cli::run(&arguments).await?),
        Command::Sandbox { .. } => Err(Failure::new(
            Exit::Usage,
            "a sandbox is started by the server alone".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn parses_documented_commands() {
        for line in [
            "dev",
            "dev --listen 127.0.0.1:0 --data-dir d --json",
            "serve --config runloom.toml --role all --listen 127.0.0.1:8787",
            "worker --config runloom.toml",
            "migrate",
            "migrate --config f.toml --accept-data-loss",
            "doctor --json",
            "config check --config f.toml",
            "openapi",
            "completions bash",
            "version --json",
            "run hello --model platform:demo --system s --reasoning high --json",
            "run hello --session ses_1",
            "run say hello there --model platform:demo",
            "run hello --agent support --tool weather --tool tool_1 --plugin @web/fetch",
            "chat --model m",
            "runs list --status failed --limit 5 --json",
            "runs show run_1",
            "runs tail run_1 --after 4 --json",
            "runs cancel run_1",
            "runs export run_1 --output f.jsonl",
            "approvals list --status pending --json",
            "approvals show apr_1",
            "approvals approve apr_1 --input {} --note fine",
            "approvals deny apr_1 --note no",
            "models list --json",
            "models test platform:demo",
            "models test --config f.toml --workspace acme openai/gpt-5.5 --json",
            "admin workspace create acme --name Acme --without apiKeys --without oauthApps --json",
            "admin workspace list",
            "admin key create --workspace acme --usage a2a --agent agent_1 --agent agent_2 --runs-per-minute 5 --json",
            "admin key list --workspace acme --url http://h",
            "admin key revoke --workspace acme key_1 --json",
        ] {
            let arguments = ["runloom"].into_iter().chain(line.split(' '));
            if let Err(error) = Cli::try_parse_from(arguments) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn refuses_invalid_commands() {
        for line in [
            "",
            "serve --role boss",
            "run",
            "run x --reasoning 101",
            "runs show notarun",
            "admin key create",
            "admin key create --workspace a --usage x",
        ] {
            let arguments = ["runloom"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(arguments).is_err(), "{line}");
        }
    }
}
