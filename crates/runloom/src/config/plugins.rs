//! `[[plugins]]`: plugins of the operator, for every workspace or for some. Only these may start processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use runloom_protocol::definition::{McpEndpoint, PluginManifest};
use runloom_protocol::error::Issue;
use runloom_protocol::validate::{self, PluginSource};
use runloom_service::declared_schemas::Declared;
use serde_json::Value;

use super::documents::usable;
use super::table::Table;
use super::types::{DocumentConfig, PluginConfig};
use super::workspaces::{check_slug, slug};
use crate::plugin_folder::{self, Folder};

pub(super) fn read(tables: Vec<Table<'_>>) -> Vec<PluginConfig> {
    let mut seen = BTreeSet::new();
    tables
        .into_iter()
        .filter_map(|table| plugin(table, &mut seen))
        .collect()
}

fn plugin(table: Table<'_>, seen: &mut BTreeSet<String>) -> Option<PluginConfig> {
    let workspaces = table.has("workspaces").then(|| table.texts("workspaces"));
    let enabled = table.boolean("enabled").unwrap_or(true);
    if !enabled {
        let slug = slug(&table, seen);
        // Whatever else it says stays there for the day when it is wanted again.
        return Some(PluginConfig {
            slug: slug?,
            manifest: None,
            workspaces,
        });
    }
    if table.has("path") {
        let found = folder(&table, seen)?;
        table.finish();
        return Some(PluginConfig {
            slug: found.0,
            manifest: found.1,
            workspaces,
        });
    }
    let slug = slug(&table, seen)?;
    let mut body = table.whole();
    for ours in ["enabled", "workspaces"] {
        body.remove(ours);
    }
    let checked = manifest(&Value::Object(body), &slug, PluginSource::Operator);
    for issue in checked.as_ref().err().into_iter().flatten() {
        table.invalid_inside(&issue.path, &issue.message);
    }
    Some(PluginConfig {
        slug,
        manifest: checked.ok(),
        workspaces,
    })
}

/// A plugin of the operator from its folder, which is where its processes work.
fn folder(
    table: &Table<'_>,
    seen: &mut BTreeSet<String>,
) -> Option<(String, Option<PluginManifest>)> {
    let (slug, found) = found(table, seen)?;
    let manifest = checked(table, &slug, &found, PluginSource::Operator);
    let manifest = manifest.map(|mut manifest| {
        for server in &mut manifest.servers {
            if let McpEndpoint::Process(process) = &mut server.endpoint {
                process.folder = Some(found.place.clone());
            }
        }
        manifest
    });
    Some((slug, manifest))
}

/// `[[workspaces.plugins]]` with a `path`: a document like any other.
pub(super) fn document(table: &Table<'_>, seen: &mut BTreeSet<String>) -> Option<DocumentConfig> {
    let (slug, found) = found(table, seen)?;
    checked(table, &slug, &found, PluginSource::Administrator)?;
    Some(DocumentConfig {
        slug,
        definition: found.body,
    })
}

fn found(table: &Table<'_>, seen: &mut BTreeSet<String>) -> Option<(String, Folder)> {
    let given = table.text("slug");
    let path = table.text("path")?;
    let found = match plugin_folder::read(&beside(table, &path)) {
        Ok(found) => found,
        Err(problems) => {
            for problem in problems {
                table.invalid("path", problem);
            }
            return None;
        }
    };
    let Some(slug) = given.or_else(|| found.slug.clone()) else {
        table.invalid(
            "path",
            "the manifest has no `name`, and there is no `slug` here",
        );
        return None;
    };
    check_slug(table, &slug, seen);
    Some((slug, found))
}

/// A relative path is meant from where the file is.
fn beside(table: &Table<'_>, path: &str) -> PathBuf {
    let file = Path::new(table.context.file());
    file.parent().unwrap_or(Path::new("")).join(path)
}

/// A manifest whose tools can be used.
pub(super) fn manifest(
    body: &Value,
    slug: &str,
    source: PluginSource,
) -> Result<PluginManifest, Vec<Issue>> {
    let manifest = validate::plugin_manifest(body, slug, source)?;
    usable(&Declared::by_plugin(&manifest))?;
    Ok(manifest)
}

fn checked(
    table: &Table<'_>,
    slug: &str,
    found: &Folder,
    source: PluginSource,
) -> Option<PluginManifest> {
    match manifest(&found.body, slug, source) {
        Ok(manifest) => Some(manifest),
        Err(issues) => {
            for issue in issues {
                let place = found.place.display();
                let message = format!("{place}: {} {}", issue.path, issue.message);
                table.invalid("path", message);
            }
            None
        }
    }
}
