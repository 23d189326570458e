//! Documents of a workspace: agents, tools, plugins, secrets, external agents, providers, toolsets.

use async_trait::async_trait;

use super::{Millis, RunNo, SessionNo, StoreResult, WorkspaceNo};

/// Stores documents. A body is opaque to the store.
///
/// Contract:
/// - A slug is unique in its workspace and kind; an id is unique everywhere and never reused.
/// - A document begins with version 1, and each replacement adds one. The last [`VERSIONS_KEPT`] versions are
///   readable for kinds that keep versions ([`DocumentKind::keeps_versions`]). Other kinds and deleted documents keep
///   no old version.
/// - A precondition and its change are one transaction.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Creates the document, or replaces the one with this slug.
    async fn put_document(&self, put: PutDocument) -> StoreResult<Put>;

    /// One document, by its id or its slug; an id takes precedence.
    async fn document(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id_or_slug: &str,
    ) -> StoreResult<Option<Document>>;

    /// A document as it was at a version, by its id.
    async fn document_version(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id: &str,
        version: u64,
    ) -> StoreResult<Option<Document>>;

    /// All documents of a kind, by slug.
    async fn documents(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
    ) -> StoreResult<Vec<Document>>;

    /// A text that changes whenever a provider or a secret of any workspace does.
    async fn providers_stamp(&self) -> StoreResult<String>;

    /// Deletes a document and its old versions, by its id or its slug.
    async fn delete_document(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id_or_slug: &str,
        expect: Expect,
    ) -> StoreResult<Deleted>;

    /// Rows that may hold sealed texts, after `after`, in a stable order: documents of every workspace with their old
    /// versions, specs of open sessions and of live runs. `None` starts at the beginning.
    async fn sealed(&self, after: Option<SealedKey>, limit: usize) -> StoreResult<Vec<Sealed>>;

    /// Replaces sealed texts without changing versions or times. A row that is gone, or whose text is no longer
    /// `before`, is skipped. Returns the number of replaced texts.
    async fn reseal(&self, texts: Vec<Resealed>) -> StoreResult<usize>;

    /// A private setting of the server.
    async fn setting(&self, name: &str) -> StoreResult<Option<String>>;

    /// A private setting; set to `value` when it is missing.
    async fn setting_or(&self, name: &str, value: &str) -> StoreResult<String>;

    /// Changes a setting.
    async fn put_setting(&self, name: &str, value: &str) -> StoreResult<()>;
}

/// Number of old versions kept of a document.
pub const VERSIONS_KEPT: u64 = 100;

/// Kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DocumentKind {
    /// A persisted agent.
    Agent,
    /// A workspace tool.
    Tool,
    /// An installed plugin.
    Plugin,
    /// A secret, sealed.
    Secret,
    /// A named A2A peer.
    ExternalAgent,
    /// A provider with its models.
    Provider,
    /// A named connection to an MCP server.
    Toolset,
    /// The project of a workspace; its slug is `project`.
    Project,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Agent,
        Self::Tool,
        Self::Plugin,
        Self::Secret,
        Self::ExternalAgent,
        Self::Provider,
        Self::Toolset,
        Self::Project,
    ];

    /// The word in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Plugin => "plugin",
            Self::Secret => "secret",
            Self::ExternalAgent => "external_agent",
            Self::Provider => "provider",
            Self::Toolset => "toolset",
            Self::Project => "project",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether old versions stay readable. Those of agents do, because runs refer to them; a replaced secret must
    /// not.
    #[must_use]
    pub fn keeps_versions(self) -> bool {
        self == Self::Agent
    }
}

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Public id.
    pub id: String,
    /// Its name in the workspace.
    pub slug: String,
    /// Its kind.
    pub kind: DocumentKind,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// From 1.
    pub version: u64,
    /// JSON.
    pub body: String,
    /// Time of the first version.
    pub created_at: Millis,
    /// Time of this version.
    pub updated_at: Millis,
}

/// A document to store.
#[derive(Debug, Clone)]
pub struct PutDocument {
    /// Used when the slug is new.
    pub id: String,
    /// Its name in the workspace.
    pub slug: String,
    /// Its kind.
    pub kind: DocumentKind,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// JSON.
    pub body: String,
    /// The precondition.
    pub expect: Expect,
    /// Documents of this kind that a workspace may have.
    pub limit: usize,
    /// Now.
    pub now: Millis,
}

/// Precondition of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Expect {
    /// No precondition.
    #[default]
    Anything,
    /// It is not there.
    Absent,
    /// It is there.
    Present,
    /// It is there, with this id and version.
    Exactly {
        /// Its id.
        id: String,
        /// Its version.
        version: u64,
    },
}

impl Expect {
    /// Whether it holds for the found document.
    #[must_use]
    pub fn holds(&self, found: Option<(&str, u64)>) -> bool {
        match (self, found) {
            (Self::Anything, _) | (Self::Absent, None) | (Self::Present, Some(_)) => true,
            (Self::Exactly { id, version }, Some(found)) => (id.as_str(), *version) == found,
            (Self::Absent | Self::Present | Self::Exactly { .. }, _) => false,
        }
    }
}

/// Answer to [`Registry::put_document`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It is new.
    Created(Document),
    /// It was there.
    Replaced(Document),
    /// The precondition does not hold.
    Mismatch,
    /// The workspace has as many as it may.
    Full,
}

/// Answer to [`Registry::delete_document`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// The document was deleted.
    Gone,
    /// The precondition does not hold.
    Mismatch,
    /// There is no such document.
    Unknown,
}

/// Position of a sealed text. Ordered as [`Registry::sealed`] lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SealedKey {
    /// A version of a document: row number and version.
    Document(i64, u64),
    /// The spec of a session.
    Session(SessionNo),
    /// The spec of a run.
    Run(RunNo),
}

/// A text with sealed parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Its position.
    pub key: SealedKey,
    /// For a document: its workspace's slug, kind and slug, to which its secrets are bound.
    pub owner: Option<(String, DocumentKind, String)>,
    /// JSON.
    pub text: String,
}

/// A text sealed anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resealed {
    /// Its position.
    pub key: SealedKey,
    /// The expected text.
    pub before: String,
    /// The new text.
    pub after: String,
}
