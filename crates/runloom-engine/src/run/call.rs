//! The calls of a tool turn.

use runloom_protocol::id::ApprovalId;
use serde_json::Value;

/// One call of the current tool turn.
#[derive(Debug, Clone)]
pub struct Call {
    /// `tu_…`.
    pub id: String,
    /// The provider's id.
    pub provider_id: String,
    /// Model-facing name.
    pub name: String,
    /// Arguments.
    pub input: Value,
    /// How far it is.
    pub state: CallState,
    /// The person's changes of the arguments; the result begins with them.
    pub edit: Option<String>,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallState {
    /// Not decided yet.
    New,
    /// Waits for a person's decision.
    Pending {
        /// Which approval.
        approval: ApprovalId,
        /// When it is denied, in milliseconds since the Unix epoch.
        deadline: i64,
        /// The same for people.
        expires_at: String,
    },
    /// A person approved it.
    Approved,
    /// A person denied it, or the time limit passed; its result is not written yet.
    Refused {
        /// The result that the model reads.
        text: String,
    },
    /// The client was asked.
    Asked {
        /// When it times out, in milliseconds since the Unix epoch.
        deadline: i64,
    },
    /// The server has begun to execute it: whether it took effect is unknown until the result is there.
    Called,
    /// Its child is alive.
    Delegated,
    /// The result is available.
    Done {
        /// The result that the model reads.
        content: String,
        /// The tool failed or was not executed.
        is_error: bool,
    },
}
