//! `runloom doctor`: checks the configuration, the data, the services and the server. `store` checks the database and
//! its folder, `services` the external services.

mod services;
mod store;

use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use runloom_client::{Client, Options, RetryPolicy};
use runloom_tools::SandboxProgram;
use serde::Serialize;

use crate::app;
use crate::config::{Config, Environment, Problem};
use crate::config_file::ConfigFile;
use crate::connect::dev_server;
use crate::exit::{Exit, Failure};
use crate::output;

/// Timeout of a server on this machine.
const SERVER_PATIENCE: Duration = Duration::from_secs(3);

/// 2026-01-01, before this program existed.
const EARLIEST_CLOCK_SECONDS: u64 = 1_767_225_600;

/// `runloom doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    file: ConfigFile,
    /// Print all findings as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Failure,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    detail: String,
}

fn finding(check: &'static str, verdict: Verdict, detail: impl Into<String>) -> Finding {
    Finding {
        check,
        verdict,
        detail: detail.into(),
    }
}

pub(crate) async fn run(doctor: &Doctor, environment: &Environment) -> Result<Exit, Failure> {
    let (findings, exit) = match app::server_config::load(&doctor.file.source(), environment) {
        Ok(config) => {
            let findings = examine(&config, environment).await;
            let failed = findings
                .iter()
                .any(|finding| finding.verdict == Verdict::Failure);
            (findings, if failed { Exit::Failure } else { Exit::Ok })
        }
        Err(invalid) => {
            let problem =
                |problem: &Problem| finding("config", Verdict::Failure, problem.to_string());
            (invalid.problems.iter().map(problem).collect(), Exit::Config)
        }
    };
    if doctor.json {
        output::json(&serde_json::json!({ "ok": exit == Exit::Ok, "findings": findings }))?;
        return Ok(exit);
    }
    for Finding {
        check,
        verdict,
        detail,
    } in &findings
    {
        let sign = match verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warning => "warn",
            Verdict::Failure => "FAIL",
        };
        output::line(format!("{sign}  {check:10} {detail}"))?;
    }
    Ok(exit)
}

async fn examine(config: &Config, environment: &Environment) -> Vec<Finding> {
    let mut findings = vec![finding("config", Verdict::Ok, "read and checked")];
    let warnings = config.warnings.iter();
    findings
        .extend(warnings.map(|warning| finding("config", Verdict::Warning, warning.to_string())));
    match &config.store.postgres {
        Some(url) => findings.push(services::check_postgres(url).await),
        None => findings.extend(store::check_sqlite(&config.store.sqlite).await),
    }
    findings.extend(services::check_fabric(config).await);
    findings.push(check_clock());
    findings.push(check_server(config).await);
    findings.push(check_sandbox(config).await);
    findings.extend(check_secrets(config, environment));
    findings
}

/// A missing sandbox affects code tools only.
async fn check_sandbox(config: &Config) -> Finding {
    if !config.code.enabled {
        return finding("sandbox", Verdict::Ok, "code tools are disabled");
    }
    let program =
        SandboxProgram::this_program(app::SANDBOX_COMMAND).map_err(|error| error.to_string());
    let tried = match program {
        Ok(program) => runloom_tools::probe(&program).await,
        Err(error) => Err(error),
    };
    match tried {
        Ok(()) => finding("sandbox", Verdict::Ok, "code tools can run"),
        Err(why) => {
            let detail = format!("code tools cannot run here: {why}");
            finding("sandbox", Verdict::Warning, detail)
        }
    }
}

fn check_clock() -> Finding {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    if now < EARLIEST_CLOCK_SECONDS {
        return finding(
            "clock",
            Verdict::Failure,
            "the clock is years behind: ids and times would be wrong",
        );
    }
    finding(
        "clock",
        Verdict::Ok,
        jiff::Timestamp::now().strftime("%F %T UTC").to_string(),
    )
}

/// The port must be free, or taken by a server that is ready.
async fn check_server(config: &Config) -> Finding {
    let listen = &config.server.listen;
    match tokio::net::TcpListener::bind(listen).await {
        Ok(_) => {
            return finding(
                "server",
                Verdict::Ok,
                format!("{listen} is free; no server is running"),
            );
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        Err(error) => {
            return finding(
                "server",
                Verdict::Failure,
                format!("cannot listen on {listen}: {error}"),
            );
        }
    }
    let options = Options {
        connect_timeout: SERVER_PATIENCE,
        request_timeout: SERVER_PATIENCE,
        retry: RetryPolicy::none(),
        ..Options::default()
    };
    let url = format!(
        "http://{}",
        listen
            .replace("0.0.0.0", "127.0.0.1")
            .replace("[::]", "[::1]")
    );
    let ready = match Client::with_options(&url, "none", "none", options) {
        Ok(client) => client.ready().await,
        Err(error) => Err(error),
    };
    match ready {
        Ok(()) => finding("server", Verdict::Ok, format!("{url} is running and ready")),
        Err(error) => finding(
            "server",
            Verdict::Failure,
            format!("{listen} is taken, but not by a server that is ready: {error}"),
        ),
    }
}

fn check_secrets(config: &Config, environment: &Environment) -> Vec<Finding> {
    let variable = &config.server.master_key_env;
    let mut findings = vec![match &config.server.master_key {
        Some(_) => finding("master key", Verdict::Ok, format!("{variable} is set")),
        None => finding(
            "master key",
            Verdict::Warning,
            format!("{variable} is not set: one is kept beside the data"),
        ),
    }];
    let variable = &config.server.admin_token_env;
    findings.push(match &config.server.admin_token {
        Some(_) => finding("admin", Verdict::Ok, format!("{variable} is set")),
        None if matches!(dev_server(environment), Ok(Some(_))) => finding(
            "admin",
            Verdict::Ok,
            format!("{variable} is not set: `dev` has an admin API with the token that it keeps here, `serve` would have none"),
        ),
        None => finding(
            "admin",
            Verdict::Ok,
            format!("{variable} is not set: there is no admin API"),
        ),
    });
    let of_workspaces = config
        .workspaces
        .iter()
        .flat_map(|workspace| &workspace.providers);
    for provider in config.platform.providers.iter().chain(of_workspaces) {
        if let (Some(variable), Some(_)) = (&provider.api_key_env, &provider.api_key) {
            findings.push(finding(
                "provider",
                Verdict::Ok,
                format!("{}: {variable} is set", provider.id),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[tokio::test]
    async fn finds_a_port_taken_by_another_program() {
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = holder.local_addr().unwrap().to_string();
        drop(std::thread::spawn(move || holder.accept().map(drop)));
        let text = format!("[server]\nlisten = \"{listen}\"");
        let config = config::parse(&text, "f", &Environment::default()).unwrap();
        assert_eq!(check_server(&config).await.verdict, Verdict::Failure);
    }
}
