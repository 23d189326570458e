//! Memories of a workspace, as the API returns them.

use serde::{Deserialize, Serialize};

/// A memory: a text that agents stored for later runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryInfo {
    /// The name of the memory in the workspace.
    pub key: String,
    /// The text.
    pub text: String,
    /// When the memory was created.
    pub created_at: String,
    /// When the memory was last changed.
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

/// A page of memories, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryList {
    /// The memories of this page.
    pub memories: Vec<MemoryInfo>,
    /// The `cursor` of the next page; `null` on the last page.
    pub next_cursor: Option<String>,
}

/// The result of deleting memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoriesForgotten {
    /// The number of deleted memories.
    pub forgotten: usize,
}
