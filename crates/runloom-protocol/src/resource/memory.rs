//! What a workspace remembers, as it is shown.

use serde::{Deserialize, Serialize};

/// A memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryInfo {
    /// Its name in the workspace.
    pub key: String,
    /// What is remembered.
    pub text: String,
    /// When it was first kept.
    pub created_at: String,
    /// When it was last kept.
    pub updated_at: String,
}

/// A link between two memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryLinkInfo {
    /// Key of the memory where it begins.
    pub from: String,
    /// What it says.
    pub relation: String,
    /// Key of the memory where it ends.
    pub to: String,
}

/// Memories of a workspace, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryList {
    /// The page.
    pub memories: Vec<MemoryInfo>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// What was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoriesForgotten {
    /// How many memories.
    pub forgotten: usize,
}
