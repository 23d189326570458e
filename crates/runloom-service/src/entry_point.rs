//! Entry points of the server: the APIs that accept credentials.

use runloom_ports::store::KeyUsage;

/// Metadata label of runs and sessions that came through an entry point other than the Developer API.
pub const VIA: &str = "runloom.via";

/// The value of [`VIA`] for threads of AG-UI, which are used with keys of the Developer API.
pub const AG_UI: &str = "ag-ui";

/// Metadata label of sessions that are threads of AG-UI: the id of the thread.
pub const THREAD: &str = "runloom.thread";

/// The API at which a credential is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPoint {
    /// The API of runs and sessions.
    DeveloperApi,
    /// Agents over A2A.
    A2a,
    /// Agents over MCP.
    Mcp,
    /// Reading and deciding approvals.
    Approvals,
}

impl EntryPoint {
    /// The name in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::DeveloperApi => "the Developer API",
            Self::A2a => "A2A",
            Self::Mcp => "MCP",
            Self::Approvals => "approvals",
        }
    }

    /// The name in labels, which is also the name of the key usage for it alone.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeveloperApi => "developer_api",
            Self::A2a => "a2a",
            Self::Mcp => "mcp",
            Self::Approvals => "approvals",
        }
    }

    /// The key usage that allows this entry point alone.
    #[must_use]
    pub fn usage(self) -> KeyUsage {
        match self {
            Self::DeveloperApi => KeyUsage::DeveloperApi,
            Self::A2a => KeyUsage::A2a,
            Self::Mcp => KeyUsage::Mcp,
            Self::Approvals => KeyUsage::Approvals,
        }
    }

    /// Whether a key of this usage is accepted. A key for the Developer API is accepted everywhere.
    #[must_use]
    pub(crate) fn accepts(self, usage: KeyUsage) -> bool {
        usage == KeyUsage::DeveloperApi || usage == self.usage()
    }
}
