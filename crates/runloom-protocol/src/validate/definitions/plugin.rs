//! Plugins: their tools, their MCP servers, and the files that come with them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::super::fields::{Fields, string, within_count};
use super::super::issues::{Issues, Path, Short};
use super::super::names::is_tool_name;
use super::super::web;
use super::tool;
use crate::definition::{
    McpEndpoint, PluginManifest, PluginServer, ProcessSpec, ToolDefinition, template,
};
use crate::error::Issue;
use crate::limits;

/// Who says that a plugin is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginSource {
    /// The operator's configuration, which may name processes to be started.
    Operator,
    /// Whoever may administer a workspace.
    Administrator,
}

/// Replaces `file` of code tools by the file's text as `source`, and takes `files` away.
pub(super) fn inline_files(body: &mut Value) -> Vec<Issue> {
    let mut issues = Issues::default();
    let root = Path::ROOT;
    let files = body
        .as_object_mut()
        .and_then(|object| object.remove("files"));
    let files = read_files(files.as_ref(), &root.key("files"), &mut issues);
    let mut used = BTreeSet::new();
    let tools = body.get_mut("tools").and_then(Value::as_array_mut);
    let at = root.key("tools");
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let Some(object) = tool
            .as_object_mut()
            .filter(|object| object.contains_key("file"))
        else {
            continue;
        };
        let path = at.index(index);
        let file = object.remove("file").unwrap_or_default();
        let Some(name) = string(&file, &path.key("file"), &mut issues) else {
            continue;
        };
        if object.contains_key("source") || object.contains_key("code") {
            issues.add(&path.key("file"), "a tool has either `file` or `source`");
        }
        match files.get(name) {
            Some(text) => {
                used.insert(name.to_owned());
                object.insert("source".to_owned(), (*text).into());
            }
            None => {
                let message = format_args!("there is no file `{}` in `files`", Short(name));
                issues.add(&path.key("file"), message);
                // Its absence was said here; the reader of the tool must not say it again.
                object.insert("source".to_owned(), "missing".into());
            }
        }
    }
    for name in files.keys().filter(|name| !used.contains(**name)) {
        issues.add(&root.key("files").key(name), "no tool has this `file`");
    }
    issues.finish(()).err().unwrap_or_default()
}

fn read_files<'v>(
    files: Option<&'v Value>,
    path: &Path<'_>,
    issues: &mut Issues,
) -> BTreeMap<&'v str, &'v str> {
    let mut found = BTreeMap::new();
    let Some(files) = files.filter(|files| !files.is_null()) else {
        return found;
    };
    let Some(object) = files.as_object() else {
        issues.add(path, "expected an object from file names to texts");
        return found;
    };
    if !within_count(object.len(), limits::PLUGIN_FILES_MAX, path, issues) {
        return found;
    }
    for (name, text) in object {
        let path = path.key(name);
        if !is_relative(name) {
            issues.add(
                &path,
                "expected a path inside the plugin, like `lib/tool.js`",
            );
        }
        if let Some(text) = string(text, &path, issues) {
            found.insert(name.as_str(), text);
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
    source: PluginSource,
    issues: &mut Issues,
) -> PluginManifest {
    let known = [
        "slug",
        "name",
        "version",
        "description",
        "global",
        "tools",
        "servers",
    ];
    fields.only(&known, issues);
    let name = format!("@{slug}");
    if fields
        .str("name", issues)
        .is_some_and(|given| given != name && given != slug)
    {
        let message = format_args!("must be `{name}`, the slug with an `@`");
        fields.refuse("name", message, issues);
    }
    let version = fields.text("version", limits::LABEL_MAX_CHARS, issues);
    let description = fields.text("description", limits::DESCRIPTION_MAX_CHARS, issues);
    let global = fields.flag("global", issues);
    let mut seen = HashSet::new();
    let tools = tools(fields, &mut seen, issues);
    let servers = servers(fields, (&name, source), &mut seen, issues);
    if fields.get("tools").is_none() && fields.get("servers").is_none() {
        fields.refuse("tools", "is required, unless there are `servers`", issues);
    }
    PluginManifest {
        name,
        version: version.map(str::to_owned),
        description: description.map(str::to_owned),
        global,
        tools,
        servers,
    }
}

/// The entries of a list; an empty list is a slip.
fn entries<'v>(fields: &Fields<'v, '_>, key: &str, max: usize, issues: &mut Issues) -> &'v [Value] {
    let Some(array) = fields.array(key, issues) else {
        return &[];
    };
    let path = fields.path.key(key);
    if array.is_empty() {
        issues.add(&path, "must have at least one entry");
    }
    if within_count(array.len(), max, &path, issues) {
        array
    } else {
        &[]
    }
}

fn claim(name: &str, fields: &Fields<'_, '_>, seen: &mut HashSet<String>, issues: &mut Issues) {
    if !seen.insert(name.to_owned()) {
        fields.refuse(
            "name",
            format_args!("`{}` is used twice", Short(name)),
            issues,
        );
    }
}

fn tools(
    fields: &Fields<'_, '_>,
    seen: &mut HashSet<String>,
    issues: &mut Issues,
) -> Vec<ToolDefinition> {
    let mut tools = Vec::new();
    let path = fields.path.key("tools");
    let entries = entries(fields, "tools", limits::PLUGIN_TOOLS_MAX, issues);
    for (index, value) in entries.iter().enumerate() {
        let path = path.index(index);
        let Some(fields) = Fields::of(value, &path, issues) else {
            continue;
        };
        if let Some(tool) = tool::one(&fields, None, issues) {
            claim(&tool.name, &fields, seen, issues);
            tools.push(tool);
        }
    }
    tools
}

fn servers(
    fields: &Fields<'_, '_>,
    (plugin, source): (&str, PluginSource),
    seen: &mut HashSet<String>,
    issues: &mut Issues,
) -> Vec<PluginServer> {
    let mut servers = Vec::new();
    let path = fields.path.key("servers");
    let entries = entries(fields, "servers", limits::PLUGIN_SERVERS_MAX, issues);
    for (index, value) in entries.iter().enumerate() {
        let path = path.index(index);
        let Some(fields) = Fields::of(value, &path, issues) else {
            continue;
        };
        if let Some(server) = server(&fields, plugin, source, issues) {
            claim(&server.name, &fields, seen, issues);
            servers.push(server);
        }
    }
    servers
}

fn server(
    fields: &Fields<'_, '_>,
    plugin: &str,
    source: PluginSource,
    issues: &mut Issues,
) -> Option<PluginServer> {
    let known = [
        "name",
        "tools",
        "timeoutMs",
        "url",
        "headers",
        "command",
        "args",
        "env",
    ];
    fields.only(&known, issues);
    fields.require("name", issues);
    let name = fields.str("name", issues);
    if let Some(name) = name.filter(|name| !is_tool_name(name)) {
        let message = format_args!("expected 1 to 64 of [a-zA-Z0-9_], got `{}`", Short(name));
        fields.refuse("name", message, issues);
    }
    let tools = names(fields, "tools", limits::TOOL_FILTER_MAX, issues);
    let timeout_ms = fields.integer("timeoutMs", 1..=limits::TOOL_TIMEOUT_MS_MAX, issues);
    let mut endpoint = endpoint(fields, source, issues);
    if let (Some(McpEndpoint::Process(process)), Some(name)) = (&mut endpoint, name) {
        process.label = format!("{plugin}/{name}");
    }
    Some(PluginServer {
        name: name?.to_owned(),
        tools,
        timeout_ms: timeout_ms.unwrap_or(limits::TOOL_TIMEOUT_MS_DEFAULT),
        endpoint: endpoint?,
    })
}

fn endpoint(
    fields: &Fields<'_, '_>,
    source: PluginSource,
    issues: &mut Issues,
) -> Option<McpEndpoint> {
    match (fields.get("url"), fields.get("command")) {
        (Some(_), None) => {
            for key in ["args", "env"]
                .into_iter()
                .filter(|key| fields.get(key).is_some())
            {
                fields.refuse(key, "belongs to `command`, not to `url`", issues);
            }
            let url = web::url(fields, "url", issues);
            let headers = web::own_headers(fields, issues);
            Some(McpEndpoint::Http { url: url?, headers })
        }
        (None, Some(_)) if source == PluginSource::Administrator => {
            let message = "a process can be started only by a plugin of the server's configuration file (`[[plugins]]`); give the `url` of an MCP server";
            fields.refuse("command", message, issues);
            None
        }
        (None, Some(_)) => {
            if fields.get("headers").is_some() {
                fields.refuse("headers", "belongs to `url`, not to `command`", issues);
            }
            process(fields, issues).map(McpEndpoint::Process)
        }
        (Some(_), Some(_)) => {
            fields.refuse("command", "a server has either `url` or `command`", issues);
            None
        }
        (None, None) => {
            let message = match source {
                PluginSource::Operator => "is required, unless there is a `command`",
                PluginSource::Administrator => "is required",
            };
            fields.refuse("url", message, issues);
            None
        }
    }
}

fn process(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<ProcessSpec> {
    let command = fields.required_text("command", limits::PROCESS_WORD_MAX_BYTES, issues);
    if command.is_some_and(|command| command.contains('\0')) {
        fields.refuse("command", "must not contain a NUL", issues);
    }
    let args = names(fields, "args", limits::PROCESS_ARGUMENTS_MAX, issues);
    let env = variables(fields, issues);
    Some(ProcessSpec {
        label: String::new(),
        command: command?.to_owned(),
        args: args.unwrap_or_default(),
        env,
        folder: None,
    })
}

/// A list of texts.
fn names(
    fields: &Fields<'_, '_>,
    key: &str,
    max: usize,
    issues: &mut Issues,
) -> Option<Vec<String>> {
    let array = fields.array(key, issues)?;
    let path = fields.path.key(key);
    within_count(array.len(), max, &path, issues);
    let mut texts = Vec::new();
    for (index, value) in array.iter().enumerate().take(max) {
        let path = path.index(index);
        match string(value, &path, issues) {
            Some(text) if fits(text) => texts.push(text.to_owned()),
            Some(_) => issues.add(&path, TOO_LONG),
            None => {}
        }
    }
    Some(texts)
}

const TOO_LONG: &str = "must be at most 8192 bytes, without a NUL";

fn fits(text: &str) -> bool {
    text.len() <= limits::PROCESS_WORD_MAX_BYTES && !text.contains('\0')
}

/// Variables of a process. Values never appear in a message: they may be secrets.
fn variables(fields: &Fields<'_, '_>, issues: &mut Issues) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let Some(object) = fields.object("env", issues) else {
        return variables;
    };
    let path = fields.path.key("env");
    within_count(object.len(), limits::PROCESS_VARIABLES_MAX, &path, issues);
    for (name, value) in object {
        let path = path.key(name);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_name = !name.is_empty() && !name.as_bytes()[0].is_ascii_digit();
        if !is_name || !name.bytes().all(plain) {
            issues.add(
                &path,
                "not a variable's name: expected letters, digits and _",
            );
        }
        match string(value, &path, issues) {
            Some(text) if !fits(text) => issues.add(&path, TOO_LONG),
            Some(text) => {
                let pieces = template::pieces(text);
                let is_argument =
                    |piece: &template::Piece<'_>| matches!(piece, template::Piece::Argument(_));
                match pieces {
                    Err(error) => issues.add(&path, error),
                    Ok(pieces) if pieces.iter().any(is_argument) => {
                        issues.add(&path, "only `{{secret:NAME}}` can be filled in here");
                    }
                    Ok(_) => drop(variables.insert(name.clone(), text.to_owned())),
                }
            }
            None => {}
        }
    }
    variables
}
