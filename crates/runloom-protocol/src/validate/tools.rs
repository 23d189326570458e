//! Tool refs, kind by kind.

use super::documents::{object_of_tool, of_tool};
use super::names::{self, Names, Namespace};
use super::web;
use crate::limits;
use crate::read::{Excerpt, Fields, Node, json_bytes};
use crate::tools::{
    A2aLocalTool, A2aTool, LocalTool, McpLocalTool, McpTool, McpToolEntry, Object, PluginToolRef,
    ToolRef, ToolRefKind, WorkspaceToolRef,
};

/// The tools in the client's order; `None` when the field is absent.
pub(super) fn read(fields: &Fields<'_, '_>) -> Option<Vec<ToolRef>> {
    let mut names = Names::default();
    fields.list("tools", limits::TOOLS_MAX, |node| tool(node, &mut names))
}

fn tool<'v>(node: Node<'v, '_>, names: &mut Names<'v>) -> Option<ToolRef> {
    let fields = node.fields()?;
    match fields.require("kind")?.keyword()? {
        ToolRefKind::Mantyx => workspace(&fields, names).map(ToolRef::Mantyx),
        ToolRefKind::MantyxPlugin => plugin(&fields, names).map(ToolRef::MantyxPlugin),
        ToolRefKind::Local => local(&fields, names).map(ToolRef::Local),
        ToolRefKind::A2a => a2a(&fields, names).map(ToolRef::A2a),
        ToolRefKind::A2aLocal => a2a_local(&fields, names).map(ToolRef::A2aLocal),
        ToolRefKind::Mcp => mcp(&fields, names).map(ToolRef::Mcp),
        ToolRefKind::McpLocal => mcp_local(&fields, names).map(ToolRef::McpLocal),
    }
}

fn workspace<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<WorkspaceToolRef> {
    let node = fields.require("id")?;
    let id = node.filled_text(limits::REFERENCE_MAX_CHARS)?;
    names.claim(Namespace::WorkspaceTool, id, &node);
    Some(WorkspaceToolRef { id: id.to_owned() })
}

fn plugin<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<PluginToolRef> {
    let node = fields.require("name")?;
    let name = plugin_name(&node)?;
    names.claim(Namespace::ModelFacing, name, &node);
    Some(PluginToolRef {
        name: name.to_owned(),
    })
}

/// The name of a plugin's tool.
pub(super) fn plugin_name<'v>(node: &Node<'v, '_>) -> Option<&'v str> {
    let name = node.string()?;
    if !names::is_plugin_name(name) {
        let wanted = "expected a name like `web_search` or `@plugin/tool`";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(name)));
        return None;
    }
    Some(name)
}

fn local<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<LocalTool> {
    let name = claimed_name(fields, Namespace::ModelFacing, names);
    let tool = LocalTool {
        name: String::new(),
        description: description(fields),
        parameters: of_tool(fields, "parameters"),
        output_schema: of_tool(fields, "outputSchema"),
        long_running: fields.flag("longRunning"),
        read_only: fields.flag("readOnly"),
        retain: fields.flag("retain"),
    };
    Some(LocalTool {
        name: name?,
        ..tool
    })
}

fn a2a<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<A2aTool> {
    let name = claimed_name(fields, Namespace::ModelFacing, names);
    let agent_card_url = web::required_url(fields, "agentCardUrl");
    let headers = web::headers(fields);
    let context_id = fields.text("contextId", limits::CONTEXT_ID_MAX_CHARS);
    let description = description(fields);
    Some(A2aTool {
        name: name?,
        agent_card_url: agent_card_url?,
        headers,
        context_id: context_id.filter(|id| !id.is_empty()).map(str::to_owned),
        description,
    })
}

fn a2a_local<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<A2aLocalTool> {
    let name = claimed_name(fields, Namespace::ModelFacing, names);
    let description = description(fields);
    let _ = fields.require("agentCard")?;
    let agent_card = object_of_tool(fields, "agentCard");
    Some(A2aLocalTool {
        name: name?,
        agent_card: agent_card?,
        description,
    })
}

fn mcp<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<McpTool> {
    let name = claimed_name(fields, Namespace::McpPrefix, names);
    let url = web::required_url(fields, "url");
    let headers = web::headers(fields);
    // Names as the MCP server knows them, so of any alphabet.
    let (max, max_chars) = (limits::TOOL_FILTER_MAX, limits::REFERENCE_MAX_CHARS);
    let tool_filter = fields.strings("toolFilter", max, max_chars);
    Some(McpTool {
        name: name?,
        url: url?,
        headers,
        tool_filter,
    })
}

fn mcp_local<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<McpLocalTool> {
    // The server's label is not shown to the model, so two servers may share one.
    let name = fields.require("name").and_then(|node| tool_name(&node));
    let server_info = object_of_tool(fields, "serverInfo");
    let array = fields
        .require("tools")?
        .array(limits::MCP_LOCAL_TOOLS_MAX)?;
    if array.is_empty() {
        array.refuse("must have at least one tool");
    }
    let tools = array.iter().filter_map(|node| mcp_entry(node, names));
    let tools = tools.collect();
    Some(McpLocalTool {
        name: name?.to_owned(),
        server_info,
        tools,
    })
}

fn mcp_entry<'v>(node: Node<'v, '_>, names: &mut Names<'v>) -> Option<McpToolEntry> {
    let fields = node.fields()?;
    let name = claimed_name(&fields, Namespace::ModelFacing, names);
    let description = description(&fields);
    let input_schema = of_tool(&fields, "inputSchema");
    let output_schema = of_tool(&fields, "outputSchema");
    let annotations = of_tool(&fields, "annotations");
    Some(McpToolEntry {
        name: name?,
        description,
        input_schema,
        output_schema,
        annotations,
        rest: unread_fields(&fields, &node),
    })
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

fn description(fields: &Fields<'_, '_>) -> Option<String> {
    fields
        .text("description", limits::DESCRIPTION_MAX_CHARS)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// A name that the model can call.
pub(super) fn tool_name<'v>(node: &Node<'v, '_>) -> Option<&'v str> {
    let name = node.string()?;
    if !names::is_tool_name(name) {
        let wanted = "expected 1 to 64 of [a-zA-Z0-9_]";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(name)));
        return None;
    }
    Some(name)
}

fn claimed_name<'v>(
    fields: &Fields<'v, '_>,
    namespace: Namespace,
    names: &mut Names<'v>,
) -> Option<String> {
    let node = fields.require("name")?;
    let name = tool_name(&node)?;
    names.claim(namespace, name, &node);
    Some(name.to_owned())
}
