//! `runloom admin oauth-app …`: OAuth apps of a workspace.

use clap::{Subcommand, ValueEnum};
use runloom_client::{AdminClient, CreateOauthApp, OauthAppCreated};
use serde_json::json;

use crate::exit::Failure;
use crate::output;

/// OAuth apps of a workspace.
#[derive(Debug, Subcommand)]
pub(super) enum OauthApps {
    /// Register an app; its secret is shown only once
    Create {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// Scopes that it may request, separated by spaces
        #[arg(long, value_name = "SCOPES")]
        scopes: String,
        /// A redirect URI; may be repeated
        #[arg(long, value_name = "URI")]
        redirect_uri: Vec<String>,
        /// Allow the client credentials grant
        #[arg(long)]
        client_credentials: bool,
        /// Who may use it: users of this workspace, or users of every workspace
        #[arg(long, value_enum, default_value = "private")]
        visibility: Visibility,
        /// The name on the consent page
        #[arg(long)]
        name: Option<String>,
    },
    /// List the apps of a workspace
    List {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
    },
    /// Replace the secret of an app; the new one is shown only once
    RenewSecret {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The client id of the app
        client_id: String,
    },
    /// Delete an app with its grants
    Delete {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The client id of the app
        client_id: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Visibility {
    Private,
    Public,
}

pub(super) async fn run(
    client: &AdminClient,
    command: OauthApps,
    json: bool,
) -> Result<(), Failure> {
    match command {
        OauthApps::Create {
            workspace,
            scopes,
            redirect_uri,
            client_credentials,
            visibility,
            name,
        } => {
            let wanted = CreateOauthApp {
                name: name.unwrap_or_default(),
                visibility: match visibility {
                    Visibility::Private => runloom_client::Visibility::Private,
                    Visibility::Public => runloom_client::Visibility::Public,
                },
                redirect_uris: redirect_uri,
                scopes: scopes.split_whitespace().map(ToOwned::to_owned).collect(),
                client_credentials,
            };
            let made = client.create_oauth_app(&workspace, &wanted).await?;
            show_secret(&made, json)?;
        }
        OauthApps::RenewSecret {
            workspace,
            client_id,
        } => {
            let made = client.renew_oauth_secret(&workspace, &client_id).await?;
            show_secret(&made, json)?;
        }
        OauthApps::List { workspace } => {
            let apps = client.oauth_apps(&workspace).await?;
            if json {
                output::json(&json!({ "oauthApps": apps }))?;
                return Ok(());
            }
            let row = |app: runloom_client::OauthApp| {
                let scopes = app.scopes.join(" ");
                vec![
                    app.client_id,
                    app.visibility.as_str().to_owned(),
                    app.name,
                    scopes,
                ]
            };
            let rows: Vec<_> = apps.into_iter().map(row).collect();
            output::table(&["CLIENT ID", "VISIBILITY", "NAME", "SCOPES"], &rows)?;
        }
        OauthApps::Delete {
            workspace,
            client_id,
        } => {
            client.delete_oauth_app(&workspace, &client_id).await?;
            if json {
                output::json(&json!({ "ok": true }))?;
            } else {
                output::line("deleted")?;
            }
        }
    }
    Ok(())
}

fn show_secret(made: &OauthAppCreated, json: bool) -> Result<(), Failure> {
    if json {
        output::json(&json!({ "clientId": made.client_id, "clientSecret": made.client_secret }))?;
    } else {
        output::line(&made.client_id)?;
        output::line(&made.client_secret)?;
        output::note("Keep the secret: it is not shown again.");
    }
    Ok(())
}
