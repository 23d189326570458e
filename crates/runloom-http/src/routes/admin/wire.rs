//! Rows of the store as JSON of the admin API, and its request bodies.

use runloom_ports::clock::rfc3339;
use runloom_ports::store::{AppRow, KeyRow, UserRow, WorkspaceRow};
use runloom_protocol::admin::{
    ApiKey, CreateKey, CreateOauthApp, OauthApp, PutUser, PutWorkspace, User, Visibility, Workspace,
};
use runloom_protocol::error::Issue;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::extract::Checkable;

pub(super) fn workspace(row: WorkspaceRow) -> Workspace {
    Workspace {
        slug: row.slug,
        name: row.name,
        without: row.without,
    }
}

pub(super) fn api_key(row: KeyRow) -> ApiKey {
    ApiKey {
        id: row.id,
        name: row.name,
        prefix: row.prefix,
        usage: row.usage,
        agent_ids: row.agent_ids,
        runs_per_minute: row.runs_per_minute,
        act_for_owners: row.act_for_owners,
        created_at: rfc3339(row.created_at),
        revoked_at: row.revoked_at.map(rfc3339),
    }
}

pub(super) fn oauth_app(row: AppRow) -> OauthApp {
    OauthApp {
        client_id: row.client_id,
        name: row.name,
        visibility: if row.public {
            Visibility::Public
        } else {
            Visibility::Private
        },
        redirect_uris: row.redirect_uris,
        scopes: row.scopes.iter().map(|scope| scope.to_string()).collect(),
        client_credentials: row.client_credentials,
        created_at: rfc3339(row.created_at),
    }
}

pub(super) fn user(row: UserRow) -> User {
    User {
        id: row.id.to_string(),
        email: row.email,
        name: row.name,
        workspaces: row.workspaces.into_iter().map(|row| row.slug).collect(),
        created_at: rfc3339(row.created_at),
    }
}

impl Checkable for PutWorkspace {
    const OPERATION: &'static str = "put_workspace";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        read(body)
    }
}

impl Checkable for CreateKey {
    const OPERATION: &'static str = "create_key";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        read(body)
    }
}

impl Checkable for CreateOauthApp {
    const OPERATION: &'static str = "create_oauth_app";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        read(body)
    }
}

impl Checkable for PutUser {
    const OPERATION: &'static str = "put_user";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        read(body)
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
