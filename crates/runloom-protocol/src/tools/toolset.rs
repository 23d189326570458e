//! Toolsets of the workspace, by reference.

use serde::{Deserialize, Serialize};

use crate::check::names::{Names, Namespace};
use crate::limits;
use crate::read::Fields;

/// A toolset of the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolsetRef {
    /// The slug or the id of the toolset.
    pub name: String,
    /// The MCP server's names of the tools that the model can call, out of those of the toolset; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_filter: Option<Vec<String>>,
}

impl ToolsetRef {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let node = fields.require("name");
        let name = node.and_then(|node| {
            let name = node.filled_text(limits::REFERENCE_MAX_CHARS)?;
            names.claim(Namespace::Toolset, name, &node);
            Some(name)
        });
        let (max, max_chars) = (limits::TOOL_FILTER_MAX, limits::REFERENCE_MAX_CHARS);
        let tool_filter = fields.strings("toolFilter", max, max_chars);
        Some(Self {
            name: name?.to_owned(),
            tool_filter,
        })
    }
}
