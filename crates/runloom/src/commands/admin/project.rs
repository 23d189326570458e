//! `runloom admin project …`: what a workspace lets agents do through `project_cli`.

use std::path::PathBuf;

use clap::Subcommand;
use runloom_client::{AdminClient, Condition, DocumentKind};
use serde_json::{Value, json};

use super::documents;
use crate::exit::{Exit, Failure};
use crate::output;

/// The name of a workspace's only project.
const PROJECT: &str = "project";

/// The project of a workspace.
#[derive(Debug, Subcommand)]
pub(super) enum Projects {
    /// Create the project, or replace it
    Put {
        /// Of which workspace
        #[arg(long, short)]
        workspace: String,
        /// A JSON file with the definition; - reads standard input
        #[arg(long, short, value_name = "FILE")]
        file: PathBuf,
    },
    /// Show the project as JSON
    Show {
        /// Of which workspace
        #[arg(long, short)]
        workspace: String,
    },
    /// Delete the project
    Delete {
        /// Of which workspace
        #[arg(long, short)]
        workspace: String,
    },
}

pub(super) async fn run(
    client: &AdminClient,
    command: Projects,
    json: bool,
) -> Result<(), Failure> {
    let kind = DocumentKind::Project;
    match command {
        Projects::Put { workspace, file } => {
            let text = documents::read(&file)?;
            let definition: Value = serde_json::from_str(&text).map_err(|error| {
                let file = file.display();
                Failure::new(Exit::Usage, format!("{file} is not JSON: {error}"))
            })?;
            let condition = Condition::None;
            let put = client
                .put_document(&workspace, kind, PROJECT, &definition, &condition)
                .await?;
            if json {
                output::json(&json!({"id": put.id, "version": put.version}))?;
            } else {
                output::line(format!(
                    "the project of {workspace} has version {}",
                    put.version
                ))?;
            }
        }
        Projects::Show { workspace } => {
            let found = client.document(&workspace, kind, PROJECT, None).await?;
            output::json(&found)?;
        }
        Projects::Delete { workspace } => {
            client
                .delete_document(&workspace, kind, PROJECT, &Condition::None)
                .await?;
            if json {
                output::json(&json!({ "ok": true }))?;
            } else {
                output::line("deleted")?;
            }
        }
    }
    Ok(())
}
