//! `runloom admin plugin …`: plugins of a workspace, from a folder or a file.

use std::path::PathBuf;

use clap::Subcommand;
use runloom_client::{AdminClient, Condition, DocumentKind};

use super::documents::{self, Documents, said};
use crate::exit::{Exit, Failure};
use crate::plugin_folder;

/// Plugins.
#[derive(Debug, Subcommand)]
pub(super) enum Plugins {
    /// Install a plugin from its folder, or replace the one with the same name
    Install {
        /// Of which workspace
        #[arg(long, short)]
        workspace: String,
        /// The folder with plugin.toml or plugin.json
        folder: PathBuf,
        /// Refuse to replace one that is there
        #[arg(long)]
        create_only: bool,
    },
    #[command(flatten)]
    Document(Documents),
}

pub(super) async fn run(client: &AdminClient, command: Plugins, json: bool) -> Result<(), Failure> {
    let kind = DocumentKind::Plugin;
    let (workspace, folder, create_only) = match command {
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
