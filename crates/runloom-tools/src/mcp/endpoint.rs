//! Addresses of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use runloom_protocol::id::RunId;
use runloom_protocol::tools::{McpTool, SessionScope};

use super::process::Launch;
use super::session::McpError;
use crate::names;
use crate::outbound::{Outbound, OutboundError, spec_headers};

/// An MCP server as a ref or a definition names it, with secrets filled in.
#[derive(Clone)]
pub(crate) enum McpEndpoint {
    /// Over Streamable HTTP.
    Http {
        /// The server's URL.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
    /// Over HTTP with server-sent events.
    Sse {
        /// The URL of the event stream.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
    /// A process on this machine.
    Process(Launch),
}

/// A server and the callers that share a session with it.
#[derive(Clone, Copy)]
pub(crate) struct McpConnection<'a> {
    pub(crate) workspace: &'a Arc<str>,
    pub(crate) endpoint: &'a McpEndpoint,
    pub(crate) owner: &'a SessionOwner,
    /// How long the connection is kept while it is not used; `None` means the default of its transport.
    pub(crate) idle_close: Option<Duration>,
}

/// The callers that share a session. Sessions are never shared between workspaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SessionOwner {
    /// One run.
    Run(RunId),
    /// All runs of the workspace.
    Workspace,
    /// All runs that use a toolset of the workspace, by its slug.
    Toolset(String),
}

impl SessionOwner {
    /// The owner that a ref or a definition asks for.
    pub(crate) fn of(scope: SessionScope, run: &RunId) -> Self {
        match scope {
            SessionScope::Run => Self::Run(run.clone()),
            SessionScope::Workspace => Self::Workspace,
        }
    }
}

impl From<&McpTool> for McpEndpoint {
    fn from(server: &McpTool) -> Self {
        Self::Http {
            url: server.url.clone(),
            headers: server.headers.clone(),
        }
    }
}

/// An endpoint that the outbound policy allows.
pub(super) struct CheckedEndpoint {
    pub(super) address: McpAddress,
    /// Distinguishes the endpoint from others, without its secrets in plain text.
    pub(super) fingerprint: String,
}

/// Where a server is connected to.
pub(super) enum McpAddress {
    /// Over Streamable HTTP.
    Http {
        /// The server's URL.
        url: String,
        /// Headers of every request.
        headers: HeaderMap,
    },
    /// Over HTTP with server-sent events.
    Sse {
        /// The URL of the event stream.
        url: String,
        /// Headers of every request.
        headers: HeaderMap,
    },
    /// A process on this machine.
    Process(Launch),
}

impl McpAddress {
    /// A name for log lines; the URL may hold a credential.
    pub(super) fn label(&self) -> &str {
        match self {
            Self::Http { .. } => "over HTTP",
            Self::Sse { .. } => "over SSE",
            Self::Process(launch) => &launch.spec.label,
        }
    }

    /// Whether the server is a process on this machine.
    pub(super) fn is_process(&self) -> bool {
        matches!(self, Self::Process(_))
    }
}

impl McpEndpoint {
    /// Checks the endpoint against the outbound policy.
    pub(super) fn check(&self, outbound: &Outbound) -> Result<CheckedEndpoint, McpError> {
        let refused = |error: OutboundError| McpError::transient(error.to_string());
        match self {
            Self::Http { url, headers } => {
                let url = outbound.check(url).map_err(refused)?.to_string();
                let fingerprint = format!("{url} {}", hash(&headers));
                let headers = spec_headers(headers).map_err(refused)?;
                let address = McpAddress::Http { url, headers };
                Ok(CheckedEndpoint {
                    address,
                    fingerprint,
                })
            }
            Self::Sse { url, headers } => {
                let url = outbound.check(url).map_err(refused)?.to_string();
                let fingerprint = format!("sse {url} {}", hash(&headers));
                let headers = spec_headers(headers).map_err(refused)?;
                let address = McpAddress::Sse { url, headers };
                Ok(CheckedEndpoint {
                    address,
                    fingerprint,
                })
            }
            Self::Process(launch) => {
                let spec = &launch.spec;
                let identity = (&spec.command, &spec.args, &spec.env, &spec.folder);
                Ok(CheckedEndpoint {
                    address: McpAddress::Process(launch.clone()),
                    fingerprint: format!("process {} {}", spec.label, hash(&identity)),
                })
            }
        }
    }
}

/// Hash of a value that may hold secrets.
fn hash(value: &impl serde::Serialize) -> String {
    names::hash(&serde_json::to_string(value).unwrap_or_default())
}
