//! `runloom serve` and `runloom worker`: a server until it is told to stop.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::app::{self, App};
use crate::config::{Config, Environment};
use crate::config_file::ConfigFile;
use crate::data_dir::DataDir;
use crate::exit::{Exit, Failure};
use crate::shutdown::Signals;

use crate::{output, telemetry};

/// Time after the drain: closing streams, flushing, closing the store.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// `runloom serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  runloom serve --config runloom.toml
  runloom serve --listen 0.0.0.0:8787
  RUNLOOM_STORE__URL=sqlite:/var/lib/runloom/runloom.db runloom serve

When it is ready it prints one line: listening on http://HOST:PORT")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// The part of the work of this process
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) role: Role,
    /// HOST:PORT instead of the configured one; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
}

/// `runloom worker`.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}

impl From<Worker> for Serve {
    fn from(worker: Worker) -> Self {
        Self {
            file: worker.file,
            role: Role::Worker,
            listen: None,
        }
    }
}

impl From<Role> for app::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::All => Self::All,
            Role::Api => Self::Api,
            Role::Worker => Self::Worker,
        }
    }
}

/// The part of the work of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// API and workers
    All,
    /// The HTTP API only
    Api,
    /// Workers only
    Worker,
}

pub(crate) async fn run(serve: Serve, environment: &Environment) -> Result<Exit, Failure> {
    let mut config = app::server_config::load(&serve.file.source(), environment)?;
    if serve.role != Role::All && config.fabric.is_embedded() {
        return Err(Failure::new(
            Exit::Config,
            "one process has to do everything: the embedded queue and bus cannot be shared between processes. Set store.url to \
             postgres://… (then the database is queue and bus), or run without --role",
        ));
    }
    if let Some(listen) = serve.listen {
        config.server.listen = listen;
    } else if serve.role == Role::Worker {
        // Workers on one machine must not compete for the API's port; a worker serves only probes.
        "127.0.0.1:0".clone_into(&mut config.server.listen);
    }
    telemetry::init(&config.log);
    app::model_lists::fill_and_log(&mut config).await;
    warn_without_access(&config);
    if config.server.master_key.is_none() {
        let beside = config
            .store
            .sqlite
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        let folder = DataDir::new(beside.unwrap_or(std::path::Path::new(".")));
        folder.create()?;
        config.server.master_key = Some(folder.master_key()?);
        tracing::warn!(
            "{} is not set: the master key is kept beside the data in {}",
            config.server.master_key_env,
            folder.path().join("master.key").display()
        );
    }
    until_stopped(config, serve.role.into(), |address| {
        output::line(format!("listening on http://{address}"))?;
        Ok(())
    })
    .await
}

/// Warns when no client can use the server: no workspace or key is declared, and no admin token allows making them.
fn warn_without_access(config: &Config) {
    if config.server.admin_token.is_some() {
        return;
    }
    let variable = &config.server.admin_token_env;
    let has_key = |workspace: &crate::config::WorkspaceConfig| !workspace.api_keys.is_empty();
    if config.workspaces.is_empty() {
        tracing::warn!(
            "no workspace is declared: add [[workspaces]] to the configuration, or set {variable} and run \
             `runloom admin workspace create`"
        );
    } else if !config.workspaces.iter().any(has_key) {
        tracing::warn!(
            "no API key is declared: add [[workspaces.api_keys]], or set {variable} and run \
             `runloom admin key create`"
        );
    }
}

/// Starts the server, prints its address, and stops it in order on a signal.
pub(crate) async fn until_stopped(
    config: Config,
    role: app::Role,
    ready: impl FnOnce(SocketAddr) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut signals = Signals::stop();
    for warning in &config.warnings {
        tracing::warn!(place = %warning.place, key = %warning.path, "{}", warning.message);
    }
    let drain = Duration::from_millis(config.runs.drain_ms);
    let listener = runloom_http::listen(&config.server.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.server.listen))?;
    let master_key = config
        .server
        .master_key
        .as_ref()
        .context("there is no master key")?;
    let app = App::start(&config, role, master_key.expose().as_bytes(), listener).await?;
    ready(app.address())?;

    signals.next().await;
    tracing::info!("stopping: waiting for step boundaries (signal again to stop at once)");
    tokio::select! {
        () = app.stop() => {}
        () = signals.next() => {
            return Err(Failure::new(Exit::Interrupted, "stopped at once; runs continue at the next start"));
        }
        () = tokio::time::sleep(drain + STOP_GRACE) => {
            return Err(Failure::new(Exit::Failure, "stopping took too long; runs go on at the next start"));
        }
    }
    tracing::info!("stopped");
    Ok(Exit::Ok)
}
