//! MCP servers: connected to by the server or by the client.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Object;
use crate::check::documents::{description, document, object_document};
use crate::check::names::{Names, Namespace, mcp_tool_name};
use crate::check::web;
use crate::limits;
use crate::read::{Fields, Node, json_bytes, keywords};

keywords! {
    /// The runs that share a session with an MCP server.
    #[derive(Default)]
    pub enum SessionScope {
        /// Each run has a session of its own.
        #[default]
        Run = "run",
        /// The runs of a workspace share one.
        Workspace = "workspace",
    }
}

impl SessionScope {
    /// Whether each run has a session of its own.
    #[must_use]
    pub fn is_run(&self) -> bool {
        *self == Self::Run
    }
}

/// An MCP server that the server connects to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpTool {
    /// The prefix of the model-facing names.
    pub name: String,
    /// The Streamable HTTP endpoint.
    pub url: String,
    /// Headers of every request; the values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The names of the tools that the model can call; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_filter: Option<Vec<String>>,
    /// The runs that share a session with the server.
    #[serde(default, skip_serializing_if = "SessionScope::is_run")]
    pub session: SessionScope,
}

impl McpTool {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let name = names.claim_name(fields, Namespace::McpPrefix);
        let url = web::required_url(fields, "url");
        let headers = web::headers(fields);
        // Names as the MCP server knows them, so of any alphabet.
        let (max, max_chars) = (limits::TOOL_FILTER_MAX, limits::REFERENCE_MAX_CHARS);
        let tool_filter = fields.strings("toolFilter", max, max_chars);
        Some(Self {
            name: name?,
            url: url?,
            headers,
            tool_filter,
            session: fields.keyword("session").unwrap_or_default(),
        })
    }
}

/// An MCP server that the client is connected to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpLocalTool {
    /// The label of the server, repeated as `mcpServer` in `local_tool_call`.
    pub name: String,
    /// The server's description of itself, repeated in `local_tool_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Object>,
    /// The tools of the server, 1 to 64.
    pub tools: Vec<McpToolEntry>,
}

impl McpLocalTool {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        // The server's label is not shown to the model, so two servers may share one.
        let name = fields.require("name").and_then(|node| mcp_tool_name(&node));
        let server_info = object_document(fields, "serverInfo");
        let array = fields
            .require("tools")?
            .array(limits::MCP_LOCAL_TOOLS_MAX)?;
        if array.is_empty() {
            array.refuse("must have at least one tool");
        }
        let tools = array
            .iter()
            .filter_map(|node| McpToolEntry::read(node, names));
        let tools = tools.collect();
        Some(Self {
            name: name?.to_owned(),
            server_info,
            tools,
        })
    }
}

/// A tool of an MCP server, as MCP lists it. Unknown fields are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpToolEntry {
    /// The server's name of the tool, repeated in `local_tool_call`. The model sees it with `_` for other characters.
    pub name: String,
    /// The description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// MCP annotations, repeated in `local_tool_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// Other fields of the tool.
    #[serde(flatten)]
    pub rest: Object,
}

impl McpToolEntry {
    /// The model-facing name: the server's own with `_` for characters that models cannot use.
    #[must_use]
    pub fn model_name(&self) -> Cow<'_, str> {
        model_name(&self.name)
    }

    fn read<'v>(node: Node<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let fields = node.fields()?;
        let node_of_name = fields.require("name");
        let name = node_of_name.and_then(|node| {
            let name = mcp_tool_name(&node)?;
            names.claim(Namespace::ModelFacing, model_name(name), &node);
            Some(name.to_owned())
        });
        let description = description(&fields);
        let input_schema = document(&fields, "inputSchema");
        let output_schema = document(&fields, "outputSchema");
        let annotations = document(&fields, "annotations");
        Some(Self {
            name: name?,
            description,
            input_schema,
            output_schema,
            annotations,
            rest: unread_fields(&fields, &node),
        })
    }
}

fn model_name(name: &str) -> Cow<'_, str> {
    let is_foreign = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    match name.contains(is_foreign) {
        true => Cow::Owned(name.replace(is_foreign, "_")),
        false => Cow::Borrowed(name),
    }
}

/// Every other field as the client wrote it, under the same size limit as one document.
fn unread_fields(fields: &Fields<'_, '_>, node: &Node<'_, '_>) -> Object {
    let unread = fields.unread();
    let rest: Object = unread
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    let (bytes, max) = (json_bytes(&rest), limits::TOOL_DOCUMENT_MAX_BYTES);
    if bytes > max {
        node.refuse(format_args!(
            "the other fields must be at most {max} bytes of JSON, got {bytes}"
        ));
    }
    rest
}
