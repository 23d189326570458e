//! The memory port: memories of the agents of a workspace.

use async_trait::async_trait;
use runloom_protocol::resource::{MemoryInfo, MemoryLinkInfo};

use crate::error::Result;

/// Memories of workspaces, as agents use them.
#[async_trait]
pub trait WorkspaceMemory: Send + Sync {
    /// Stores a memory, or replaces the one with its key. Idempotent.
    ///
    /// # Errors
    /// `Invalid` with every violation; `Conflict` when the workspace is full.
    async fn remember(&self, workspace: &str, memory: Remember) -> Result<Kept>;

    /// The memories that fit a question best.
    ///
    /// # Errors
    /// When the store fails.
    async fn recall(&self, workspace: &str, question: &str, limit: usize) -> Result<Recollection>;

    /// The memories that links lead to.
    ///
    /// # Errors
    /// `NotFound` when the first memory does not exist.
    async fn traverse(&self, workspace: &str, walk: Traverse) -> Result<Recollection>;
}

/// A memory to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remember {
    /// Its key. Derived from the text when missing, so that the same text is stored once.
    pub key: Option<String>,
    /// The text.
    pub text: String,
    /// Its new outgoing links, as (relation, key); `None` leaves them unchanged.
    pub links: Option<Vec<(String, String)>>,
}

/// A walk along links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traverse {
    /// Where it begins.
    pub from: String,
    /// Only links with this relation.
    pub relation: Option<String>,
    /// How many links away at most.
    pub hops: u32,
    /// Memories at most.
    pub limit: usize,
}

/// The memories that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recollection {
    /// Memories; best first, or nearest first.
    pub memories: Vec<MemoryInfo>,
    /// Links between them.
    pub links: Vec<MemoryLinkInfo>,
    /// Whether more memories matched than were asked for.
    pub truncated: bool,
}

/// The outcome of storing a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its key.
    pub key: String,
    /// Whether the key was new.
    pub created: bool,
}
