//! Memories of a workspace: short texts under keys, with links between them.

use async_trait::async_trait;

use super::{Millis, StoreResult, WorkspaceNo};

/// Keeps memories and finds them by their words and their links.
///
/// Contract:
/// - A key is unique in its workspace. Putting it again replaces the text and keeps the links, unless links are given.
/// - Links join memories of one workspace. They go with either of their ends.
/// - [`Memories::matching`] compares words by their beginnings, without regard to case; what a word is, the caller
///   says: it consists of letters and digits. Better matches come first; among equals the newer.
/// - Nothing here reads or writes another workspace's memories, whatever keys and words are asked for.
#[async_trait]
pub trait Memories: Send + Sync {
    /// Keeps a memory; its links are part of the same transaction.
    async fn remember(&self, put: PutMemory) -> StoreResult<Remembered>;

    /// The memories with these keys, in no particular order; unknown keys are passed over.
    async fn memories_by_key(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
    ) -> StoreResult<Vec<MemoryRow>>;

    /// The memories in which at least one of the words begins a word, best first.
    async fn matching(
        &self,
        workspace: WorkspaceNo,
        words: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>>;

    /// Links that begin or end at one of these memories, oldest first, at most `limit` of them.
    async fn links_at(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryLink>>;

    /// Memories in the order in which they were first kept, newest first; `before` is the number of an earlier page's
    /// last.
    async fn memories(
        &self,
        workspace: WorkspaceNo,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>>;

    /// Deletes one, with its links; says whether there was one.
    async fn forget(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<bool>;

    /// Deletes those that were last changed before a time, at most `limit` of them; says how many.
    async fn forget_before(
        &self,
        workspace: WorkspaceNo,
        before: Millis,
        limit: usize,
    ) -> StoreResult<usize>;
}

/// A memory to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutMemory {
    /// Owner.
    pub workspace: WorkspaceNo,
    /// Its name in the workspace.
    pub key: String,
    /// What is remembered.
    pub text: String,
    /// The words that it is found by, with single spaces between them.
    pub words: String,
    /// Its outgoing links from now on, as (relation, key); `None` leaves them as they are.
    pub links: Option<Vec<(String, String)>>,
    /// Memories that the workspace may have.
    pub limit: usize,
    /// Now.
    pub now: Millis,
}

/// Answer to [`Memories::remember`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// It is new.
    Created,
    /// It was there.
    Replaced,
    /// Links lead to keys that are not there; nothing was kept.
    Unknown(Vec<String>),
    /// The workspace has as many as it may; nothing was kept.
    Full,
}

/// A memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// Rising with the order in which they were first kept.
    pub no: i64,
    /// Its name in the workspace.
    pub key: String,
    /// What is remembered.
    pub text: String,
    /// First kept.
    pub created_at: Millis,
    /// Last kept.
    pub updated_at: Millis,
}

/// A link between two memories of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLink {
    /// Where it begins.
    pub from: String,
    /// What it says.
    pub relation: String,
    /// Where it ends.
    pub to: String,
}
