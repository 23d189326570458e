//! `runloom doctor`: what could be wrong, looked at from outside. `services` looks at what is not in this process.

mod services;

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use runloom_client::{Client, Options, RetryPolicy};
use runloom_service::error::Chain;
use runloom_store::Health;
use runloom_tools::SandboxProgram;
use serde::Serialize;

use crate::app;
use crate::cli::{ConfigFile, SANDBOX};
use crate::config::{Config, Environment, Problem};
use crate::connect::dev_server;
use crate::exit::{Exit, Failure};
use crate::output;

/// Less free space than this is a failure, and less than ten times of it a warning.
const MIN_FREE_BYTES: u64 = 100 * 1024 * 1024;

/// How long a server on this machine may take to answer.
const SERVER_PATIENCE: Duration = Duration::from_secs(3);

/// 2026-01-01, before this program existed.
const EARLIEST_CLOCK_SECONDS: u64 = 1_767_225_600;

/// `runloom doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    file: ConfigFile,
    /// All findings as one JSON object
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
    let (findings, exit) = match app::configured::load(&doctor.file.source(), environment) {
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
        None => findings.extend(check_files(&config.store.sqlite).await),
    }
    findings.extend(services::check_fabric(config).await);
    findings.push(check_clock());
    findings.push(check_server(config).await);
    findings.push(check_sandbox(config).await);
    findings.extend(check_secrets(config, environment));
    findings
}

/// The database that is a file, and where it lives.
async fn check_files(database: &Path) -> [Finding; 3] {
    let folder = database
        .parent()
        .filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    [
        check_folder(folder),
        check_space(folder),
        check_database(database).await,
    ]
}

/// Without it everything works but code tools.
async fn check_sandbox(config: &Config) -> Finding {
    if !config.code.enabled {
        return finding("sandbox", Verdict::Ok, "code tools are switched off");
    }
    let program = SandboxProgram::this_program(SANDBOX).map_err(|error| error.to_string());
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

fn check_folder(folder: &Path) -> Finding {
    let shown = folder.display();
    match fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => finding(
            "data",
            Verdict::Ok,
            format!("{shown} is not there yet; it is made at the first start"),
        ),
        Err(error) => finding("data", Verdict::Failure, format!("{shown}: {error}")),
        Ok(found) if !found.is_dir() => {
            finding("data", Verdict::Failure, format!("{shown} is not a folder"))
        }
        Ok(_) => {
            let probe = folder.join(".runloom-doctor");
            let written = fs::write(&probe, b"probe").and_then(|()| fs::remove_file(&probe));
            match written {
                Ok(()) => finding("data", Verdict::Ok, format!("{shown} can be written")),
                Err(error) => finding(
                    "data",
                    Verdict::Failure,
                    format!("{shown} cannot be written: {error}"),
                ),
            }
        }
    }
}

#[cfg(unix)]
fn check_space(folder: &Path) -> Finding {
    let existing = folder
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("."));
    match rustix::fs::statvfs(existing) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let verdict = match free {
                free if free < MIN_FREE_BYTES => Verdict::Failure,
                free if free < 10 * MIN_FREE_BYTES => Verdict::Warning,
                _ => Verdict::Ok,
            };
            finding(
                "disk",
                verdict,
                format!("{} MiB free", free / (1024 * 1024)),
            )
        }
        Err(error) => finding(
            "disk",
            Verdict::Warning,
            format!("free space is not known: {error}"),
        ),
    }
}

#[cfg(not(unix))]
fn check_space(_folder: &Path) -> Finding {
    finding(
        "disk",
        Verdict::Warning,
        format!(
            "free space is not known on this system; at least {MIN_FREE_BYTES} bytes are needed"
        ),
    )
}

async fn check_database(path: &Path) -> Finding {
    let shown = path.display();
    match read_header(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return finding(
                "store",
                Verdict::Ok,
                format!("{shown} is not there yet; it is made at the first start"),
            );
        }
        Err(error) => return finding("store", Verdict::Failure, format!("{shown}: {error}")),
        Ok(header) if !header.starts_with(b"SQLite format 3\0") => {
            return finding(
                "store",
                Verdict::Failure,
                format!("{shown} is not an SQLite database"),
            );
        }
        Ok(_) => {}
    }
    let url = format!("sqlite:{shown}");
    match runloom_store::check(&url).await {
        Err(error) => {
            let detail = format!("{shown}: {}", Chain(&error));
            finding("store", Verdict::Failure, detail)
        }
        Ok(health) => judge(&shown.to_string(), &health),
    }
}

/// What the store says of the database at `place`.
fn judge(place: &str, health: &Health) -> Finding {
    let Health {
        engine,
        version,
        expected,
        problems,
        ..
    } = health;
    let (verdict, detail) = if !problems.is_empty() {
        let problems = problems.join("; ");
        (
            Verdict::Failure,
            format!("{place} cannot be used as it is: {problems}"),
        )
    } else if health.is_good() {
        (
            Verdict::Ok,
            format!("{place} is whole, version {version}, {engine}"),
        )
    } else if *version == 0 {
        let detail = format!("{place} is empty; its tables are made at the first start, {engine}");
        (Verdict::Ok, detail)
    } else {
        let detail = format!(
            "{place} has version {version} and is brought to {expected} at the next start, {engine}"
        );
        (Verdict::Warning, detail)
    };
    finding("store", verdict, detail)
}

fn read_header(path: &Path) -> std::io::Result<[u8; 16]> {
    let mut header = [0; 16];
    fs::File::open(path)?.read_exact(&mut header)?;
    Ok(header)
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

/// The port is either free, or taken by a server that says it is ready.
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
    async fn a_file_that_is_no_database_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        assert_eq!(check_database(&path).await.verdict, Verdict::Ok);
        fs::write(&path, "something else entirely").unwrap();
        assert_eq!(check_database(&path).await.verdict, Verdict::Failure);
    }

    #[test]
    fn a_folder_that_is_a_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check_folder(folder.path()).verdict, Verdict::Ok);
        let file = folder.path().join("f");
        fs::write(&file, "").unwrap();
        assert_eq!(check_folder(&file).verdict, Verdict::Failure);
    }

    #[tokio::test]
    async fn a_port_held_by_something_else_is_found() {
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = holder.local_addr().unwrap().to_string();
        drop(std::thread::spawn(move || holder.accept().map(drop)));
        let text = format!("[server]\nlisten = \"{listen}\"");
        let config = config::parse(&text, "f", &Environment::default()).unwrap();
        assert_eq!(check_server(&config).await.verdict, Verdict::Failure);
    }
}
