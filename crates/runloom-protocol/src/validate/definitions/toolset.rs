//! Toolsets: the fields of each transport, and the settings of single tools.

use std::collections::BTreeMap;

use super::{DefinitionSource, process};
use crate::check::web;
use crate::definition::{ToolSettings, ToolsetConnection, ToolsetDefinition, ToolsetServer};
use crate::limits;
use crate::policy;
use crate::read::{Fields, keywords};

/// Fields of `stdio`.
const PROCESS_FIELDS: [&str; 3] = ["command", "args", "env"];

/// Fields of `sse` and `streamable_http`.
const SERVER_FIELDS: [&str; 2] = ["serverUrl", "headers"];

keywords! {
    /// `transport` of a toolset.
    enum Transport {
        Stdio = "stdio",
        Sse = "sse",
        StreamableHttp = "streamable_http",
    }
}

pub(super) fn read(
    fields: &Fields<'_, '_>,
    slug: &str,
    source: DefinitionSource,
) -> Option<ToolsetDefinition> {
    fields.accept(&["slug"]);
    fields.accept(&PROCESS_FIELDS);
    fields.accept(&SERVER_FIELDS);
    let description = fields.text("description", limits::DESCRIPTION_MAX_CHARS);
    let transport = fields.require("transport").and_then(|node| node.keyword());
    let connection = match source {
        DefinitionSource::Administrator => of_administrator(fields, transport),
        DefinitionSource::Operator => {
            transport.and_then(|transport| of_operator(fields, slug, transport))
        }
    };
    let (max, max_chars) = (limits::TOOL_FILTER_MAX, limits::REFERENCE_MAX_CHARS);
    let tools = fields.strings("tools", max, max_chars);
    let timeout_ms = fields.integer("timeoutMs", 1..=limits::TOOL_TIMEOUT_MS_MAX);
    let idle = limits::TOOLSET_IDLE_MS_MIN..=limits::TOOLSET_IDLE_MS_MAX;
    let idle_close_ms = fields.integer("idleCloseMs", idle);
    let policy = policy::read(fields);
    let tool_settings = tool_settings(fields);
    fields.refuse_unread();
    Some(ToolsetDefinition {
        description: description.map(str::to_owned),
        connection: connection?,
        tools,
        timeout_ms: timeout_ms.unwrap_or(limits::TOOL_TIMEOUT_MS_DEFAULT),
        idle_close_ms,
        policy,
        tool_settings,
    })
}

/// A connection that an administrator may declare: no process, and no field of one.
fn of_administrator(
    fields: &Fields<'_, '_>,
    transport: Option<Transport>,
) -> Option<ToolsetConnection> {
    let message = "a process can be started only by the server's configuration file (`[[workspaces.toolsets]]`); use `sse` or `streamable_http` with a `serverUrl`";
    if matches!(transport, Some(Transport::Stdio)) {
        fields.refuse("transport", message);
    }
    for key in PROCESS_FIELDS.into_iter().filter(|key| fields.has(key)) {
        fields.refuse(key, message);
    }
    match transport? {
        Transport::Stdio => None,
        Transport::Sse => server(fields).map(ToolsetConnection::Sse),
        Transport::StreamableHttp => server(fields).map(ToolsetConnection::StreamableHttp),
    }
}

fn of_operator(
    fields: &Fields<'_, '_>,
    slug: &str,
    transport: Transport,
) -> Option<ToolsetConnection> {
    let foreign: &[&str] = match transport {
        Transport::Stdio => &SERVER_FIELDS,
        Transport::Sse | Transport::StreamableHttp => &PROCESS_FIELDS,
    };
    for key in foreign.iter().filter(|key| fields.has(key)) {
        let word = transport.as_str();
        fields.refuse(
            key,
            format_args!("is not a field of the transport `{word}`"),
        );
    }
    match transport {
        Transport::Stdio => {
            let command = fields.require("command")?;
            let mut process = process::read(fields, &command)?;
            process.label = format!("toolset {slug}");
            Some(ToolsetConnection::Stdio(process))
        }
        Transport::Sse => server(fields).map(ToolsetConnection::Sse),
        Transport::StreamableHttp => server(fields).map(ToolsetConnection::StreamableHttp),
    }
}

fn server(fields: &Fields<'_, '_>) -> Option<ToolsetServer> {
    let server_url = web::required_url(fields, "serverUrl");
    let headers = web::definition_headers(fields);
    Some(ToolsetServer {
        server_url: server_url?,
        headers,
    })
}

fn tool_settings(fields: &Fields<'_, '_>) -> BTreeMap<String, ToolSettings> {
    let mut settings = BTreeMap::new();
    let Some(node) = fields.get("toolSettings") else {
        return settings;
    };
    let Some(tools) = node.fields() else {
        return settings;
    };
    node.has_entries_within(tools.object().len(), limits::TOOL_FILTER_MAX);
    for (name, node) in tools.entries() {
        let max = limits::REFERENCE_MAX_CHARS;
        if name.is_empty() || name.chars().count() > max {
            node.refuse(format_args!("a tool's name has 1 to {max} characters"));
        }
        let Some(fields) = node.fields() else {
            continue;
        };
        let effect = fields.keyword("effect");
        fields.refuse_unread();
        settings.insert(name.to_owned(), ToolSettings { effect });
    }
    settings
}
