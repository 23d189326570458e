//! Workspace tools, by reference.

use serde::{Deserialize, Serialize};

use crate::check::names::{Names, Namespace};
use crate::limits;
use crate::read::Fields;

/// A tool of the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceToolRef {
    /// The id or slug of the tool.
    pub id: String,
}

impl WorkspaceToolRef {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let node = fields.require("id")?;
        let id = node.filled_text(limits::REFERENCE_MAX_CHARS)?;
        names.claim(Namespace::WorkspaceTool, id, &node);
        Some(Self { id: id.to_owned() })
    }
}
