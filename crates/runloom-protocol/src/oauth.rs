//! The OAuth API: tokens, introspection, user information and grants, as they are on the wire.

use serde::{Deserialize, Serialize};

/// The error of an OAuth endpoint (RFC 6749).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OauthError {
    /// The error code of RFC 6749, like `invalid_grant`.
    pub error: String,
    /// What was wrong, and what would be right.
    pub error_description: String,
}

/// Tokens for an app.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenResponse {
    /// The access token, `mantyx_at_…`.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: String,
    /// The seconds until the access token expires.
    pub expires_in: u64,
    /// The scopes of the access token, separated by spaces.
    pub scope: String,
    /// The refresh token, `mantyx_rt_…`, valid until it is revoked. Absent for `client_credentials`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
}

/// An empty response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Empty {}

/// The workspace of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantWorkspace {
    /// The slug again.
    pub id: String,
    /// The slug.
    pub slug: String,
    /// The display name.
    pub name: String,
}

/// The state of a token (RFC 7662). Only `active` is present when it is `false`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Introspection {
    /// Whether the token is valid and belongs to the calling app.
    pub active: bool,
    /// The scopes of the token, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The client id of the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Always `Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_type: Option<String>,
    /// When the token was issued, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
    /// The user id, or the client id of an app that acts for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// The issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The id of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// The workspace of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<GrantWorkspace>,
    /// The email address of the user. Absent for an app that acts for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// When the token expires, in seconds since 1970. Absent for refresh tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
}

/// The user behind an access token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "OauthUserInfo"))]
pub struct UserInfo {
    /// The id of the user.
    pub sub: String,
    /// The email address of the user.
    pub email: String,
    /// The workspace of the grant.
    pub workspace: GrantWorkspace,
}

/// What a user allowed an OAuth app in one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The id of the grant.
    pub id: String,
    /// The client id of the app.
    pub client_id: String,
    /// The name of the app.
    pub app_name: String,
    /// The user who gave the grant; `null` for an app that acts for itself.
    pub user_id: Option<String>,
    /// The slug of the workspace.
    pub workspace: String,
    /// The scopes of the grant.
    pub scopes: Vec<String>,
    /// Ids of the agents that the app may run; none means every agent.
    pub agent_ids: Vec<String>,
    /// When the grant was given.
    pub created_at: String,
    /// When a token of the grant was last used.
    pub last_used_at: String,
}

/// A list of grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantList {
    /// The grants, newest first.
    pub grants: Vec<Grant>,
}
