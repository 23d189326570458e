//! Plugins: their tools, their MCP servers, and the files that come with them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::{DefinitionSource, process, tool};
use crate::check::names::is_tool_name;
use crate::check::web;
use crate::definition::{McpEndpoint, PluginManifest, PluginServer};
use crate::limits;
use crate::read::{DocumentReader, Excerpt, FieldPath, Fields, Node};

/// The body without `files`, and with the file's text as `source` in place of `file` in code tools.
pub(super) fn inline_files(mut body: Value, reader: &DocumentReader) -> Value {
    let files = body
        .as_object_mut()
        .and_then(|object| object.remove("files"));
    let holder = Value::Object(
        files
            .map(|files| ("files".to_owned(), files))
            .into_iter()
            .collect(),
    );
    let fields = reader.root(&holder).fields_or_empty();
    let files = read_files(&fields);
    let mut used = BTreeSet::new();
    let tools = body.get_mut("tools").and_then(Value::as_array_mut);
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let Some(object) = tool.as_object_mut() else {
            continue;
        };
        let Some(file) = object.remove("file") else {
            continue;
        };
        let tools = FieldPath::ROOT.key("tools");
        let tool = tools.index(index);
        let path = tool.key("file");
        let Some(name) = file.as_str() else {
            reader.refuse(path, "expected a string, the name of a file in `files`");
            continue;
        };
        if object.contains_key("source") || object.contains_key("code") {
            reader.refuse(path, "a tool has either `file` or `source`");
        }
        let source = match files.get(name) {
            Some(text) => {
                used.insert(name.to_owned());
                *text
            }
            None => {
                let name = Excerpt(name);
                reader.refuse(path, format_args!("there is no file `{name}` in `files`"));
                // The error above suffices; the reader of the tool must not add that `source` is missing.
                "missing"
            }
        };
        object.insert("source".to_owned(), source.into());
    }
    for name in files.keys().filter(|name| !used.contains(**name)) {
        reader.refuse(
            FieldPath::ROOT.key("files").key(name),
            "no tool has this `file`",
        );
    }
    body
}

/// `files`: texts by their path inside the plugin.
fn read_files<'v>(fields: &Fields<'v, '_>) -> BTreeMap<&'v str, &'v str> {
    let mut found = BTreeMap::new();
    let Some(node) = fields.get("files") else {
        return found;
    };
    let wanted = "an object from file names to texts";
    let Some(object) = node.expect(wanted, node.value().as_object()) else {
        return found;
    };
    if !node.has_entries_within(object.len(), limits::PLUGIN_FILES_MAX) {
        return found;
    }
    for (name, node) in node.fields_or_empty().entries() {
        if !is_relative(name) {
            node.refuse("expected a path inside the plugin, like `lib/tool.js`");
        }
        if let Some(text) = node.string() {
            found.insert(name, text);
        }
    }
    found
}

/// Whether a path stays inside the folder that it is read from.
fn is_relative(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= limits::REFERENCE_MAX_CHARS;
    fits && !name.contains(['\\', '\0', ':'])
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

pub(super) fn manifest(
    fields: &Fields<'_, '_>,
    slug: &str,
    source: DefinitionSource,
) -> PluginManifest {
    let plugin = Plugin {
        name: format!("@{slug}"),
        source,
    };
    let name = &plugin.name;
    if fields
        .string("name")
        .is_some_and(|given| given != name && given != slug)
    {
        let message = format_args!("must be `{name}`, the slug with an `@`");
        fields.refuse("name", message);
    }
    let version = fields.text("version", limits::LABEL_MAX_CHARS);
    let description = fields.text("description", limits::DESCRIPTION_MAX_CHARS);
    let global = fields.flag("global");
    let mut names = HashSet::new();
    let tools = entries(fields, "tools", limits::PLUGIN_TOOLS_MAX, |fields| {
        let tool = tool::of_plugin(fields)?;
        claim(&tool.name, fields, &mut names);
        Some(tool)
    });
    let servers = entries(fields, "servers", limits::PLUGIN_SERVERS_MAX, |fields| {
        let server = plugin.server(fields)?;
        claim(&server.name, fields, &mut names);
        Some(server)
    });
    if !fields.has("tools") && !fields.has("servers") {
        fields.refuse("tools", "is required, unless there are `servers`");
    }
    fields.accept(&["slug"]);
    fields.refuse_unread();
    PluginManifest {
        name: plugin.name,
        version: version.map(str::to_owned),
        description: description.map(str::to_owned),
        global,
        tools,
        servers,
    }
}

/// The objects of a list; an empty list is a mistake.
fn entries<T>(
    fields: &Fields<'_, '_>,
    key: &'static str,
    max: usize,
    mut read: impl FnMut(&Fields<'_, '_>) -> Option<T>,
) -> Vec<T> {
    let Some(array) = fields.get(key).and_then(|node| node.array(max)) else {
        return Vec::new();
    };
    if array.is_empty() {
        array.refuse("must have at least one entry");
    }
    let nodes = array.iter();
    nodes.filter_map(|node| read(&node.fields()?)).collect()
}

fn claim(name: &str, fields: &Fields<'_, '_>, names: &mut HashSet<String>) {
    if !names.insert(name.to_owned()) {
        fields.refuse("name", format_args!("`{}` is used twice", Excerpt(name)));
    }
}

/// The plugin that a server belongs to.
struct Plugin {
    /// With its `@`.
    name: String,
    source: DefinitionSource,
}

impl Plugin {
    fn server(&self, fields: &Fields<'_, '_>) -> Option<PluginServer> {
        let node = fields.require("name");
        let name = node.as_ref().and_then(Node::string);
        if let (Some(node), Some(name)) = (&node, name.filter(|name| !is_tool_name(name))) {
            let wanted = "expected 1 to 64 of [a-zA-Z0-9_]";
            node.refuse(format_args!("{wanted}, got `{}`", Excerpt(name)));
        }
        let tools = process::words(fields, "tools", limits::TOOL_FILTER_MAX);
        let timeout_ms = fields.integer("timeoutMs", 1..=limits::TOOL_TIMEOUT_MS_MAX);
        let session = fields.keyword("session");
        if session.is_some() && fields.has("command") {
            fields.refuse(
                "session",
                "belongs to `url`; the workspace shares a process",
            );
        }
        let mut endpoint = self.endpoint(fields);
        if let (Some(McpEndpoint::Process(process)), Some(name)) = (&mut endpoint, name) {
            process.label = format!("{}/{name}", self.name);
        }
        fields.accept(&["url", "headers", "command", "args", "env"]);
        fields.refuse_unread();
        Some(PluginServer {
            name: name?.to_owned(),
            tools,
            timeout_ms: timeout_ms.unwrap_or(limits::TOOL_TIMEOUT_MS_DEFAULT),
            session: session.unwrap_or_default(),
            endpoint: endpoint?,
        })
    }

    fn endpoint(&self, fields: &Fields<'_, '_>) -> Option<McpEndpoint> {
        match (fields.get("url"), fields.get("command")) {
            (Some(url), None) => {
                for key in ["args", "env"].into_iter().filter(|key| fields.has(key)) {
                    fields.refuse(key, "belongs to `command`, not to `url`");
                }
                let url = web::url(&url);
                let headers = web::definition_headers(fields);
                Some(McpEndpoint::Http { url: url?, headers })
            }
            (None, Some(command)) if self.source == DefinitionSource::Administrator => {
                let message = "a process can be started only by a plugin of the server's configuration file (`[[plugins]]`); give the `url` of an MCP server";
                command.refuse(message);
                None
            }
            (None, Some(command)) => {
                if fields.has("headers") {
                    fields.refuse("headers", "belongs to `url`, not to `command`");
                }
                process::read(fields, &command).map(McpEndpoint::Process)
            }
            (Some(_), Some(command)) => {
                command.refuse("a server has either `url` or `command`");
                None
            }
            (None, None) => {
                let message = match self.source {
                    DefinitionSource::Operator => "is required, unless there is a `command`",
                    DefinitionSource::Administrator => "is required",
                };
                fields.refuse("url", message);
                None
            }
        }
    }
}
