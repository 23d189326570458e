//! Plugins: several tools under one name, installed and removed together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::tool::{McpCall, ProcessCall, ToolAction, ToolDefinition};
use crate::tools::SessionScope;

/// A plugin: tools and MCP servers under one name, which runs use by `{"kind": "mantyx_plugin", "name":
/// "@plugin/tool"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PluginManifest {
    /// The name: `@` and the slug.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub name: String,
    /// The plugin's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What the plugin is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the tools can also be used by their bare names, like `web_search`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub global: bool,
    /// The tools, at most 64, with unique names; none of type `plugin`. In a request, a code tool may have `file` in
    /// place of `source`: the path of a text in `files` of the manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<PluginTool>,
    /// The MCP servers whose tools belong to the plugin, at most 16, with unique names. A plugin has at least one
    /// tool or server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<PluginServer>,
}

/// One tool of a plugin.
pub type PluginTool = ToolDefinition;

/// An MCP server of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PluginServer {
    /// The name of the server: `@plugin/<name>` means all of its tools.
    pub name: String,
    /// The names of the tools that are used; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The time limit of one call in milliseconds.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// The runs that share a session with a server on the network. A process is always shared by the workspace.
    #[serde(default, skip_serializing_if = "SessionScope::is_run")]
    pub session: SessionScope,
    /// The endpoint.
    #[serde(flatten)]
    pub endpoint: McpEndpoint,
}

fn default_timeout_ms() -> u64 {
    crate::limits::TOOL_TIMEOUT_MS_DEFAULT
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum McpEndpoint {
    /// Over Streamable HTTP.
    Http {
        /// The Streamable HTTP endpoint.
        url: String,
        /// Headers of every request. Values may contain `{{secret:NAME}}`; literal values are secrets.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// As a process of the server's machine. Only the operator's configuration may name one, so that it is never
    /// written or read with a stored document.
    #[serde(skip)]
    Process(ProcessSpec),
}

/// A process that speaks MCP over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// `@plugin/server`, for the log.
    pub label: String,
    /// The program: a name that is looked for in `PATH`, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment beside `PATH`, `HOME` and the like: templates with `{{secret:NAME}}`.
    pub env: BTreeMap<String, String>,
    /// Where it works; `None` = where the server does.
    pub folder: Option<PathBuf>,
}

/// What a ref's name leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum PluginMatch<'p> {
    /// One tool. A tool of an MCP server has no schema yet: the server knows it.
    Tool(Box<ToolDefinition>),
    /// All tools of an MCP server.
    Server(&'p PluginServer),
}

impl PluginManifest {
    /// What a ref's name leads to, if it is one of this plugin's. A bare name finds only what the manifest names.
    #[must_use]
    pub fn find(&self, reference: &str) -> Option<PluginMatch<'_>> {
        let (name, is_bare) = match reference.strip_prefix(&self.name) {
            Some(rest) => (rest.strip_prefix('/')?, false),
            None if self.global && !reference.starts_with('@') => (reference, true),
            None => return None,
        };
        if let Some(tool) = self.tools.iter().find(|tool| tool.name == name) {
            return Some(PluginMatch::Tool(Box::new(tool.clone())));
        }
        let mut servers = self.servers.iter();
        if let Some(server) = servers.clone().find(|server| server.name == name) {
            return Some(PluginMatch::Server(server));
        }
        let names_it = |server: &&PluginServer| {
            let named = server
                .tools
                .as_ref()
                .map(|tools| tools.iter().any(|t| t == name));
            named.unwrap_or(!is_bare && !name.is_empty())
        };
        servers
            .find(names_it)
            .map(|server| PluginMatch::Tool(Box::new(server.tool(name))))
    }

    /// The one tool that a ref's name leads to.
    #[must_use]
    pub fn tool(&self, reference: &str) -> Option<ToolDefinition> {
        match self.find(reference)? {
            PluginMatch::Tool(tool) => Some(*tool),
            PluginMatch::Server(_) => None,
        }
    }
}

impl PluginServer {
    /// One of its tools, as far as it is known without asking the server.
    #[must_use]
    pub fn tool(&self, name: &str) -> ToolDefinition {
        let action = match &self.endpoint {
            McpEndpoint::Http { url, headers } => ToolAction::Mcp(McpCall {
                url: url.clone(),
                headers: headers.clone(),
                tool: Some(name.to_owned()),
                session: self.session,
            }),
            McpEndpoint::Process(process) => ToolAction::Process(ProcessCall {
                process: process.clone(),
                tool: name.to_owned(),
            }),
        };
        ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            parameters: serde_json::Map::new(),
            output_schema: None,
            effect: None,
            timeout_ms: Some(self.timeout_ms),
            action,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tool::CodeCall;
    use super::*;

    fn manifest(global: bool) -> PluginManifest {
        let tool = ToolDefinition {
            name: "search".to_owned(),
            description: String::new(),
            parameters: serde_json::Map::new(),
            output_schema: None,
            effect: None,
            timeout_ms: None,
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
            servers: Vec::new(),
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

    fn server(name: &str, tools: Option<&[&str]>) -> PluginServer {
        PluginServer {
            name: name.to_owned(),
            tools: tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect()),
            timeout_ms: 1,
            session: SessionScope::Run,
            endpoint: McpEndpoint::Http {
                url: format!("https://{name}.example/mcp"),
                headers: BTreeMap::new(),
            },
        }
    }

    #[test]
    fn a_servers_tools_are_found_by_name_and_all_of_them_by_the_servers_name() {
        let mut manifest = manifest(true);
        manifest.servers = vec![server("docs", Some(&["read_doc"])), server("any", None)];
        let url = |name: &str| match manifest.tool(name).map(|tool| tool.action) {
            Some(ToolAction::Mcp(call)) => Some((call.url, call.tool)),
            _ => None,
        };
        let at = |host: &str, tool: &str| {
            Some((format!("https://{host}.example/mcp"), Some(tool.to_owned())))
        };
        assert_eq!(url("@web/read_doc"), at("docs", "read_doc"));
        assert_eq!(url("read_doc"), at("docs", "read_doc"));
        assert_eq!(url("@web/other"), at("any", "other"));
        assert_eq!(
            url("other"),
            None,
            "a bare name must not fall to a server that names nothing"
        );
        assert!(
            matches!(manifest.find("@web/docs"), Some(PluginMatch::Server(found)) if found.name == "docs")
        );
        assert!(manifest.tool("@web/docs").is_none());
        assert!(matches!(
            manifest.tool("@web/search").map(|t| t.action),
            Some(ToolAction::Code(_))
        ));
    }

    #[test]
    fn a_process_is_never_written_or_read_with_a_document() {
        let mut manifest = manifest(false);
        let mut process = server("p", None);
        process.endpoint = McpEndpoint::Process(ProcessSpec {
            label: String::new(),
            command: "x".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            folder: None,
        });
        manifest.servers = vec![process];
        assert!(serde_json::to_value(&manifest).is_err());
        let stored = serde_json::json!({"name": "@p", "servers": [{"name": "p", "command": "x", "args": []}]});
        assert!(serde_json::from_value::<PluginManifest>(stored).is_err());
    }
}
