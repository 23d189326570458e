//! The admin API's JSON.

use runloom_ports::clock::rfc3339;
use runloom_ports::store::{KeyRow, KeyUsage, WorkspaceRow};
use runloom_protocol::error::Issue;
use runloom_protocol::id::KeyId;
use runloom_service::tenancy::{CreateKey, PutWorkspace};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::extract::Checkable;

#[derive(Debug, Serialize)]
pub(super) struct WorkspaceList {
    pub(super) workspaces: Vec<WorkspaceView>,
}

#[derive(Debug, Serialize)]
pub(super) struct WorkspaceView {
    slug: String,
    name: String,
    without: Vec<String>,
}

impl WorkspaceView {
    pub(super) fn of(row: WorkspaceRow) -> Self {
        Self {
            slug: row.slug,
            name: row.name,
            without: row.without,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkspaceShown {
    #[serde(flatten)]
    pub(super) workspace: WorkspaceView,
    pub(super) default_model_id: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct KeyList {
    pub(super) keys: Vec<KeyView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyView {
    id: KeyId,
    name: String,
    prefix: String,
    usage: KeyUsage,
    agent_ids: Vec<String>,
    runs_per_minute: Option<u32>,
    created_at: String,
    revoked_at: Option<String>,
}

impl KeyView {
    pub(super) fn of(row: KeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            prefix: row.prefix,
            usage: row.usage,
            agent_ids: row.agent_ids,
            runs_per_minute: row.runs_per_minute,
            created_at: rfc3339(row.created_at),
            revoked_at: row.revoked_at.map(rfc3339),
        }
    }
}

/// The only answer that shows a key; no `Debug`, so that it cannot end up in a log.
#[derive(Serialize)]
pub(super) struct KeyCreated {
    pub(super) id: KeyId,
    pub(super) key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PutWorkspaceBody {
    name: Option<String>,
    without: Option<Vec<String>>,
}

impl Checkable for PutWorkspace {
    const OPERATION: &'static str = "put_workspace";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        let body: PutWorkspaceBody = read(body)?;
        Ok(Self {
            name: body.name,
            without: body.without,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateKeyBody {
    name: Option<String>,
    usage: Option<KeyUsage>,
    agent_ids: Option<Vec<String>>,
    runs_per_minute: Option<u32>,
}

impl Checkable for CreateKey {
    const OPERATION: &'static str = "create_key";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        let body: CreateKeyBody = read(body)?;
        Ok(Self {
            name: body.name.unwrap_or_default(),
            usage: body.usage.unwrap_or(KeyUsage::DeveloperApi),
            agent_ids: body.agent_ids.unwrap_or_default(),
            runs_per_minute: body.runs_per_minute,
        })
    }
}

pub(super) fn read<T: DeserializeOwned>(body: &Value) -> Result<T, Vec<Issue>> {
    T::deserialize(body).map_err(|error| {
        vec![Issue {
            path: String::new(),
            message: error.to_string(),
        }]
    })
}
