//! The stage in which our clients of tools meet servers that nobody here wrote: MCP servers and A2A agents of the
//! official packages, of the generations that are in use.

use std::time::Duration;

use crate::python::Environment;
use crate::report::{Closing, Tally};
use crate::{cargo, node, place, process};

/// A build of the tests and all of them.
const STAGE_AT_MOST: Duration = Duration::from_secs(60 * 60);

pub(crate) const MCP_NEWEST: Environment = Environment {
    name: "mcp-newest",
    packages: &["mcp", "uvicorn"],
};

pub(crate) const MCP_1: Environment = Environment {
    name: "mcp-1",
    packages: &["mcp==1.30.0"],
};

pub(crate) const A2A_0_3: Environment = Environment {
    name: "a2a-0.3",
    packages: &["a2a-sdk[http-server]==0.3.26", "uvicorn==0.54.0"],
};

pub(crate) const A2A_1: Environment = Environment {
    name: "a2a-1",
    packages: &["a2a-sdk[http-server]", "uvicorn"],
};

pub(crate) const FASTMCP: Environment = Environment {
    name: "fastmcp",
    packages: &["fastmcp", "uvicorn"],
};

const PYTHON: &[Environment] = &[MCP_NEWEST, MCP_1, A2A_0_3, A2A_1, FASTMCP];

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
    node::install("node-tools", &NODE_PACKAGES)?;
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
