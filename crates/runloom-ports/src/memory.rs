//! The memory port: what agents of a workspace remember.

use async_trait::async_trait;
use runloom_protocol::resource::{MemoryInfo, MemoryLinkInfo};

use crate::error::Result;

/// Memories of workspaces, as agents use them.
#[async_trait]
pub trait WorkspaceMemory: Send + Sync {
    /// Keeps a memory, or replaces the one with its key. Idempotent.
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

/// A memory to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remember {
    /// Its key; made from the text when there is none, so that the same text is kept once.
    pub key: Option<String>,
    /// What is remembered.
    pub text: String,
    /// Its outgoing links from now on, as (relation, key); `None` leaves them as they are.
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

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recollection {
    /// Memories; best first, or nearest first.
    pub memories: Vec<MemoryInfo>,
    /// Links between them.
    pub links: Vec<MemoryLinkInfo>,
    /// There is more than was asked for.
    pub truncated: bool,
}

/// What a memory became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its key.
    pub key: String,
    /// Whether there was none before.
    pub created: bool,
}
