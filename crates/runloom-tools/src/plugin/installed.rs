//! Which plugins a workspace has: its own, those of the operator's configuration, those that come with the server.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::error::Result;
use runloom_ports::secret::Secret;
use runloom_ports::tools::{PluginManifest, ToolDefinition, ToolDefinitions};
use runloom_protocol::resource::{InstalledFrom, InstalledPlugin};

use super::shipped;

/// `@plugin/tool` of every tool that comes with the server.
#[must_use]
pub fn shipped_tools() -> Vec<String> {
    let named = |manifest: &PluginManifest| {
        let name = manifest.name.clone();
        let full = move |tool: &ToolDefinition| format!("{name}/{}", tool.name);
        manifest.tools.iter().map(full).collect::<Vec<_>>()
    };
    shipped::manifests().iter().flat_map(named).collect()
}

/// Plugins of the operator's configuration.
#[derive(Debug, Clone, Default)]
pub struct PluginSet {
    /// What is installed.
    pub installed: Vec<ConfiguredPlugin>,
    /// Slugs of shipped plugins that are not wanted.
    pub without: Vec<String>,
}

/// A plugin of the operator's configuration.
#[derive(Debug, Clone)]
pub struct ConfiguredPlugin {
    /// What it brings.
    pub manifest: PluginManifest,
    /// The workspaces that have it; `None` = all.
    pub workspaces: Option<Vec<String>>,
}

impl ConfiguredPlugin {
    fn is_in(&self, workspace: &str) -> bool {
        let named = |slugs: &Vec<String>| slugs.iter().any(|slug| slug == workspace);
        self.workspaces.as_ref().is_none_or(named)
    }
}

/// What workspaces define, with every plugin that they have. Of two plugins with one name the workspace's own wins, then the
/// operator's; bare names are looked for in the same order.
pub(crate) struct Installed {
    inner: Arc<dyn ToolDefinitions>,
    configured: Vec<ConfiguredPlugin>,
    shipped: Vec<PluginManifest>,
}

impl Installed {
    /// The workspaces' own definitions with what the operator says.
    pub(crate) fn new(inner: Arc<dyn ToolDefinitions>, set: PluginSet, remembers: bool) -> Self {
        let wanted = |manifest: &PluginManifest| {
            let slug = manifest.name.trim_start_matches('@');
            (remembers || slug != "memory") && !set.without.iter().any(|without| without == slug)
        };
        Self {
            inner,
            shipped: shipped::manifests().into_iter().filter(wanted).collect(),
            configured: set.installed,
        }
    }
}

impl Installed {
    /// The plugins of the operator and the shipped ones that the workspace has.
    pub(crate) async fn given(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        let own = self.inner.plugins(workspace).await?;
        let mut seen: HashSet<String> = own.into_iter().map(|plugin| plugin.name).collect();
        let configured = self
            .configured
            .iter()
            .filter(|plugin| plugin.is_in(workspace))
            .map(|plugin| (&plugin.manifest, InstalledFrom::Operator));
        let shipped = self.shipped.iter();
        let shipped = shipped.map(|manifest| (manifest, InstalledFrom::Shipped));
        let given = configured.chain(shipped);
        let given = given.filter(|(manifest, _)| seen.insert(manifest.name.clone()));
        Ok(given
            .map(|(manifest, from)| shown(manifest, from))
            .collect())
    }
}

fn shown(manifest: &PluginManifest, source: InstalledFrom) -> InstalledPlugin {
    let tools = manifest.tools.iter().map(|tool| tool.name.clone());
    let servers = manifest.servers.iter().map(|server| server.name.clone());
    InstalledPlugin {
        name: manifest.name.clone(),
        source,
        version: manifest.version.clone(),
        description: manifest.description.clone(),
        tools: tools.chain(servers).collect(),
    }
}

#[async_trait]
impl ToolDefinitions for Installed {
    async fn tool(&self, workspace: &str, id_or_slug: &str) -> Result<Option<ToolDefinition>> {
        self.inner.tool(workspace, id_or_slug).await
    }

    async fn plugins(&self, workspace: &str) -> Result<Vec<PluginManifest>> {
        let configured = self
            .configured
            .iter()
            .filter(|plugin| plugin.is_in(workspace));
        let more = configured
            .map(|plugin| &plugin.manifest)
            .chain(&self.shipped);
        let mut plugins = self.inner.plugins(workspace).await?;
        plugins.extend(more.cloned());
        let mut seen = HashSet::new();
        plugins.retain(|plugin| seen.insert(plugin.name.clone()));
        Ok(plugins)
    }

    async fn secret(&self, workspace: &str, name: &str) -> Result<Option<Secret>> {
        self.inner.secret(workspace, name).await
    }
}
