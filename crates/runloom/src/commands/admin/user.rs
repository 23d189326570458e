//! `runloom admin user …`: users of the consent page. A password comes from a variable or standard input, never from
//! the command line, which other users of the machine can read.

use clap::Subcommand;
use runloom_client::{AdminClient, PutUser, User};
use serde_json::json;

use super::documents::secret_value;
use crate::config::Environment;
use crate::exit::Failure;
use crate::output;

/// Users.
#[derive(Debug, Subcommand)]
pub(super) enum Users {
    /// Add a user, or change the one with this address
    #[command(visible_alias = "create")]
    Put {
        /// The email address to sign in with
        email: String,
        /// A workspace of the user; may be repeated and replaces the current list
        #[arg(long, short)]
        workspace: Vec<String>,
        /// The name for display
        #[arg(long)]
        name: Option<String>,
        /// Read the password from this environment variable
        #[arg(long, value_name = "VARIABLE", conflicts_with = "password_stdin")]
        password_env: Option<String>,
        /// Read the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// List all users
    List,
    /// Delete a user with all their grants
    Delete {
        /// The address or id of the user
        email: String,
    },
}

pub(super) async fn run(
    client: &AdminClient,
    command: Users,
    environment: &Environment,
    json: bool,
) -> Result<(), Failure> {
    match command {
        Users::Put {
            email,
            workspace,
            name,
            password_env,
            password_stdin,
        } => {
            let password = if password_env.is_some() || password_stdin {
                Some(secret_value(password_env.as_deref(), None, environment)?)
            } else {
                None
            };
            let wanted = PutUser {
                name,
                password,
                workspaces: (!workspace.is_empty()).then_some(workspace),
            };
            let user = client.put_user(&email, &wanted).await?;
            if json {
                output::json(&json!(user))?;
            } else {
                output::line(format!("{} is there", user.email))?;
            }
        }
        Users::List => {
            let users = client.users().await?;
            if json {
                output::json(&json!({ "users": users }))?;
                return Ok(());
            }
            let row = |user: User| {
                let workspaces = user.workspaces.join(", ");
                vec![user.email, user.id, workspaces, user.name]
            };
            let rows: Vec<_> = users.into_iter().map(row).collect();
            output::table(&["E-MAIL", "ID", "WORKSPACES", "NAME"], &rows)?;
        }
        Users::Delete { email } => {
            client.delete_user(&email).await?;
            if json {
                output::json(&json!({ "ok": true }))?;
            } else {
                output::line("deleted")?;
            }
        }
    }
    Ok(())
}
