//! `runloom admin agent|tool|plugin|external-agent|provider|secret …`: definitions of a workspace.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use runloom_client::{AdminClient, Condition, DocumentKind};
use runloom_protocol::resource::StoredDocument;
use serde_json::{Value, json};

use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::output;

/// Maximum bytes of a definition or a secret.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Agents, tools, plugins, external agents, providers.
#[derive(Debug, Subcommand)]
pub(super) enum Documents {
    /// Create it, or replace the one with the same slug
    Put(Put),
    /// List all
    List {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
    },
    /// Show one as JSON
    Show {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// Its slug or id
        name: String,
        /// An earlier version (agents only)
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        at_version: Option<u64>,
    },
    /// Delete one
    #[command(visible_alias = "remove")]
    Delete {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// Its slug or id
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct Put {
    /// The workspace
    #[arg(long, short)]
    workspace: String,
    /// A JSON file with the definition; - reads standard input
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
    /// The slug, if the definition has none
    #[arg(long)]
    slug: Option<String>,
    /// Fail if it exists
    #[arg(long, conflicts_with = "if_version")]
    create_only: bool,
    /// Replace it only if it has this version
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    if_version: Option<u64>,
}

/// Secrets. Their values are never shown.
#[derive(Debug, Subcommand)]
pub(super) enum Secrets {
    /// Store a secret, read from standard input, a variable or a file
    Put {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The name in {{secret:NAME}}
        name: String,
        /// Read the value from this environment variable
        #[arg(long, value_name = "VARIABLE", conflicts_with = "file")]
        from_env: Option<String>,
        /// Read the value from this file
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List names and times
    List {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
    },
    /// Delete one
    Delete {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The name of the secret
        name: String,
    },
    /// Seal all secrets with the server's new master key
    Rotate,
}

pub(super) async fn run(
    client: &AdminClient,
    kind: DocumentKind,
    command: Documents,
    json: bool,
) -> Result<(), Failure> {
    match command {
        Documents::Put(put) => self::put(client, kind, put, json).await,
        Documents::List { workspace } => list(client, kind, &workspace, json).await,
        Documents::Show {
            workspace,
            name,
            at_version,
        } => {
            let found = client.document(&workspace, kind, &name, at_version).await?;
            if json {
                output::json(&found)?;
            } else {
                output::line(format!("{:#}", json!(found)))?;
            }
            Ok(())
        }
        Documents::Delete { workspace, name } => {
            delete(client, kind, &workspace, &name, json).await
        }
    }
}

pub(super) async fn secret(
    client: &AdminClient,
    command: Secrets,
    environment: &Environment,
    json: bool,
) -> Result<(), Failure> {
    let kind = DocumentKind::Secret;
    match command {
        Secrets::Put {
            workspace,
            name,
            from_env,
            file,
        } => {
            let value = secret_value(from_env.as_deref(), file.as_deref(), environment)?;
            let body = json!({ "value": value });
            let put = client.put_document(&workspace, kind, &name, &body, &Condition::None);
            said(&put.await?, json)
        }
        Secrets::List { workspace } => list(client, kind, &workspace, json).await,
        Secrets::Delete { workspace, name } => delete(client, kind, &workspace, &name, json).await,
        Secrets::Rotate => {
            let rotation = client.rotate_secrets().await?;
            if json {
                output::json(&rotation)?;
            } else {
                output::line(format!("{} sealed anew", rotation.resealed))?;
                if rotation.unreadable > 0 {
                    output::note(format!(
                        "{} could not be opened with any known key and stay as they are",
                        rotation.unreadable
                    ));
                }
            }
            Ok(())
        }
    }
}

async fn put(
    client: &AdminClient,
    kind: DocumentKind,
    put: Put,
    json: bool,
) -> Result<(), Failure> {
    let text = read(&put.file)?;
    let definition: Value = serde_json::from_str(&text).map_err(|error| {
        let file = name_of(&put.file);
        Failure::new(Exit::Usage, format!("{file} is not JSON: {error}"))
    })?;
    let slug = put.slug.or_else(|| slug_of(kind, &definition));
    let slug = slug.ok_or_else(|| {
        let file = name_of(&put.file);
        Failure::new(
            Exit::Usage,
            format!("{file} has no `slug`; add it, or give --slug"),
        )
    })?;
    let condition = match (put.create_only, put.if_version) {
        (true, _) => Condition::Absent,
        (false, None) => Condition::None,
        (false, Some(version)) => {
            let known = client.document(&put.workspace, kind, &slug, None).await?;
            Condition::Unchanged {
                id: known.id,
                version,
            }
        }
    };
    let put = client.put_document(&put.workspace, kind, &slug, &definition, &condition);
    said(&put.await?, json)
}

fn slug_of(kind: DocumentKind, definition: &Value) -> Option<String> {
    let text = |key: &str| definition.get(key).and_then(Value::as_str);
    let named = match kind {
        DocumentKind::Provider => text("id"),
        DocumentKind::Plugin => text("name").and_then(|name| name.strip_prefix('@')),
        _ => None,
    };
    text("slug").or(named).map(str::to_owned)
}

pub(super) fn said(document: &StoredDocument, json: bool) -> Result<(), Failure> {
    for warning in &document.warnings {
        output::note(format!("warning: {warning}"));
    }
    if json {
        output::json(&json!({ "id": document.id, "slug": document.slug }))?;
    } else {
        let (slug, id, version) = (&document.slug, &document.id, document.version);
        output::line(format!("{slug} is there: {id}, version {version}"))?;
    }
    Ok(())
}

async fn list(
    client: &AdminClient,
    kind: DocumentKind,
    workspace: &str,
    json: bool,
) -> Result<(), Failure> {
    let documents = client.documents(workspace, kind).await?;
    if json {
        output::json(&json!({ "documents": documents }))?;
        return Ok(());
    }
    let row = |document: &StoredDocument| {
        vec![
            document.slug.clone(),
            document.version.to_string(),
            document.updated_at.chars().take(19).collect(),
            document.id.clone(),
        ]
    };
    let rows: Vec<_> = documents.iter().map(row).collect();
    output::table(&["SLUG", "VERSION", "UPDATED", "ID"], &rows)?;
    Ok(())
}

async fn delete(
    client: &AdminClient,
    kind: DocumentKind,
    workspace: &str,
    name: &str,
    json: bool,
) -> Result<(), Failure> {
    client
        .delete_document(workspace, kind, name, &Condition::None)
        .await?;
    if json {
        output::json(&json!({ "ok": true }))?;
    } else {
        output::line("deleted")?;
    }
    Ok(())
}

/// There is no option for the value, because every process of the machine can read command lines.
pub(super) fn secret_value(
    variable: Option<&str>,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<String, Failure> {
    let value = match (variable, file) {
        (Some(variable), _) => environment
            .get(variable)
            .map(str::to_owned)
            .ok_or_else(|| {
                Failure::new(
                    Exit::Usage,
                    format!("the environment variable {variable} is not set"),
                )
            })?,
        (None, Some(file)) => read(file)?,
        (None, None) => {
            if std::io::stdin().is_terminal() {
                output::note("Type the value, then Ctrl-D.");
            }
            read(Path::new("-"))?
        }
    };
    let value = value.strip_suffix('\n').unwrap_or(&value);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(Failure::new(Exit::Usage, "the value is empty"));
    }
    Ok(value.to_owned())
}

/// A file, for messages.
fn name_of(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        let name = name_of(file);
        Failure::new(Exit::Usage, format!("cannot read {name}: {error}"))
    };
    let mut text = String::new();
    if file == Path::new("-") {
        let mut stdin = std::io::stdin().lock().take(MAX_BYTES);
        stdin.read_to_string(&mut text).map_err(failed)?;
    } else {
        let opened = std::fs::File::open(file).map_err(failed)?;
        opened
            .take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(failed)?;
    }
    Ok(text)
}
