//! The admin API of OAuth: apps, and the people who let them do things.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::admin::AdminClient;
use crate::error::Result;
use crate::transport::{Call, Repeat};

/// An app to be registered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateOauthApp {
    /// For people, who read it at the consent page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `private` (the default) or `public`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// What it may ask for.
    pub scopes: Vec<String>,
    /// Whether it may act for itself.
    pub client_credentials: bool,
}

/// An app that was just registered, or given another secret. The only time the secret is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OauthAppCreated {
    /// `mantyx_oa_…`.
    pub client_id: String,
    /// `mantyx_oas_…`.
    pub client_secret: String,
}

impl std::fmt::Debug for OauthAppCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OauthAppCreated")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// An app as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OauthAppInfo {
    /// `mantyx_oa_…`.
    pub client_id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// `private` or `public`.
    #[serde(default)]
    pub visibility: String,
    /// Where people may be sent back to.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// What it may ask for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Whether it may act for itself.
    #[serde(default)]
    pub client_credentials: bool,
    /// When it was registered.
    #[serde(default)]
    pub created_at: Option<String>,
}

/// A person as they should be; a missing field keeps what is there.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PutUser {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What they sign in with; needed for a new person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The workspaces that they belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<String>>,
}

/// A person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInfo {
    /// Their row.
    pub id: String,
    /// What they sign in with.
    pub email: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// The workspaces that they belong to.
    #[serde(default)]
    pub workspaces: Vec<String>,
    /// When they were added.
    #[serde(default)]
    pub created_at: Option<String>,
}

impl AdminClient {
    /// Registers an app.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn create_oauth_app(
        &self,
        workspace: &str,
        app: &CreateOauthApp,
    ) -> Result<OauthAppCreated> {
        let url = self.apps_url(workspace, &[]);
        let call = Call::post(url, app, Repeat::OnlyIfRefused)?;
        self.transport.json(call).await
    }

    /// The apps of a workspace, oldest first.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn oauth_apps(&self, workspace: &str) -> Result<Vec<OauthAppInfo>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            oauth_apps: Vec<OauthAppInfo>,
        }
        let url = self.apps_url(workspace, &[]);
        let page: Page = self.transport.json(Call::get(url)).await?;
        Ok(page.oauth_apps)
    }

    /// Gives an app another secret.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn renew_oauth_secret(
        &self,
        workspace: &str,
        client_id: &str,
    ) -> Result<OauthAppCreated> {
        let url = self.apps_url(workspace, &[client_id, "secret"]);
        self.transport.json(Call::empty(Method::POST, url)).await
    }

    /// Deletes an app with everything it was allowed.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn delete_oauth_app(&self, workspace: &str, client_id: &str) -> Result<()> {
        let url = self.apps_url(workspace, &[client_id]);
        let call = Call::empty(Method::DELETE, url);
        self.transport.bytes(call).await.map(drop)
    }

    /// Creates a person, or changes the one with this address.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn put_user(&self, email: &str, user: &PutUser) -> Result<UserInfo> {
        let url = self.users_url(Some(email));
        let call = Call::post(url, user, Repeat::Harmless)?;
        let method = Method::PUT;
        self.transport.json(Call { method, ..call }).await
    }

    /// Everybody, by address.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn users(&self) -> Result<Vec<UserInfo>> {
        #[derive(Deserialize)]
        struct Page {
            users: Vec<UserInfo>,
        }
        let call = Call::get(self.users_url(None));
        let page: Page = self.transport.json(call).await?;
        Ok(page.users)
    }

    /// Deletes a person, by address or id, with everything they allowed.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn delete_user(&self, email_or_id: &str) -> Result<()> {
        let url = self.users_url(Some(email_or_id));
        let call = Call::empty(Method::DELETE, url);
        self.transport.bytes(call).await.map(drop)
    }

    fn apps_url(&self, workspace: &str, rest: &[&str]) -> reqwest::Url {
        let segments = ["api", "admin", "v1", "workspaces", workspace, "oauth-apps"];
        self.transport
            .url(segments.into_iter().chain(rest.iter().copied()))
    }

    fn users_url(&self, email: Option<&str>) -> reqwest::Url {
        let segments = ["api", "admin", "v1", "users"];
        self.transport.url(segments.into_iter().chain(email))
    }
}
