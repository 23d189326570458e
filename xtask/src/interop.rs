//! The stages that run software nobody here wrote: the official SDKs against the real server,
//! and the model vendors' own packages against what we send.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::cluster::Cluster;
use crate::python::Environment;
use crate::report::{self, Closing, Tally};
use crate::server::Server;
use crate::{node, peers, place, process};

/// A whole program of interop cases; each case has a far shorter limit of its own.
const PROGRAM_AT_MOST: Duration = Duration::from_secs(10 * 60);

const BASELINE_SDK: Environment = Environment {
    name: "sdk-0.11",
    packages: &["mantyx-sdk==0.11.0", "authlib"],
};

const NEWEST_SDK: Environment = Environment {
    name: "sdk-newest",
    packages: &["mantyx-sdk", "authlib"],
};

const VENDORS: Environment = Environment {
    name: "vendors",
    packages: &["openai", "anthropic", "google-genai"],
};

/// The folders and packages of both generations of the AG-UI client.
const AG_UI_CLIENTS: [(&str, &str); 2] = [
    ("ag-ui-1", "@ag-ui/client@1"),
    ("ag-ui-0", "@ag-ui/client@0.0"),
];

const AG_UI_TYPES: Environment = Environment {
    name: "ag-ui",
    packages: &["ag-ui-protocol>=1,<2"],
};

/// The oldest SDK we promise to serve.
pub(crate) fn baseline_sdk() -> anyhow::Result<Tally> {
    against_server(&BASELINE_SDK)
}

/// The SDK that people install today.
pub(crate) fn newest_sdk() -> anyhow::Result<Tally> {
    against_server(&NEWEST_SDK)
}

/// The same against an API and two workers on PostgreSQL.
pub(crate) fn newest_sdk_on_cluster() -> anyhow::Result<Tally> {
    let interpreter = NEWEST_SDK.interpreter()?;
    let cluster = Cluster::start()?;
    let finished = cases(
        &interpreter,
        [
            &cluster.url,
            Cluster::API_KEY,
            Cluster::WORKSPACE,
            Cluster::ADMIN_TOKEN,
        ],
    )?;
    if !finished.success {
        report::say(&format!("--- the servers' logs\n{}", cluster.end_of_logs()));
    }
    Ok(finished.as_tests())
}

/// The official clients of A2A and MCP, each of the generations that are in use, as callers of a workspace's agents.
pub(crate) fn hosted() -> anyhow::Result<Tally> {
    let server = Server::start("hosted")?;
    let program = place::repository()?.join("interop/hosted/run.py");
    let mut sum = Tally::default();
    for (environment, module) in [
        (peers::A2A_0_3, "a2a_0_3"),
        (peers::A2A_1, "a2a_1_0"),
        (peers::MCP_1, "mcp_1"),
        (peers::MCP_NEWEST, "mcp_newest"),
    ] {
        let interpreter = environment.interpreter()?;
        let finished = process::run_tests(
            python(&interpreter)?
                .arg(&program)
                .arg(module)
                .env("MANTYX_BASE_URL", &server.url)
                .env("MANTYX_API_KEY", &server.api_key)
                .env("MANTYX_WORKSPACE_SLUG", &server.workspace)
                .env("RUNLOOM_ADMIN_TOKEN", &server.admin_token),
            PROGRAM_AT_MOST,
            Closing::Program,
        )?;
        sum += finished.as_tests();
        if !finished.success {
            report::say(&format!("--- the server's log\n{}", server.end_of_log()));
        }
    }
    Ok(sum)
}

/// The client of AG-UI in both generations, and then the types of the PyPI package on every event that was sent.
pub(crate) fn ag_ui() -> anyhow::Result<Tally> {
    let server = Server::start("ag-ui")?;
    let programs = place::repository()?.join("interop/ag_ui");
    let record = place::corner("ag-ui")?.join("events.jsonl");
    std::fs::write(&record, "").with_context(|| format!("cannot write {}", record.display()))?;
    let mut sum = Tally::default();
    for (name, package) in AG_UI_CLIENTS {
        let folder = node::install(name, &[package])?;
        let finished = process::run_tests(
            Command::new("node")
                .arg(programs.join("run.mjs"))
                .arg(folder)
                .arg(&record)
                .env("MANTYX_BASE_URL", &server.url)
                .env("MANTYX_API_KEY", &server.api_key)
                .env("MANTYX_WORKSPACE_SLUG", &server.workspace),
            PROGRAM_AT_MOST,
            Closing::Program,
        )?;
        sum += finished.as_tests();
        if !finished.success {
            report::say(&format!("--- the server's log\n{}", server.end_of_log()));
        }
    }
    let interpreter = AG_UI_TYPES.interpreter()?;
    let finished = process::run_tests(
        python(&interpreter)?
            .arg(programs.join("validate.py"))
            .arg(&record),
        PROGRAM_AT_MOST,
        Closing::Program,
    )?;
    sum += finished.as_tests();
    Ok(sum)
}

/// Every `check_*.py` of the models crate.
pub(crate) fn vendors() -> anyhow::Result<Tally> {
    let checks = vendor_checks()?;
    if checks.is_empty() {
        report::say("not run: there is no check_*.py yet");
        return Ok(Tally::default());
    }
    let interpreter = VENDORS.interpreter()?;
    let mut sum = Tally::default();
    for check in checks {
        report::say(&format!("--- {}", check.display()));
        let finished = process::run_tests(
            python(&interpreter)?.arg(&check).current_dir(
                check
                    .parent()
                    .context("a check without a folder around it")?,
            ),
            PROGRAM_AT_MOST,
            Closing::Program,
        )?;
        let tally = finished.as_tests();
        sum += if tally == Tally::default() {
            Tally::of_check(finished.success)
        } else {
            tally
        };
    }
    Ok(sum)
}

fn against_server(environment: &Environment) -> anyhow::Result<Tally> {
    let interpreter = environment.interpreter()?;
    let server = Server::start(environment.name)?;
    let finished = cases(
        &interpreter,
        [
            &server.url,
            &server.api_key,
            &server.workspace,
            &server.admin_token,
        ],
    )?;
    if !finished.success {
        report::say(&format!("--- the server's log\n{}", server.end_of_log()));
    }
    Ok(finished.as_tests())
}

/// The program of cases against a server: its address, a key, the key's workspace, the admin token.
fn cases(
    interpreter: &PathBuf,
    [url, key, workspace, admin]: [&str; 4],
) -> anyhow::Result<process::Finished> {
    let program = place::repository()?.join("interop/python/run.py");
    process::run_tests(
        python(interpreter)?
            .arg(&program)
            .env("MANTYX_BASE_URL", url)
            .env("MANTYX_API_KEY", key)
            .env("MANTYX_WORKSPACE_SLUG", workspace)
            .env("RUNLOOM_ADMIN_TOKEN", admin),
        PROGRAM_AT_MOST,
        Closing::Program,
    )
}

/// The interpreter, told to speak at once, to leave no bytecode among the sources, and to keep
/// loopback away from any proxy.
fn python(interpreter: &PathBuf) -> anyhow::Result<Command> {
    let mut command = Command::new(interpreter);
    command
        .current_dir(place::repository()?)
        .env_remove("PYTHONPATH")
        .env_remove("PYTHONHOME")
        .env("PYTHONUNBUFFERED", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("no_proxy", "127.0.0.1,localhost");
    Ok(command)
}

fn vendor_checks() -> anyhow::Result<Vec<PathBuf>> {
    let folder = place::repository()?.join("crates/runloom-models/tests/vendor_python");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(Vec::new());
    };
    let mut checks = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("check_") && name.ends_with(".py") {
            checks.push(entry.path());
        }
    }
    checks.sort();
    Ok(checks)
}
