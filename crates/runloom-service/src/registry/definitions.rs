//! What tools and delegates need at run time.

use async_trait::async_trait;
use runloom_protocol::id::AgentId;
use serde_json::Value;

use super::RegistryService;
use runloom_ports::agents::{Agents, FoundAgent};
use runloom_ports::error::Result;
use runloom_ports::secret::Secret;
use runloom_ports::store::{Document, DocumentKind};
use runloom_ports::tools::{PluginManifest, ToolDefinition, ToolDefinitions, Toolset};

#[async_trait]
impl Agents for RegistryService {
    async fn agent(&self, workspace: &str, id: &AgentId) -> Result<Option<FoundAgent>> {
        let workspace = self.workspace(workspace).await?;
        let kind = DocumentKind::Agent;
        let found = self.store.document(workspace.no, kind, id.as_str()).await?;
        found
            .map(|document| {
                Ok(FoundAgent {
                    definition: self.read(&workspace, &document)?,
                    version: document.version,
                })
            })
            .transpose()
    }
}

#[async_trait]
impl ToolDefinitions for RegistryService {
    async fn tool(&self, workspace: &str, id_or_slug: &str) -> Result<Option<ToolDefinition>> {
        if let Some(known) = self.known.get(workspace, id_or_slug) {
            return Ok(Some(known));
        }
        let generation = self.known.generation();
        let workspace = self.workspace(workspace).await?;
        for kind in [DocumentKind::Tool, DocumentKind::ExternalAgent] {
            let found = self.store.document(workspace.no, kind, id_or_slug).await?;
            if let Some(found) = found {
                let definition = self.read(&workspace, &found)?;
                let place = (workspace.slug.as_str(), id_or_slug);
                self.known
                    .keep(generation, place, &definition, found.body.len());
                return Ok(Some(definition));
            }
        }
        Ok(None)
    }

    async fn plugins(&self, workspace: &str) -> Result<Vec<PluginManifest>> {
        let workspace = self.workspace(workspace).await?;
        let found = self
            .store
            .documents(workspace.no, DocumentKind::Plugin)
            .await?;
        found
            .iter()
            .map(|document| Ok(self.read(&workspace, document)?))
            .collect()
    }

    async fn toolset(&self, workspace: &str, id_or_slug: &str) -> Result<Option<Toolset>> {
        if let Some(toolset) = self.operator_toolset(workspace, id_or_slug) {
            return Ok(Some(Toolset {
                slug: toolset.slug.clone(),
                definition: toolset.definition.clone(),
            }));
        }
        let workspace = self.workspace(workspace).await?;
        let kind = DocumentKind::Toolset;
        let found = self.store.document(workspace.no, kind, id_or_slug).await?;
        // The name of an operator's toolset hides a document.
        let hidden = |found: &Document| {
            self.operator_toolset(&workspace.slug, &found.slug)
                .is_some()
        };
        let Some(found) = found.filter(|found| !hidden(found)) else {
            return Ok(None);
        };
        Ok(Some(Toolset {
            definition: self.read(&workspace, &found)?,
            slug: found.slug,
        }))
    }

    async fn secret(&self, workspace: &str, name: &str) -> Result<Option<Secret>> {
        let workspace = self.workspace(workspace).await?;
        let kind = DocumentKind::Secret;
        let found = self.store.document(workspace.no, kind, name).await?;
        // Templates know secrets by name only.
        let Some(found) = found.filter(|found| found.slug == name) else {
            return Ok(None);
        };
        match self.clear(&workspace, &found)? {
            Value::Object(mut object) => Ok(object.remove("value").and_then(|value| match value {
                Value::String(clear) => Some(Secret::new(clear)),
                _ => None,
            })),
            _ => Ok(None),
        }
    }
}
