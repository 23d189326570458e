//! The admin API: workspaces, their keys, the documents that they keep and what they remember.

use reqwest::Method;
use runloom_protocol::admin::{
    ApiKey, ApiKeyList, CreateKey, KeyCreated, PutWorkspace, Rotation, Workspace, WorkspaceDetails,
    WorkspaceList,
};
use runloom_protocol::resource::{
    InstalledPlugin, InstalledToolset, MemoriesForgotten, MemoryList, StoredDocument,
};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::transport::{Call, Repeat, Transport};

/// A connection to a server's admin API.
#[derive(Debug, Clone)]
pub struct AdminClient {
    pub(crate) transport: Transport,
}

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// A persisted agent.
    Agent,
    /// A workspace tool.
    Tool,
    /// An installed plugin.
    Plugin,
    /// A secret; its value goes in and never comes out.
    Secret,
    /// A named A2A peer.
    ExternalAgent,
    /// A provider with its models.
    Provider,
    /// A named connection to an MCP server.
    Toolset,
    /// The project of the workspace; there is one.
    Project,
}

impl DocumentKind {
    fn in_paths(self) -> &'static str {
        match self {
            Self::ExternalAgent => "external-agents",
            other => other.in_lists(),
        }
    }

    fn in_lists(self) -> &'static str {
        match self {
            Self::Agent => "agents",
            Self::Tool => "tools",
            Self::Plugin => "plugins",
            Self::Secret => "secrets",
            Self::ExternalAgent => "externalAgents",
            Self::Provider => "providers",
            Self::Toolset => "toolsets",
            Self::Project => "project",
        }
    }
}

/// What must hold of a document before it is changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// It is not there.
    Absent,
    /// It is as it was read.
    Unchanged {
        /// Its id.
        id: String,
        /// Its version.
        version: u64,
    },
}

impl Call {
    fn under(self, condition: &Condition) -> Self {
        let header = match condition {
            Condition::None => None,
            Condition::Absent => Some(("If-None-Match", "*".to_owned())),
            Condition::Unchanged { id, version } => {
                Some(("If-Match", format!("\"{id}.{version}\"")))
            }
        };
        // After an answer that got lost, the repetition of a guarded change would find its own work and be refused.
        let repeat = match header {
            None => self.repeat,
            Some(_) => Repeat::OnlyIfRefused,
        };
        Self {
            condition: header,
            repeat,
            ..self
        }
    }
}

impl AdminClient {
    /// A client with default limits.
    ///
    /// # Errors
    /// [`Error::Setup`] when the URL or the token cannot be used.
    pub fn new(base_url: &str, admin_token: &str) -> Result<Self> {
        Self::with_options(base_url, admin_token, Options::default())
    }

    /// A client with its own limits.
    ///
    /// # Errors
    /// [`Error::Setup`] when the URL or the token cannot be used.
    pub fn with_options(base_url: &str, admin_token: &str, options: Options) -> Result<Self> {
        if admin_token.is_empty() {
            return Err(Error::Setup("the admin token is empty".to_owned()));
        }
        Ok(Self {
            transport: Transport::new(base_url, Some(admin_token), options)?,
        })
    }

    /// Creates a workspace, or changes the one with this slug.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn put_workspace(&self, slug: &str, workspace: &PutWorkspace) -> Result<Workspace> {
        let path = ["api", "admin", "v1", "workspaces", slug];
        let call = Call::post(self.transport.url(path), workspace, Repeat::Harmless)?;
        let method = Method::PUT;
        self.transport.json(Call { method, ..call }).await
    }

    /// One workspace.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn workspace(&self, slug: &str) -> Result<WorkspaceDetails> {
        let url = self
            .transport
            .url(["api", "admin", "v1", "workspaces", slug]);
        self.transport.json(Call::get(url)).await
    }

    /// All workspaces, by slug.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn workspaces(&self) -> Result<Vec<Workspace>> {
        let url = self.transport.url(["api", "admin", "v1", "workspaces"]);
        let page: WorkspaceList = self.transport.json(Call::get(url)).await?;
        Ok(page.workspaces)
    }

    /// Creates a key.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn create_key(&self, workspace: &str, key: &CreateKey) -> Result<KeyCreated> {
        let call = Call::post(self.keys_url(workspace, None), key, Repeat::OnlyIfRefused)?;
        self.transport.json(call).await
    }

    /// The keys of a workspace, oldest first.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn keys(&self, workspace: &str) -> Result<Vec<ApiKey>> {
        let page: ApiKeyList = self
            .transport
            .json(Call::get(self.keys_url(workspace, None)))
            .await?;
        Ok(page.keys)
    }

    /// Revokes a key, by its id or by the key itself.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn revoke_key(&self, workspace: &str, key_or_id: &str) -> Result<()> {
        let url = self.keys_url(workspace, Some(key_or_id));
        self.transport
            .bytes(Call::empty(Method::DELETE, url))
            .await
            .map(drop)
    }

    /// Creates a document, or replaces the one with this slug.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn put_document(
        &self,
        workspace: &str,
        kind: DocumentKind,
        slug: &str,
        definition: &Value,
        condition: &Condition,
    ) -> Result<StoredDocument> {
        let url = self.documents_url(workspace, kind, Some(slug));
        let call = Call::post(url, definition, Repeat::Harmless)?;
        let method = Method::PUT;
        let call = Call { method, ..call }.under(condition);
        self.transport.json(call).await
    }

    /// One document, by its slug or id; agents also at a version.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn document(
        &self,
        workspace: &str,
        kind: DocumentKind,
        slug: &str,
        version: Option<u64>,
    ) -> Result<StoredDocument> {
        let mut url = self.documents_url(workspace, kind, Some(slug));
        if let Some(version) = version {
            url.query_pairs_mut()
                .append_pair("version", &version.to_string());
        }
        self.transport.json(Call::get(url)).await
    }

    /// All documents of a kind, by slug.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn documents(
        &self,
        workspace: &str,
        kind: DocumentKind,
    ) -> Result<Vec<StoredDocument>> {
        let url = self.documents_url(workspace, kind, None);
        listed(self.transport.json(Call::get(url)).await?, kind.in_lists())
    }

    /// The plugins that a workspace has without keeping them: of the operator's configuration, and those that come
    /// with the server.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn installed_plugins(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        let url = self.documents_url(workspace, DocumentKind::Plugin, None);
        let answer: Value = self.transport.json(Call::get(url)).await?;
        // Servers did not always tell of them.
        if answer.get("installed").is_none() {
            return Ok(Vec::new());
        }
        listed(answer, "installed")
    }

    /// The toolsets that a workspace has without keeping them.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn installed_toolsets(&self, workspace: &str) -> Result<Vec<InstalledToolset>> {
        let url = self.documents_url(workspace, DocumentKind::Toolset, None);
        listed(self.transport.json(Call::get(url)).await?, "installed")
    }

    /// Deletes a document, by its slug or id.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn delete_document(
        &self,
        workspace: &str,
        kind: DocumentKind,
        slug: &str,
        condition: &Condition,
    ) -> Result<()> {
        let url = self.documents_url(workspace, kind, Some(slug));
        let call = Call::empty(Method::DELETE, url).under(condition);
        self.transport.bytes(call).await.map(drop)
    }

    /// Seals everything with the server's current master key.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn rotate_secrets(&self) -> Result<Rotation> {
        let path = ["api", "admin", "v1", "secrets", "rotate"];
        let url = self.transport.url(path);
        self.transport.json(Call::empty(Method::POST, url)).await
    }

    /// A page of what a workspace remembers, newest first.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn memories(
        &self,
        workspace: &str,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<MemoryList> {
        let mut url = self.memories_url(workspace, None);
        url.query_pairs_mut()
            .append_pair("limit", &limit.to_string())
            .extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
        self.transport.json(Call::get(url)).await
    }

    /// Forgets one memory.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn forget_memory(&self, workspace: &str, key: &str) -> Result<()> {
        let url = self.memories_url(workspace, Some(key));
        let call = Call::empty(Method::DELETE, url);
        self.transport.bytes(call).await.map(drop)
    }

    /// Forgets what was not changed for this many days, with 0 everything.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn forget_memories(&self, workspace: &str, days: u32) -> Result<MemoriesForgotten> {
        let mut url = self.memories_url(workspace, None);
        url.query_pairs_mut()
            .append_pair("olderThanDays", &days.to_string());
        self.transport.json(Call::empty(Method::DELETE, url)).await
    }

    fn memories_url(&self, workspace: &str, key: Option<&str>) -> reqwest::Url {
        let segments = ["api", "admin", "v1", "workspaces", workspace, "memories"];
        self.transport.url(segments.into_iter().chain(key))
    }

    fn documents_url(
        &self,
        workspace: &str,
        kind: DocumentKind,
        slug: Option<&str>,
    ) -> reqwest::Url {
        let slug = slug.filter(|_| kind != DocumentKind::Project);
        let kind = kind.in_paths();
        let segments = ["api", "admin", "v1", "workspaces", workspace, kind];
        self.transport.url(segments.into_iter().chain(slug))
    }

    fn keys_url(&self, workspace: &str, key: Option<&str>) -> reqwest::Url {
        let segments = ["api", "admin", "v1", "workspaces", workspace, "keys"];
        self.transport.url(segments.into_iter().chain(key))
    }
}

/// One of the lists of an answer.
fn listed<T: serde::de::DeserializeOwned>(mut answer: Value, list: &str) -> Result<Vec<T>> {
    let found = answer.get_mut(list).map(Value::take);
    let found = found.ok_or_else(|| Error::Protocol(format!("the answer has no `{list}`")))?;
    serde_json::from_value(found).map_err(|error| Error::Protocol(format!("`{list}`: {error}")))
}
