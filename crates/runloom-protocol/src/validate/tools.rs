//! Tool refs, kind by kind.

use serde_json::Value;

use super::fields::{Fields, string, within_chars, within_count};
use super::issues::{Issues, Path, Short};
use super::names::{self, Names, Realm};
use super::web;
use crate::limits;
use crate::tools::{
    A2aLocalTool, A2aTool, LocalTool, McpLocalTool, McpTool, McpToolEntry, PluginToolRef, ToolRef,
    WorkspaceToolRef,
};

const KINDS: &str =
    "expected `mantyx`, `mantyx_plugin`, `local`, `a2a`, `a2a_local`, `mcp` or `mcp_local`";

/// The tools in the client's order; `None` when the field is absent.
pub(super) fn read(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<Vec<ToolRef>> {
    let array = fields.array("tools", issues)?;
    let path = fields.path.key("tools");
    if !within_count(array.len(), limits::TOOLS_MAX, &path, issues) {
        return None;
    }
    let mut names = Names::default();
    let mut tools = Vec::with_capacity(array.len());
    for (index, value) in array.iter().enumerate() {
        tools.extend(tool(value, &path.index(index), &mut names, issues));
    }
    Some(tools)
}

fn tool<'v>(
    value: &'v Value,
    path: &Path<'_>,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<ToolRef> {
    let fields = Fields::of(value, path, issues)?;
    fields.require("kind", issues)?;
    match fields.str("kind", issues)? {
        "mantyx" => workspace(&fields, names, issues).map(ToolRef::Mantyx),
        "mantyx_plugin" => plugin(&fields, names, issues).map(ToolRef::MantyxPlugin),
        "local" => local(&fields, names, issues).map(ToolRef::Local),
        "a2a" => a2a(&fields, names, issues).map(ToolRef::A2a),
        "a2a_local" => a2a_local(&fields, names, issues).map(ToolRef::A2aLocal),
        "mcp" => mcp(&fields, names, issues).map(ToolRef::Mcp),
        "mcp_local" => mcp_local(&fields, names, issues).map(ToolRef::McpLocal),
        other => {
            let path = path.key("kind");
            issues.add(&path, format_args!("{KINDS}, got `{}`", Short(other)));
            None
        }
    }
}

fn workspace<'v>(
    fields: &Fields<'v, '_>,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<WorkspaceToolRef> {
    let id = fields.required_text("id", limits::REFERENCE_MAX_CHARS, issues)?;
    names.claim(Realm::WorkspaceTool, id, &fields.path.key("id"), issues);
    Some(WorkspaceToolRef { id: id.to_owned() })
}

fn plugin<'v>(
    fields: &Fields<'v, '_>,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<PluginToolRef> {
    fields.require("name", issues)?;
    let name = fields.str("name", issues)?;
    if !names::is_plugin_name(name) {
        let wanted = "expected a name like `web_search` or `@plugin/tool`";
        fields.refuse(
            "name",
            format_args!("{wanted}, got `{}`", Short(name)),
            issues,
        );
        return None;
    }
    names.claim(Realm::ModelFacing, name, &fields.path.key("name"), issues);
    Some(PluginToolRef {
        name: name.to_owned(),
    })
}

fn local<'v>(
    fields: &Fields<'v, '_>,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<LocalTool> {
    let name = claimed_name(fields, Realm::ModelFacing, names, issues);
    let tool = LocalTool {
        name: String::new(),
        description: description(fields, issues),
        parameters: fields.document("parameters", issues),
        output_schema: fields.document("outputSchema", issues),
        long_running: fields.flag("longRunning", issues),
        read_only: fields.flag("readOnly", issues),
        retain: fields.flag("retain", issues),
    };
    Some(LocalTool {
        name: name?,
        ..tool
    })
}

fn a2a<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>, issues: &mut Issues) -> Option<A2aTool> {
    let name = claimed_name(fields, Realm::ModelFacing, names, issues);
    let agent_card_url = web::url(fields, "agentCardUrl", issues);
    let headers = web::headers(fields, issues);
    let context_id = fields.text("contextId", limits::CONTEXT_ID_MAX_CHARS, issues);
    let description = description(fields, issues);
    Some(A2aTool {
        name: name?,
        agent_card_url: agent_card_url?,
        headers,
        context_id: context_id.filter(|id| !id.is_empty()).map(str::to_owned),
        description,
    })
}

fn a2a_local<'v>(
    fields: &Fields<'v, '_>,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<A2aLocalTool> {
    let name = claimed_name(fields, Realm::ModelFacing, names, issues);
    let description = description(fields, issues);
    fields.require("agentCard", issues)?;
    let agent_card = fields.object_document("agentCard", issues);
    Some(A2aLocalTool {
        name: name?,
        agent_card: agent_card?,
        description,
    })
}

fn mcp<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>, issues: &mut Issues) -> Option<McpTool> {
    let name = claimed_name(fields, Realm::McpPrefix, names, issues);
    let url = web::url(fields, "url", issues);
    let headers = web::headers(fields, issues);
    let tool_filter = tool_filter(fields, issues);
    Some(McpTool {
        name: name?,
        url: url?,
        headers,
        tool_filter,
    })
}

/// Names as the MCP server knows them, so of any alphabet.
fn tool_filter(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<Vec<String>> {
    let array = fields.array("toolFilter", issues)?;
    let path = fields.path.key("toolFilter");
    within_count(array.len(), limits::TOOL_FILTER_MAX, &path, issues);
    let mut filter = Vec::with_capacity(array.len());
    for (index, value) in array.iter().enumerate() {
        let path = path.index(index);
        let Some(name) = string(value, &path, issues) else {
            continue;
        };
        if within_chars(name, limits::REFERENCE_MAX_CHARS, &path, issues) {
            filter.push(name.to_owned());
        }
    }
    Some(filter)
}

fn mcp_local<'v>(
    fields: &Fields<'v, '_>,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<McpLocalTool> {
    // The server's label is not shown to the model, so two servers may share one.
    let name = tool_name(fields, issues);
    let server_info = fields.object_document("serverInfo", issues);
    fields.require("tools", issues)?;
    let array = fields.array("tools", issues)?;
    let path = fields.path.key("tools");
    if array.is_empty() {
        issues.add(&path, "must have at least one tool");
    }
    if !within_count(array.len(), limits::MCP_LOCAL_TOOLS_MAX, &path, issues) {
        return None;
    }
    let mut tools = Vec::with_capacity(array.len());
    for (index, value) in array.iter().enumerate() {
        tools.extend(mcp_entry(value, &path.index(index), names, issues));
    }
    Some(McpLocalTool {
        name: name?.to_owned(),
        server_info,
        tools,
    })
}

fn mcp_entry<'v>(
    value: &'v Value,
    path: &Path<'_>,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<McpToolEntry> {
    const KNOWN: [&str; 5] = [
        "name",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
    ];
    let fields = Fields::of(value, path, issues)?;
    let name = claimed_name(&fields, Realm::ModelFacing, names, issues);
    let description = description(&fields, issues);
    let input_schema = fields.document("inputSchema", issues);
    let output_schema = fields.document("outputSchema", issues);
    let annotations = fields.document("annotations", issues);
    let rest = fields.rest(&KNOWN, issues);
    Some(McpToolEntry {
        name: name?,
        description,
        input_schema,
        output_schema,
        annotations,
        rest,
    })
}

fn description(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<String> {
    fields
        .text("description", limits::DESCRIPTION_MAX_CHARS, issues)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

fn tool_name<'v>(fields: &Fields<'v, '_>, issues: &mut Issues) -> Option<&'v str> {
    fields.require("name", issues)?;
    let name = fields.str("name", issues)?;
    if !names::is_tool_name(name) {
        let wanted = "expected 1 to 64 of [a-zA-Z0-9_]";
        fields.refuse(
            "name",
            format_args!("{wanted}, got `{}`", Short(name)),
            issues,
        );
        return None;
    }
    Some(name)
}

fn claimed_name<'v>(
    fields: &Fields<'v, '_>,
    realm: Realm,
    names: &mut Names<'v>,
    issues: &mut Issues,
) -> Option<String> {
    let name = tool_name(fields, issues)?;
    names.claim(realm, name, &fields.path.key("name"), issues);
    Some(name.to_owned())
}
