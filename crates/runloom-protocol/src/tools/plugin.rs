//! Tools of plugins, by reference.

use serde::{Deserialize, Serialize};

use crate::check::names::{Names, Namespace, plugin_name};
use crate::read::Fields;

/// `kind: "mantyx_plugin"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginToolRef {
    /// `web_search` or `@plugin/tool`.
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
