//! The admin API of OAuth: apps, and the people who let them do things.

use reqwest::Method;
use runloom_protocol::admin::{
    CreateOauthApp, OauthApp, OauthAppCreated, OauthAppList, PutUser, User, UserList,
};

use crate::admin::AdminClient;
use crate::error::Result;
use crate::transport::{Call, Repeat};

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
    pub async fn oauth_apps(&self, workspace: &str) -> Result<Vec<OauthApp>> {
        let url = self.apps_url(workspace, &[]);
        let page: OauthAppList = self.transport.json(Call::get(url)).await?;
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
    pub async fn put_user(&self, email: &str, user: &PutUser) -> Result<User> {
        let url = self.users_url(Some(email));
        let call = Call::post(url, user, Repeat::Harmless)?;
        let method = Method::PUT;
        self.transport.json(Call { method, ..call }).await
    }

    /// Everybody, by address.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn users(&self) -> Result<Vec<User>> {
        let call = Call::get(self.users_url(None));
        let page: UserList = self.transport.json(call).await?;
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
