//! The plugins of a workspace: its own, those of the operator's configuration, and those that ship with the server.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::error::Result;
use runloom_ports::secret::Secret;
use runloom_ports::tools::{PluginManifest, ToolDefinition, ToolDefinitions, Toolset};
use runloom_protocol::resource::{InstalledFrom, InstalledPlugin};

use crate::shipped::{self, ShippedTools};

/// `@plugin/tool` of every tool that ships with the server.
#[must_use]
pub fn shipped_tools() -> Vec<String> {
    let full_names = |manifest: &PluginManifest| {
        let name = manifest.name.clone();
        let full = move |tool: &ToolDefinition| format!("{name}/{}", tool.name);
        manifest.tools.iter().map(full).collect::<Vec<_>>()
    };
    shipped::manifests().iter().flat_map(full_names).collect()
}

/// Plugins of the operator's configuration.
#[derive(Debug, Clone, Default)]
pub struct PluginSet {
    /// Configured plugins.
    pub installed: Vec<ConfiguredPlugin>,
    /// Slugs of shipped plugins that are disabled.
    pub without: Vec<String>,
}

/// A plugin of the operator's configuration.
#[derive(Debug, Clone)]
pub struct ConfiguredPlugin {
    /// Its tools and servers.
    pub manifest: PluginManifest,
    /// The workspaces that have it; `None` means all.
    pub workspaces: Option<Vec<String>>,
}

impl ConfiguredPlugin {
    fn is_in(&self, workspace: &str) -> bool {
        let has = |slugs: &Vec<String>| slugs.iter().any(|slug| slug == workspace);
        self.workspaces.as_ref().is_none_or(has)
    }
}

/// The definitions of workspaces with all their plugins. Of two plugins with the same name the workspace's own wins,
/// then the operator's; bare tool names are looked up in the same order.
pub(crate) struct PluginCatalog {
    definitions: Arc<dyn ToolDefinitions>,
    configured: Vec<ConfiguredPlugin>,
    shipped: Vec<PluginManifest>,
}

impl PluginCatalog {
    /// Combines the workspaces' own definitions with the operator's plugins and the shipped ones.
    pub(crate) fn new(
        definitions: Arc<dyn ToolDefinitions>,
        plugins: PluginSet,
        shipped: &ShippedTools,
    ) -> Self {
        let is_enabled = |manifest: &PluginManifest| {
            let slug = manifest.name.trim_start_matches('@');
            shipped.supports(slug) && !plugins.without.iter().any(|without| without == slug)
        };
        let manifests = shipped::manifests().into_iter();
        Self {
            definitions,
            shipped: manifests.filter(is_enabled).collect(),
            configured: plugins.installed,
        }
    }

    /// The workspace's plugins that come from the operator or ship with the server.
    pub(crate) async fn provided(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        let own = self.definitions.plugins(workspace).await?;
        let mut seen: HashSet<String> = own.into_iter().map(|plugin| plugin.name).collect();
        let configured = self
            .configured
            .iter()
            .filter(|plugin| plugin.is_in(workspace))
            .map(|plugin| (&plugin.manifest, InstalledFrom::Operator));
        let shipped = self.shipped.iter();
        let shipped = shipped.map(|manifest| (manifest, InstalledFrom::Shipped));
        let provided = configured.chain(shipped);
        let provided = provided.filter(|(manifest, _)| seen.insert(manifest.name.clone()));
        Ok(provided
            .map(|(manifest, source)| describe(manifest, source))
            .collect())
    }
}

fn describe(manifest: &PluginManifest, source: InstalledFrom) -> InstalledPlugin {
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
impl ToolDefinitions for PluginCatalog {
    async fn tool(&self, workspace: &str, id_or_slug: &str) -> Result<Option<ToolDefinition>> {
        self.definitions.tool(workspace, id_or_slug).await
    }

    async fn plugins(&self, workspace: &str) -> Result<Vec<PluginManifest>> {
        let configured = self
            .configured
            .iter()
            .filter(|plugin| plugin.is_in(workspace));
        let provided = configured
            .map(|plugin| &plugin.manifest)
            .chain(&self.shipped);
        let mut plugins = self.definitions.plugins(workspace).await?;
        plugins.extend(provided.cloned());
        let mut seen = HashSet::new();
        plugins.retain(|plugin| seen.insert(plugin.name.clone()));
        Ok(plugins)
    }

    async fn toolset(&self, workspace: &str, id_or_slug: &str) -> Result<Option<Toolset>> {
        self.definitions.toolset(workspace, id_or_slug).await
    }

    async fn secret(&self, workspace: &str, name: &str) -> Result<Option<Secret>> {
        self.definitions.secret(workspace, name).await
    }
}
