//! `runloom admin toolset …`: named connections of a workspace to MCP servers.

use runloom_client::{AdminClient, DocumentKind};
use runloom_protocol::resource::StoredDocument;
use serde_json::{Value, json};

use super::documents::{self, Documents};
use crate::exit::Failure;
use crate::output;

pub(super) async fn run(
    client: &AdminClient,
    command: Documents,
    json: bool,
) -> Result<(), Failure> {
    match command {
        Documents::List { workspace } => list(client, &workspace, json).await,
        command => documents::run(client, DocumentKind::Toolset, command, json).await,
    }
}

/// The workspace's own toolsets, and those of the configuration file.
async fn list(client: &AdminClient, workspace: &str, as_json: bool) -> Result<(), Failure> {
    let documents = client.documents(workspace, DocumentKind::Toolset).await?;
    let installed = client.installed_toolsets(workspace).await?;
    if as_json {
        output::json(&json!({ "documents": documents, "installed": installed }))?;
        return Ok(());
    }
    let own = documents.iter().map(|document| {
        vec![
            document.slug.clone(),
            transport(document).to_owned(),
            "workspace".to_owned(),
            document.version.to_string(),
            document.updated_at.chars().take(19).collect(),
            document.id.clone(),
        ]
    });
    let given = installed.iter().map(|toolset| {
        vec![
            toolset.name.clone(),
            toolset.transport.clone(),
            toolset.source.as_str().to_owned(),
            String::new(),
            String::new(),
            String::new(),
        ]
    });
    let rows: Vec<_> = own.chain(given).collect();
    let columns = ["SLUG", "TRANSPORT", "SOURCE", "VERSION", "UPDATED", "ID"];
    output::table(&columns, &rows)?;
    Ok(())
}

fn transport(document: &StoredDocument) -> &str {
    let definition = document.definition.as_ref();
    let transport = definition.and_then(|definition| definition.get("transport"));
    transport.and_then(Value::as_str).unwrap_or_default()
}
