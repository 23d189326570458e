//! The admin API: workspaces and their keys.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::options::Options;
use crate::transport::{Call, Repeat, Transport};

/// A connection to a server's admin API.
#[derive(Debug, Clone)]
pub struct AdminClient {
    transport: Transport,
}

/// A workspace to be created, or changed when the slug exists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateWorkspace {
    /// `^[a-z0-9][a-z0-9-]{0,62}$`.
    #[serde(skip)]
    pub slug: String,
    /// For people; the slug when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Features that are switched off: `apiKeys`, `oauthApps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceInfo {
    /// Its name in URLs.
    pub slug: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// Features that are switched off.
    #[serde(default)]
    pub without: Vec<String>,
}

/// A key to be created.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateKey {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `developer_api` (the default), `a2a` or `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// Agents it may run; empty = every agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_ids: Vec<String>,
    /// Its own limit of run starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_per_minute: Option<u32>,
}

/// A key that was just created. The only time the key is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreated {
    /// Its row.
    pub id: String,
    /// The key itself.
    pub key: String,
}

impl std::fmt::Debug for KeyCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCreated")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A key as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo {
    /// Its row.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// The first characters.
    #[serde(default)]
    pub prefix: String,
    /// What it is for.
    #[serde(default)]
    pub usage: String,
    /// Agents it may run; empty = every agent.
    #[serde(default)]
    pub agent_ids: Vec<String>,
    /// Its own limit of run starts.
    #[serde(default)]
    pub runs_per_minute: Option<u32>,
    /// When it was created.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was revoked.
    #[serde(default)]
    pub revoked_at: Option<String>,
}

impl AdminClient {
    /// A client with default limits.
    ///
    /// # Errors
    /// [`Error::Setup`] when the URL or the token cannot be used.
    pub fn new(base_url: &str, admin_token: &str) -> Result<Self> {
        if admin_token.is_empty() {
            return Err(Error::Setup("the admin token is empty".to_owned()));
        }
        Ok(Self {
            transport: Transport::new(base_url, Some(admin_token), Options::default())?,
        })
    }

    /// Creates a workspace, or changes the one with this slug.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn create_workspace(&self, workspace: &CreateWorkspace) -> Result<WorkspaceInfo> {
        let path = ["api", "admin", "v1", "workspaces", &workspace.slug];
        let call = Call::post(self.transport.url(path), workspace, Repeat::Harmless)?;
        let method = Method::PUT;
        self.transport.json(Call { method, ..call }).await
    }

    /// All workspaces, by slug.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn workspaces(&self) -> Result<Vec<WorkspaceInfo>> {
        #[derive(Deserialize)]
        struct Page {
            workspaces: Vec<WorkspaceInfo>,
        }
        let url = self.transport.url(["api", "admin", "v1", "workspaces"]);
        let page: Page = self.transport.json(Call::get(url)).await?;
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
    pub async fn keys(&self, workspace: &str) -> Result<Vec<KeyInfo>> {
        #[derive(Deserialize)]
        struct Page {
            keys: Vec<KeyInfo>,
        }
        let page: Page = self
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

    fn keys_url(&self, workspace: &str, key: Option<&str>) -> reqwest::Url {
        let segments = ["api", "admin", "v1", "workspaces", workspace, "keys"];
        self.transport.url(segments.into_iter().chain(key))
    }
}
