//! Tools of plugins, by reference.

use serde::{Deserialize, Serialize};

use crate::check::names::{Names, Namespace, plugin_name};
use crate::read::Fields;

/// A tool of an installed plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PluginToolRef {
    /// The name of the tool: `@plugin/tool`, or `tool` for a global plugin.
    pub name: String,
}

impl PluginToolRef {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let node = fields.require("name")?;
        let name = plugin_name(&node)?;
        names.claim(Namespace::ModelFacing, name, &node);
        Some(Self {
            name: name.to_owned(),
        })
    }
}
