//! The project port: permissions of a run for `project_cli`, and the credentials of its processes.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use runloom_protocol::id::{RunId, SessionId};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::secret::Secret;

/// The owner for whom a run acts; taken from the caller's credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// `user:…`, `app:…`, `ext:…`, `key:…` or `workspace`.
    pub id: String,
    /// The address that invites reach, in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

impl Owner {
    /// The owner that all `developer_api` keys of a workspace share.
    #[must_use]
    pub fn workspace() -> Self {
        Self {
            id: "workspace".to_owned(),
            email: None,
        }
    }

    /// Whether runs of this owner are hidden from other personal owners: `user:`, `app:` and `ext:`.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        ["user:", "app:", "ext:"]
            .iter()
            .any(|prefix| self.id.starts_with(prefix))
    }
}

/// How a run was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A message to a session.
    Chat,
    /// A plain run.
    Automation,
}

/// The modules of a router, with the methods that it has of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterModule {
    /// Name of the module.
    pub name: String,
    /// Its methods.
    pub methods: Vec<String>,
}

/// The project permissions of a run, fixed when it is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunProject {
    /// The owner for whom it acts.
    pub owner: Owner,
    /// The API key or grant that started it.
    pub source: String,
    /// How it was started.
    pub via: Via,
    /// The router: no other action exists.
    pub router: Vec<RouterModule>,
    /// The allow-list: actions `module.method` that it may execute.
    pub allow: Vec<String>,
    /// Enabled skills, in the project's order.
    pub skills: Vec<String>,
    /// Text after the system prompt; empty without enabled skills.
    pub prompt: String,
    /// Timeout of one call.
    pub timeout_ms: u64,
    /// Bytes of a child's stdout.
    pub max_output_bytes: usize,
    /// Lifetime of a credential.
    pub credential_ttl_seconds: u64,
}

impl RunProject {
    /// Whether the router has the action.
    #[must_use]
    pub fn has(&self, module: &str, method: &str) -> bool {
        let methods = |known: &&RouterModule| known.name == module;
        let found = self.router.iter().find(methods);
        found.is_some_and(|known| known.methods.iter().any(|name| name == method))
    }

    /// Whether the allow-list has the action.
    #[must_use]
    pub fn allows(&self, module: &str, method: &str) -> bool {
        let action = format!("{module}.{method}");
        self.allow.contains(&action)
    }
}

/// The call that a credential is minted for.
#[derive(Debug, Clone)]
pub struct CallIdentity {
    /// Slug of the workspace.
    pub workspace: Arc<str>,
    /// Which run.
    pub run: RunId,
    /// Its session.
    pub session: Option<SessionId>,
    /// `tu_…`.
    pub call: String,
    /// Permissions of the run.
    pub project: Arc<RunProject>,
}

/// A call that may use the loopback API until this is dropped.
pub struct OpenedCall {
    /// The credential, for the environment of the child process and nothing else.
    pub credential: Secret,
    /// Base address of the loopback API.
    pub api: String,
    /// Ends the call when it is dropped.
    pub ends_on_drop: Box<dyn Any + Send>,
}

/// Why no credential was minted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MintError {
    /// The API key or grant that started the run is revoked.
    Revoked,
    /// This process does not serve the loopback API.
    NoApi,
}

/// Mints controlled credentials.
#[async_trait]
pub trait ProjectAuthority: Send + Sync {
    /// Whether the credential that started a run is not revoked.
    ///
    /// # Errors
    /// When the store fails.
    async fn is_source_live(&self, call: &CallIdentity) -> Result<bool>;

    /// Mints a credential for a call, which counts as in progress from now on.
    ///
    /// # Errors
    /// Inside the result: the refusal. Outside: the store failed.
    async fn open_call(
        &self,
        call: CallIdentity,
    ) -> Result<std::result::Result<OpenedCall, MintError>>;
}
