//! `runloom admin plugin …`: plugins of a workspace, from a folder or a file.

use std::path::PathBuf;

use clap::Subcommand;
use runloom_client::{AdminClient, Condition, DocumentKind};
use serde_json::json;

use super::documents::{self, Documents, said};
use crate::exit::{Exit, Failure};
use crate::{output, plugin_folder};

/// Plugins.
#[derive(Debug, Subcommand)]
pub(super) enum Plugins {
    /// Install a plugin from its folder, or replace the one with the same name
    Install {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The folder with plugin.toml or plugin.json
        folder: PathBuf,
        /// Fail if a plugin with this name exists
        #[arg(long)]
        create_only: bool,
    },
    #[command(flatten)]
    Document(Documents),
}

pub(super) async fn run(client: &AdminClient, command: Plugins, json: bool) -> Result<(), Failure> {
    let kind = DocumentKind::Plugin;
    let (workspace, folder, create_only) = match command {
        Plugins::Document(Documents::List { workspace }) => {
            return list(client, &workspace, json).await;
        }
        Plugins::Document(command) => return documents::run(client, kind, command, json).await,
        Plugins::Install {
            workspace,
            folder,
            create_only,
        } => (workspace, folder, create_only),
    };
    let found = plugin_folder::read(&folder)
        .map_err(|problems| Failure::new(Exit::Usage, problems.join("\n")))?;
    let slug = found.slug.ok_or_else(|| {
        let message = format!("the manifest in {} has no `name`", folder.display());
        Failure::new(Exit::Usage, message)
    })?;
    let condition = if create_only {
        Condition::Absent
    } else {
        Condition::None
    };
    let put = client.put_document(&workspace, kind, &slug, &found.body, &condition);
    said(&put.await?, json)
}

/// The workspace's own plugins, and those of the operator.
async fn list(client: &AdminClient, workspace: &str, as_json: bool) -> Result<(), Failure> {
    let documents = client.documents(workspace, DocumentKind::Plugin).await?;
    let installed = client.installed_plugins(workspace).await?;
    if as_json {
        output::json(&json!({ "documents": documents, "installed": installed }))?;
        return Ok(());
    }
    let own = documents.iter().map(|document| {
        vec![
            document.slug.clone(),
            "workspace".to_owned(),
            document.version.to_string(),
            document.updated_at.chars().take(19).collect(),
            document.id.clone(),
        ]
    });
    let given = installed.iter().map(|plugin| {
        vec![
            plugin.name.trim_start_matches('@').to_owned(),
            plugin.source.as_str().to_owned(),
            plugin.version.clone().unwrap_or_default(),
            String::new(),
            String::new(),
        ]
    });
    let rows: Vec<_> = own.chain(given).collect();
    output::table(&["SLUG", "SOURCE", "VERSION", "UPDATED", "ID"], &rows)?;
    Ok(())
}
