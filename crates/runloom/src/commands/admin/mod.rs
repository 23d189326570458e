//! `runloom admin …`: workspaces of a running server, with their keys, definitions, OAuth apps and users.

mod documents;
mod memory;
mod oauth_app;
mod plugin;
mod project;
mod toolset;
mod user;

use clap::{Args, Subcommand, ValueEnum};
use runloom_client::{AdminClient, ApiKey, CreateKey, DocumentKind, KeyUsage, PutWorkspace};
use serde_json::json;

use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::{connect, output};
use documents::{Documents, Secrets};
use memory::Memories;
use oauth_app::OauthApps;
use plugin::Plugins;
use project::Projects;
use user::Users;

/// `runloom admin …`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  runloom admin workspace create acme --name Acme
  runloom admin key create --workspace acme --json       {\"id\",\"key\"}; the key is shown only now
  runloom admin key revoke --workspace acme key_…
  runloom admin agent put --workspace acme --file agent.json --json      {\"id\",\"slug\"}
  runloom admin secret put --workspace acme GITHUB_TOKEN < token.txt
  runloom admin plugin install --workspace acme ./plugins/github
  runloom admin toolset put --workspace acme --file docs.json
  runloom admin user put ada@example.com --workspace acme --password-stdin < password.txt
  runloom admin oauth-app create --workspace acme --scopes \"runs:read runs:write\" \\
      --redirect-uri http://127.0.0.1:9999/cb --json             {\"clientId\",\"clientSecret\"}; the secret is shown only now

The token is read from RUNLOOM_ADMIN_TOKEN (or the file that RUNLOOM_ADMIN_TOKEN_FILE names).")]
pub(crate) struct Admin {
    /// The server; default: the `runloom dev` of this folder, else http://127.0.0.1:8787
    #[arg(long, global = true, env = "RUNLOOM_URL")]
    url: Option<String>,
    /// Print exactly one JSON object
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Workspaces
    #[command(subcommand)]
    Workspace(Workspace),
    /// API keys
    #[command(subcommand)]
    Key(Key),
    /// Stored agents
    #[command(subcommand)]
    Agent(Documents),
    /// Workspace tools: HTTP, code, MCP, plugin
    #[command(subcommand)]
    Tool(Documents),
    /// Installed plugins
    #[command(subcommand, visible_alias = "plugins")]
    Plugin(Plugins),
    /// Toolsets: named connections to MCP servers
    #[command(subcommand)]
    Toolset(Documents),
    /// External A2A agents
    #[command(subcommand)]
    ExternalAgent(Documents),
    /// Providers and their models
    #[command(subcommand)]
    Provider(Documents),
    /// Secrets that tools, plugins, external agents and providers name
    #[command(subcommand)]
    Secret(Secrets),
    /// The project: what agents may do through project_cli
    #[command(subcommand)]
    Project(Projects),
    /// OAuth apps
    #[command(subcommand)]
    OauthApp(OauthApps),
    /// Users who can sign in at the consent page
    #[command(subcommand)]
    User(Users),
    /// Memories of agents (@memory plugin)
    #[command(subcommand)]
    Memory(Memories),
}

#[derive(Debug, Subcommand)]
enum Workspace {
    /// Create a workspace, or change the one with this slug
    Create {
        /// Its name in URLs
        slug: String,
        /// The name for display
        #[arg(long)]
        name: Option<String>,
        /// Disable a feature; may be repeated
        #[arg(long, value_enum)]
        without: Vec<Feature>,
    },
    /// Show a workspace and its default model
    Show {
        /// Its name in URLs
        slug: String,
    },
    /// List workspaces
    List,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Feature {
    #[value(name = "apiKeys")]
    ApiKeys,
    #[value(name = "oauthApps")]
    OauthApps,
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Create a key; it is shown only once
    Create {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The API that it is for
        #[arg(long, value_enum, default_value = "developer_api")]
        usage: Usage,
        /// An agent it may run; may be repeated; default: every agent
        #[arg(long, value_name = "ID")]
        agent: Vec<String>,
        /// Its own limit of run starts
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        runs_per_minute: Option<u32>,
        /// Let requests with it name the owner that they act for (X-Runloom-Owner)
        #[arg(long)]
        act_for_owners: bool,
        /// The name for display
        #[arg(long)]
        name: Option<String>,
    },
    /// List the keys of a workspace
    List {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
    },
    /// Revoke a key
    Revoke {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The key, or its id
        key: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Usage {
    #[value(name = "developer_api")]
    DeveloperApi,
    #[value(name = "a2a")]
    A2a,
    #[value(name = "mcp")]
    Mcp,
    #[value(name = "approvals")]
    Approvals,
}

/// The word of a value, on the command line and on the wire.
fn word(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

pub(crate) async fn run(admin: Admin, environment: &Environment) -> Result<Exit, Failure> {
    let client = connect::admin(admin.url.as_deref(), environment)?;
    let (client, json) = (&client, admin.json);
    match admin.what {
        What::Workspace(workspace) => self::workspace(client, workspace, json).await?,
        What::Key(key) => self::key(client, key, json).await?,
        What::Agent(command) => documents::run(client, DocumentKind::Agent, command, json).await?,
        What::Tool(command) => documents::run(client, DocumentKind::Tool, command, json).await?,
        What::Toolset(command) => toolset::run(client, command, json).await?,
        What::Plugin(command) => plugin::run(client, command, json).await?,
        What::Project(command) => project::run(client, command, json).await?,
        What::OauthApp(command) => oauth_app::run(client, command, json).await?,
        What::User(command) => user::run(client, command, environment, json).await?,
        What::Memory(command) => memory::run(client, command, json).await?,
        What::ExternalAgent(command) => {
            documents::run(client, DocumentKind::ExternalAgent, command, json).await?;
        }
        What::Provider(command) => {
            documents::run(client, DocumentKind::Provider, command, json).await?;
        }
        What::Secret(command) => documents::secret(client, command, environment, json).await?,
    }
    Ok(Exit::Ok)
}

async fn workspace(client: &AdminClient, workspace: Workspace, json: bool) -> Result<(), Failure> {
    match workspace {
        Workspace::Create {
            slug,
            name,
            without,
        } => {
            let without: Vec<String> = without.into_iter().map(word).collect();
            let wanted = PutWorkspace {
                name,
                without: (!without.is_empty()).then_some(without),
            };
            let made = client.put_workspace(&slug, &wanted).await?;
            if json {
                output::json(&json!({ "slug": made.slug }))?;
            } else {
                output::line(format!("workspace {} is there", made.slug))?;
            }
        }
        Workspace::Show { slug } => {
            let known = client.workspace(&slug).await?;
            if json {
                output::json(&json!(known))?;
            } else {
                let default = known.default_model_id.unwrap_or_default();
                let known = known.workspace;
                let row = vec![known.slug, known.name, known.without.join(", "), default];
                output::table(&["SLUG", "NAME", "WITHOUT", "DEFAULT MODEL"], &[row])?;
            }
        }
        Workspace::List => {
            let workspaces = client.workspaces().await?;
            if json {
                output::json(&json!({ "workspaces": workspaces }))?;
            } else {
                let row = |known: &runloom_client::Workspace| {
                    vec![
                        known.slug.clone(),
                        known.name.clone(),
                        known.without.join(", "),
                    ]
                };
                let rows: Vec<_> = workspaces.iter().map(row).collect();
                output::table(&["SLUG", "NAME", "WITHOUT"], &rows)?;
            }
        }
    }
    Ok(())
}

async fn key(client: &AdminClient, key: Key, json: bool) -> Result<(), Failure> {
    match key {
        Key::Create {
            workspace,
            usage,
            agent,
            runs_per_minute,
            act_for_owners,
            name,
        } => {
            let wanted = CreateKey {
                name: name.unwrap_or_default(),
                usage: KeyUsage::parse(&word(usage)).unwrap_or_default(),
                agent_ids: agent,
                runs_per_minute,
                act_for_owners,
            };
            let made = client.create_key(&workspace, &wanted).await?;
            if json {
                output::json(&json!({ "id": made.id, "key": made.key }))?;
            } else {
                output::line(&made.key)?;
                output::note(format!("{}: keep it, it is not shown again", made.id));
            }
        }
        Key::List { workspace } => {
            let keys = client.keys(&workspace).await?;
            if json {
                output::json(&json!({ "keys": keys }))?;
            } else {
                list_keys(&keys)?;
            }
        }
        Key::Revoke { workspace, key } => {
            client.revoke_key(&workspace, &key).await?;
            if json {
                output::json(&json!({ "ok": true }))?;
            } else {
                output::line("revoked")?;
            }
        }
    }
    Ok(())
}

fn list_keys(keys: &[ApiKey]) -> std::io::Result<()> {
    let row = |key: &ApiKey| {
        let state = if key.revoked_at.is_some() {
            "revoked"
        } else {
            "active"
        };
        vec![
            key.id.to_string(),
            state.to_owned(),
            key.usage.as_str().to_owned(),
            format!("{}…", key.prefix),
            key.created_at.chars().take(19).collect(),
            key.name.clone(),
        ]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    output::table(
        &["ID", "STATE", "USAGE", "PREFIX", "CREATED", "NAME"],
        &rows,
    )
}
