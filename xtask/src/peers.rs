//! The stage in which our clients of tools meet servers that nobody here wrote: MCP servers and A2A agents of the official
//! packages, of the generations that are in use.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::python::Environment;
use crate::report::{self, Closing, Tally};
use crate::{cargo, place, process};

/// A build of the tests and all of them.
const STAGE_AT_MOST: Duration = Duration::from_secs(60 * 60);

/// The download of one package and what it needs.
const INSTALL_AT_MOST: Duration = Duration::from_secs(15 * 60);

const PYTHON: &[Environment] = &[
    Environment {
        name: "mcp-newest",
        packages: &["mcp", "uvicorn"],
    },
    Environment {
        name: "mcp-1",
        packages: &["mcp==1.30.0"],
    },
    Environment {
        name: "a2a-0.3",
        packages: &["a2a-sdk[http-server]==0.3.26", "uvicorn==0.54.0"],
    },
    Environment {
        name: "a2a-1",
        packages: &["a2a-sdk[http-server]", "uvicorn"],
    },
];

/// Pinned: the names of their tools change between releases.
const NODE_PACKAGES: [&str; 2] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];

/// Prepares the peers and runs the tests that talk to them.
pub(crate) fn tools() -> anyhow::Result<Tally> {
    for environment in PYTHON {
        environment.interpreter()?;
    }
    node_packages()?;
    let folder = place::target()?.join("xtask");
    let finished = process::run_tests(
        cargo::cargo()?
            .args(["test", "--workspace", "--test", "interop"])
            .args(["--", "--test-threads=2"])
            .env("RUNLOOM_INTEROP_TOOLS", folder),
        STAGE_AT_MOST,
        Closing::Libtest,
    )?;
    Ok(finished.as_tests())
}

/// Installs the packages once; the stamp says which.
fn node_packages() -> anyhow::Result<()> {
    let folder = place::corner("node-tools")?;
    let stamp = folder.join("installed.txt");
    let wanted = NODE_PACKAGES.join(" ");
    if std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    anyhow::ensure!(
        process::works(Command::new("npm").arg("--version")),
        "npm is missing: install Node.js 20 or newer"
    );
    report::say(&format!("installing {wanted}"));
    let installed = process::run(
        Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
            .arg("--prefix")
            .arg(&folder)
            .args(NODE_PACKAGES)
            .current_dir(&folder),
        INSTALL_AT_MOST,
    )?;
    anyhow::ensure!(installed, "npm cannot install {wanted}");
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}
