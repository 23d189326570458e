//! Memories of a workspace: short texts under keys, with links between them.

use async_trait::async_trait;

use super::{Millis, StoreResult, WorkspaceNo};

/// Stores memories and finds them by words and links.
///
/// Contract:
/// - A key is unique in its workspace. Putting it again replaces the text and keeps the links, unless links are
///   given.
/// - Links join memories of one workspace. They are deleted with either end.
/// - [`Memories::matching`] compares prefixes of words, ignoring case. The caller splits the words, which consist of
///   letters and digits. Better matches come first; among equals the newer one.
/// - No method crosses workspaces, whatever the keys and words.
#[async_trait]
pub trait Memories: Send + Sync {
    /// Stores a memory and its links in one transaction.
    async fn remember(&self, put: PutMemory) -> StoreResult<Remembered>;

    /// The memories with these keys, in no particular order; unknown keys are passed over.
    async fn memories_by_key(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
    ) -> StoreResult<Vec<MemoryRow>>;

    /// The memories with a word that begins with one of the words, best first.
    async fn matching(
        &self,
        workspace: WorkspaceNo,
        words: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>>;

    /// Links from or to one of these memories, oldest first, at most `limit`.
    async fn links_at(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryLink>>;

    /// Memories in the order of their creation, newest first. `before` is the number of the last memory of the
    /// previous page.
    async fn memories(
        &self,
        workspace: WorkspaceNo,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>>;

    /// Deletes a memory with its links. Returns whether it existed.
    async fn forget(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<bool>;

    /// Deletes at most `limit` memories that were last changed before a time. Returns their number.
    async fn forget_before(
        &self,
        workspace: WorkspaceNo,
        before: Millis,
        limit: usize,
    ) -> StoreResult<usize>;
}

/// A memory to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutMemory {
    /// Owner.
    pub workspace: WorkspaceNo,
    /// Its name in the workspace.
    pub key: String,
    /// The text.
    pub text: String,
    /// The words that it is found by, with single spaces between them.
    pub words: String,
    /// Its new outgoing links, as (relation, key); `None` leaves them unchanged.
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
    /// Links to unknown keys; nothing was stored.
    Unknown(Vec<String>),
    /// The workspace has its maximum number; nothing was stored.
    Full,
}

/// A memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// Rises in the order of creation.
    pub no: i64,
    /// Its name in the workspace.
    pub key: String,
    /// The text.
    pub text: String,
    /// Time of creation.
    pub created_at: Millis,
    /// Time of the last change.
    pub updated_at: Millis,
}

/// A link between two memories of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLink {
    /// Where it begins.
    pub from: String,
    /// Its name.
    pub relation: String,
    /// Where it ends.
    pub to: String,
}
