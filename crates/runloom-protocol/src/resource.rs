//! What GET answers.

use serde::{Deserialize, Serialize};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Waits for a worker.
    Queued,
    /// A worker drives it.
    Running,
    /// Waits for a client's tool result.
    WaitingTool,
    /// Ended with `result`.
    Succeeded,
    /// Ended with `error`.
    Failed,
    /// Ended with `cancelled`.
    Cancelled,
}

impl RunStatus {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingTool => "waiting_tool",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// From the word on the wire.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [
            Self::Queued,
            Self::Running,
            Self::WaitingTool,
            Self::Succeeded,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.as_str() == word)
    }

    /// True when nothing follows.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Takes messages.
    Active,
    /// Takes no more.
    Ended,
}

impl SessionStatus {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Ended => "ended",
        }
    }

    /// From the word on the wire.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Active, Self::Ended]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}
