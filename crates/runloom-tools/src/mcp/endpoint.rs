//! Where an MCP server is.

use std::collections::BTreeMap;

use reqwest::header::HeaderMap;
use runloom_protocol::tools::McpTool;

use super::link::Fault;
use super::process::Launch;
use crate::names;
use crate::outbound::{Outbound, OutboundError, spec_headers};

/// An MCP server as a ref or a plugin names it.
#[derive(Clone)]
pub(crate) enum Endpoint {
    /// Over Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Sent with each request, in clear.
        headers: BTreeMap<String, String>,
    },
    /// A process of this machine.
    Process(Launch),
}

impl From<&McpTool> for Endpoint {
    fn from(server: &McpTool) -> Self {
        Self::Http {
            url: server.url.clone(),
            headers: server.headers.clone(),
        }
    }
}

/// An endpoint that may be used.
pub(super) enum Checked {
    /// Over Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Sent with each request.
        headers: HeaderMap,
    },
    /// A process of this machine.
    Process(Launch),
}

impl Checked {
    /// Its name for the log; an address may hold a credential.
    pub(super) fn label(&self) -> &str {
        match self {
            Self::Http { .. } => "over HTTP",
            Self::Process(launch) => &launch.spec.label,
        }
    }
}

impl Endpoint {
    /// The endpoint as it is used, and what tells it from others without showing its secrets.
    pub(super) fn checked(&self, outbound: &Outbound) -> Result<(Checked, String), Fault> {
        let refused = |error: OutboundError| Fault::passing(error.to_string());
        match self {
            Self::Http { url, headers } => {
                let url = outbound.check(url).map_err(refused)?.to_string();
                let checked = Checked::Http {
                    headers: spec_headers(headers).map_err(refused)?,
                    url: url.clone(),
                };
                Ok((checked, format!("{url} {}", fingerprint(&headers))))
            }
            Self::Process(launch) => {
                let spec = &launch.spec;
                let whole = (&spec.command, &spec.args, &spec.env, &spec.folder);
                let place = format!("process {} {}", spec.label, fingerprint(&whole));
                Ok((Checked::Process(launch.clone()), place))
            }
        }
    }

    pub(super) fn is_process(&self) -> bool {
        matches!(self, Self::Process(_))
    }
}

/// A hash: keys of a map are printed and compared more freely than secrets should be.
fn fingerprint(value: &impl serde::Serialize) -> String {
    names::hash(&serde_json::to_string(value).unwrap_or_default())
}
