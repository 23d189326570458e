//! Plugins: several tools under one name, installed and removed together.

use serde::{Deserialize, Serialize};

use super::tool::ToolDefinition;

/// What a plugin brings: what `{"kind": "mantyx_plugin", "name": "@plugin/tool"}` leads to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginManifest {
    /// `@name`: the slug with an `@` before it.
    pub name: String,
    /// The plugin's own version, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether its tools are also reached by their bare names, like `web_search`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub global: bool,
    /// 1–64 tools with unique names; none is of type `plugin`.
    pub tools: Vec<PluginTool>,
}

/// One tool of a plugin.
pub type PluginTool = ToolDefinition;

impl PluginManifest {
    /// The tool that a ref's name leads to, if it is one of this plugin.
    #[must_use]
    pub fn tool(&self, reference: &str) -> Option<&PluginTool> {
        let name = match reference.strip_prefix(&self.name) {
            Some(rest) => rest.strip_prefix('/')?,
            None if self.global && !reference.starts_with('@') => reference,
            None => return None,
        };
        self.tools.iter().find(|tool| tool.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tool::{CodeCall, ToolAction};
    use super::*;

    fn manifest(global: bool) -> PluginManifest {
        let tool = ToolDefinition {
            name: "search".to_owned(),
            description: String::new(),
            parameters: serde_json::Map::new(),
            output_schema: None,
            effect: None,
            timeout_ms: 1,
            action: ToolAction::Code(CodeCall {
                source: "return 1".to_owned(),
                memory_mb: 16,
                max_output_bytes: 1,
                allow_fetch: false,
                secrets: Vec::new(),
            }),
        };
        PluginManifest {
            name: "@web".to_owned(),
            version: None,
            description: None,
            global,
            tools: vec![tool],
        }
    }

    #[test]
    fn a_ref_finds_its_tool_by_full_name_and_by_bare_name_only_when_global() {
        assert!(manifest(false).tool("@web/search").is_some());
        assert!(manifest(false).tool("search").is_none());
        assert!(manifest(true).tool("search").is_some());
        for other in [
            "@web/find",
            "@webx/search",
            "@web",
            "@other/search",
            "@web/",
        ] {
            assert!(manifest(true).tool(other).is_none(), "{other}");
        }
    }
}
