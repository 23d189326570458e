//! Workspace tools, by reference.

use serde::{Deserialize, Serialize};

use crate::check::names::{Names, Namespace};
use crate::limits;
use crate::read::Fields;

/// `kind: "mantyx"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceToolRef {
    /// Id of the tool's row.
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
