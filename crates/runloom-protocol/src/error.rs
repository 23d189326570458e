//! How a request is refused: one body, one list of codes.

use serde::{Deserialize, Serialize};

/// One violation in a request body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Where, like `tools[2].parameters` or `budgets.maxToolTurns`; empty for the body itself.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}
