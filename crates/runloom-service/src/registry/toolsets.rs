//! Toolsets of a workspace: its documents, and those of the operator's configuration, which are kept in memory only.

use runloom_protocol::definition::ToolsetDefinition;
use runloom_protocol::limits;
use runloom_protocol::resource::{InstalledFrom, InstalledToolset};

use super::{RegistryService, word};
use crate::error::{Error, Result};
use runloom_ports::store::DocumentKind;

/// Documents of one kind in one workspace.
const DOCUMENTS_MAX: usize = 1000;

/// A toolset of the operator's configuration: a process on the server's machine.
#[derive(Debug, Clone)]
pub struct OperatorToolset {
    /// Slug of the workspace that has it.
    pub workspace: String,
    /// Its name in the workspace.
    pub slug: String,
    /// What it says.
    pub definition: ToolsetDefinition,
}

impl RegistryService {
    /// Adds toolsets that exist without documents. Their names cannot be put or deleted.
    #[must_use]
    pub fn with_operator_toolsets(mut self, toolsets: Vec<OperatorToolset>) -> Self {
        self.operator_toolsets = toolsets;
        self
    }

    /// The toolsets of the operator's configuration in a workspace, by name.
    #[must_use]
    pub fn installed_toolsets(&self, workspace: &str) -> Vec<InstalledToolset> {
        let own = self.operator_toolsets_of(workspace);
        let mut installed: Vec<_> = own
            .map(|toolset| InstalledToolset {
                name: toolset.slug.clone(),
                transport: toolset.definition.connection.transport().to_owned(),
                source: InstalledFrom::Operator,
                description: toolset.definition.description.clone(),
                tools: toolset.definition.tools.clone(),
            })
            .collect();
        installed.sort_by(|one, other| one.name.cmp(&other.name));
        installed
    }

    /// The operator's toolset of a name.
    pub(super) fn operator_toolset(&self, workspace: &str, slug: &str) -> Option<&OperatorToolset> {
        let mut own = self.operator_toolsets_of(workspace);
        own.find(|toolset| toolset.slug == slug)
    }

    /// Refuses to change a document whose name belongs to the configuration file.
    pub(super) fn check_changeable(
        &self,
        workspace: &str,
        kind: DocumentKind,
        slug: &str,
    ) -> Result<()> {
        if kind != DocumentKind::Toolset || self.operator_toolset(workspace, slug).is_none() {
            return Ok(());
        }
        let message = format!(
            "The toolset `{slug}` belongs to the server's configuration file; change it there."
        );
        Err(Error::Conflict { message })
    }

    /// The number of documents of a kind that a workspace may have.
    pub(super) fn documents_max(&self, workspace: &str, kind: DocumentKind) -> usize {
        match kind {
            DocumentKind::Toolset => {
                let own = self.operator_toolsets_of(workspace).count();
                limits::TOOLSETS_MAX.saturating_sub(own)
            }
            _ => DOCUMENTS_MAX,
        }
    }

    fn operator_toolsets_of(&self, workspace: &str) -> impl Iterator<Item = &OperatorToolset> {
        let toolsets = self.operator_toolsets.iter();
        toolsets.filter(move |toolset| toolset.workspace == workspace)
    }
}

/// The refusal of a document beyond the limit.
pub(super) fn full(kind: DocumentKind, limit: usize) -> Error {
    let message = format!(
        "The workspace has {limit} documents of the kind {} already; delete one first.",
        word(kind)
    );
    Error::Conflict { message }
}
