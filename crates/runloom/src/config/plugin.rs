//! `[[plugins]]`: plugins of the operator, for every workspace or for some. Only these may start processes.

use std::collections::BTreeSet;

use runloom_protocol::definition::{McpEndpoint, PluginManifest};
use runloom_protocol::error::Issue;
use runloom_protocol::validate::{self, DefinitionSource};
use runloom_service::declared_schemas::Declared;
use serde_json::Value;

use super::definition::{DefinitionConfig, check_schemas};
use super::table_reader::Table;
use super::workspace::{check_slug, slug};
use crate::plugin_folder::{self, Folder};

/// `[[plugins]]`.
#[derive(Debug, Clone)]
pub struct PluginConfig {
    /// Its name without the `@`.
    pub slug: String,
    /// Its manifest; `None` = the plugin with this name is disabled.
    pub manifest: Option<PluginManifest>,
    /// The workspaces that have it; `None` = all.
    pub workspaces: Option<Vec<String>>,
}

/// A plugin folder and the slug that it is installed under.
struct NamedFolder {
    slug: String,
    folder: Folder,
}

pub(super) fn read_all(root: &Table<'_>) -> Vec<PluginConfig> {
    let mut seen = BTreeSet::new();
    root.tables("plugins", |table| read(table, &mut seen))
}

fn read(table: &Table<'_>, seen: &mut BTreeSet<String>) -> Option<PluginConfig> {
    let workspaces = table.has("workspaces").then(|| table.texts("workspaces"));
    let enabled = table.boolean("enabled").unwrap_or(true);
    if !enabled {
        // The other keys of a disabled plugin are not checked.
        return Some(PluginConfig {
            slug: slug(table, seen)?,
            manifest: None,
            workspaces,
        });
    }
    if table.has("path") {
        let named = read_folder(table, seen)?;
        table.finish();
        let manifest = folder_manifest(table, &named, DefinitionSource::Operator);
        return Some(PluginConfig {
            manifest: manifest.map(|manifest| in_folder(manifest, &named.folder)),
            slug: named.slug,
            workspaces,
        });
    }
    let slug = slug(table, seen)?;
    let mut body = table.object().clone();
    for own in ["enabled", "workspaces"] {
        body.remove(own);
    }
    let checked = manifest(&Value::Object(body), &slug, DefinitionSource::Operator);
    for issue in checked.as_ref().err().into_iter().flatten() {
        table.refuse_issue(issue);
    }
    Some(PluginConfig {
        slug,
        manifest: checked.ok(),
        workspaces,
    })
}

/// `[[workspaces.plugins]]` with a `path`.
pub(super) fn definition(
    table: &Table<'_>,
    seen: &mut BTreeSet<String>,
) -> Option<DefinitionConfig> {
    let named = read_folder(table, seen)?;
    folder_manifest(table, &named, DefinitionSource::Administrator)?;
    Some(DefinitionConfig {
        slug: named.slug,
        definition: named.folder.body,
    })
}

/// A manifest whose tools can be used.
///
/// # Errors
/// Every violation.
pub(super) fn manifest(
    body: &Value,
    slug: &str,
    source: DefinitionSource,
) -> Result<PluginManifest, Vec<Issue>> {
    let manifest = validate::plugin_manifest(body, slug, source)?;
    check_schemas(&Declared::by_plugin(&manifest))?;
    Ok(manifest)
}

/// The folder that `path` names, relative to the configuration file.
fn read_folder(table: &Table<'_>, seen: &mut BTreeSet<String>) -> Option<NamedFolder> {
    let given = table.text("slug");
    let path = table.text("path")?;
    let folder = match plugin_folder::read(&table.surroundings.resolve(&path)) {
        Ok(folder) => folder,
        Err(problems) => {
            for problem in problems {
                table.refuse("path", problem);
            }
            return None;
        }
    };
    let Some(slug) = given.or_else(|| folder.slug.clone()) else {
        table.refuse(
            "path",
            "the manifest has no `name`, and there is no `slug` here",
        );
        return None;
    };
    check_slug(table, &slug, seen);
    Some(NamedFolder { slug, folder })
}

fn folder_manifest(
    table: &Table<'_>,
    named: &NamedFolder,
    source: DefinitionSource,
) -> Option<PluginManifest> {
    let checked = manifest(&named.folder.body, &named.slug, source);
    for issue in checked.as_ref().err().into_iter().flatten() {
        let folder = named.folder.place.display();
        table.refuse(
            "path",
            format_args!("{folder}: {} {}", issue.path, issue.message),
        );
    }
    checked.ok()
}

/// The manifest with the folder as working directory of its processes.
fn in_folder(mut manifest: PluginManifest, folder: &Folder) -> PluginManifest {
    for server in &mut manifest.servers {
        if let McpEndpoint::Process(process) = &mut server.endpoint {
            process.folder = Some(folder.place.clone());
        }
    }
    manifest
}
