//! The admin API: workspaces, API keys, OAuth apps, users and key rotation, as they are on the wire. The server and the
//! Rust SDK use the same types.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::id::KeyId;
use crate::read::keywords;

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// The name in URLs, `^[a-z0-9][a-z0-9-]{0,62}$`.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The features that are switched off: `apiKeys`, `oauthApps`.
    pub without: Vec<String>,
}

/// A workspace with its default model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceDetails {
    /// The workspace.
    #[serde(flatten)]
    pub workspace: Workspace,
    /// The catalog id of the model that a run without `modelId` uses; `null` when there is none.
    pub default_model_id: Option<String>,
}

/// All workspaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceList {
    /// The workspaces, by slug.
    pub workspaces: Vec<Workspace>,
}

/// Creates or changes a workspace. An absent field keeps its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutWorkspace {
    /// The display name, 1 to 256 characters. A new workspace without one is named by its slug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The features that are switched off: `apiKeys`, `oauthApps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<Vec<String>>,
}

keywords! {
    /// What an API key can be used for.
    #[derive(Default)]
    pub enum KeyUsage {
        /// The workspace API, and every other entry point.
        #[default]
        DeveloperApi = "developer_api",
        /// Published agents over A2A only.
        A2a = "a2a",
        /// Published agents over MCP only.
        Mcp = "mcp",
        /// Reading and deciding approvals only.
        Approvals = "approvals",
    }
}

/// Creates an API key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// A label, at most 256 characters.
    #[serde(default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What the key can be used for.
    #[serde(default, deserialize_with = "null_as_default")]
    pub usage: KeyUsage,
    /// Ids or slugs of the agents that the key may run; none means every agent and every ephemeral run.
    #[serde(default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_ids: Vec<String>,
    /// The key's own limit of run starts; absent means the server's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_minute: Option<u32>,
    /// Whether requests with the key may name the owner that they act for (`X-Runloom-Owner`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub act_for_owners: bool,
}

/// A new API key. This is the only response that contains the key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyCreated {
    /// The id of the key.
    pub id: KeyId,
    /// The key itself, `mantyx_…`.
    pub key: String,
}

impl fmt::Debug for KeyCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyCreated")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// An API key without its secret part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// The id of the key.
    pub id: KeyId,
    /// The label; may be empty.
    pub name: String,
    /// The first characters of the key.
    pub prefix: String,
    /// What the key can be used for.
    pub usage: KeyUsage,
    /// Ids or slugs of the agents that the key may run; none means every agent and every ephemeral run.
    pub agent_ids: Vec<String>,
    /// The key's own limit of run starts; `null` means the server's default.
    pub runs_per_minute: Option<u32>,
    /// Whether requests with the key may name the owner that they act for (`X-Runloom-Owner`).
    #[serde(default)]
    pub act_for_owners: bool,
    /// When the key was created.
    pub created_at: String,
    /// When the key was revoked; `null` while it is valid.
    pub revoked_at: Option<String>,
}

/// The API keys of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiKeyList {
    /// The keys, oldest first, revoked ones included.
    pub keys: Vec<ApiKey>,
}

/// Which users can grant access to an OAuth app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Users of the workspace that the app belongs to.
    #[default]
    Private,
    /// Users of every workspace.
    Public,
}

impl Visibility {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

/// Registers an OAuth app.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateOauthApp {
    /// The name that the consent page shows.
    #[serde(default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Which users can grant access to the app.
    #[serde(default, deserialize_with = "null_as_default")]
    pub visibility: Visibility,
    /// The URIs that users can be redirected to. Required for the authorization code grant.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// The scopes that the app can ask for.
    pub scopes: Vec<String>,
    /// Whether the app can get tokens for itself (client credentials grant).
    #[serde(default)]
    pub client_credentials: bool,
}

/// The credentials of an OAuth app. This is the only response that contains the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OauthAppCreated {
    /// The client id, `mantyx_oa_…`.
    pub client_id: String,
    /// The client secret, `mantyx_oas_…`.
    pub client_secret: String,
}

impl fmt::Debug for OauthAppCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthAppCreated")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// An OAuth app without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OauthApp {
    /// The client id, `mantyx_oa_…`.
    pub client_id: String,
    /// The name that the consent page shows.
    pub name: String,
    /// Which users can grant access to the app.
    pub visibility: Visibility,
    /// The URIs that users can be redirected to.
    pub redirect_uris: Vec<String>,
    /// The scopes that the app can ask for.
    pub scopes: Vec<String>,
    /// Whether the app can get tokens for itself (client credentials grant).
    pub client_credentials: bool,
    /// When the app was registered.
    pub created_at: String,
}

/// The OAuth apps of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OauthAppList {
    /// The apps, oldest first.
    pub oauth_apps: Vec<OauthApp>,
}

/// Creates or changes a user. An absent field keeps its value.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutUser {
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The password for the consent page, 12 to 256 characters. Required for a new user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The slugs of the user's workspaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<String>>,
}

impl fmt::Debug for PutUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutUser")
            .field("name", &self.name)
            .field("workspaces", &self.workspaces)
            .finish_non_exhaustive()
    }
}

/// A user who can sign in at the consent page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The id of the user.
    pub id: String,
    /// The email address that the user signs in with.
    pub email: String,
    /// The display name; may be empty.
    pub name: String,
    /// The slugs of the user's workspaces.
    pub workspaces: Vec<String>,
    /// When the user was created.
    pub created_at: String,
}

/// All users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserList {
    /// The users, by email address.
    pub users: Vec<User>,
}

/// The result of a key rotation: how many stored values were sealed with the current master key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rotation {
    /// Values that were sealed again.
    pub resealed: usize,
    /// Values that changed during the rotation; their change sealed them with the current key.
    pub skipped: usize,
    /// Values that no known key opens. They are left unchanged.
    pub unreadable: usize,
}

/// Reads `null` as an absent field.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_counts_as_absent() {
        let body = r#"{"name":null,"usage":null,"agentIds":null,"runsPerMinute":null}"#;
        let key: CreateKey = serde_json::from_str(body).unwrap();
        assert_eq!(key, CreateKey::default());
        assert!(serde_json::from_str::<CreateKey>(r#"{"agents":[]}"#).is_err());
    }

    #[test]
    fn secrets_are_not_printed() {
        let created = KeyCreated {
            id: KeyId::from_suffix("1"),
            key: "mantyx_hidden".to_owned(),
        };
        let user = PutUser {
            password: Some("mantyx_hidden".to_owned()),
            ..PutUser::default()
        };
        assert!(!format!("{created:?}{user:?}").contains("hidden"));
    }
}
