//! Tools, plugins and external agents.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::fields::{Fields, string, within_count};
use super::super::issues::{Issues, Path, Short};
use super::super::names::is_tool_name;
use super::super::web;
use crate::definition::template::{self, Piece};
use crate::definition::{
    CodeCall, DeclaredEffect, ExternalAgent, HttpCall, HttpMethod, McpCall, PluginCall,
    ResponseMapping, ToolAction, ToolDefinition,
};
use crate::limits;
use crate::tools::Object;

/// Other names of fields.
pub(super) const ALIASES: [(&str, &str); 2] = [("inputSchema", "parameters"), ("code", "source")];

/// Fields of every tool.
const SHARED: [&str; 9] = [
    "slug",
    "id",
    "type",
    "name",
    "description",
    "parameters",
    "outputSchema",
    "effect",
    "timeoutMs",
];

pub(super) fn read(
    fields: &Fields<'_, '_>,
    slug: &str,
    issues: &mut Issues,
) -> Option<ToolDefinition> {
    one(fields, Some(slug), issues)
}

pub(super) fn one(
    fields: &Fields<'_, '_>,
    slug: Option<&str>,
    issues: &mut Issues,
) -> Option<ToolDefinition> {
    fields.require("type", issues)?;
    let action = match fields.str("type", issues)? {
        "http" => http(fields, issues).map(ToolAction::Http),
        "code" => code(fields, issues).map(ToolAction::Code),
        "mcp" => mcp(fields, issues).map(ToolAction::Mcp),
        // A plugin whose tool is another plugin's would have no end.
        "plugin" if slug.is_some() => plugin(fields, issues).map(ToolAction::Plugin),
        other => {
            let kinds = match slug {
                Some(_) => "expected `http`, `code`, `mcp` or `plugin`",
                None => "expected `http`, `code` or `mcp`",
            };
            fields.refuse(
                "type",
                format_args!("{kinds}, got `{}`", Short(other)),
                issues,
            );
            None
        }
    };
    definition(fields, slug, action, issues)
}

fn definition(
    fields: &Fields<'_, '_>,
    slug: Option<&str>,
    action: Option<ToolAction>,
    issues: &mut Issues,
) -> Option<ToolDefinition> {
    let name = name(fields, slug, issues);
    let description = fields
        .text("description", limits::DESCRIPTION_MAX_CHARS, issues)
        .unwrap_or_default();
    let parameters = schema(fields, "parameters", issues);
    let output_schema = schema(fields, "outputSchema", issues);
    let effect = effect(fields, issues);
    let timeout_ms = fields.integer("timeoutMs", 1..=limits::TOOL_TIMEOUT_MS_MAX, issues);
    let mut definition = ToolDefinition {
        name: name?,
        description: description.to_owned(),
        parameters: parameters.unwrap_or_default(),
        output_schema,
        effect,
        timeout_ms,
        action: action?,
    };
    // Whoever reads the definition sees it; only a plugin's tool is not known here.
    if !matches!(definition.action, ToolAction::Plugin(_)) {
        definition.timeout_ms = Some(definition.timeout_ms());
    }
    Some(definition)
}

fn name(fields: &Fields<'_, '_>, slug: Option<&str>, issues: &mut Issues) -> Option<String> {
    let Some(name) = fields.str("name", issues) else {
        if slug.is_none() {
            fields.require("name", issues)?;
        }
        return slug.map(|slug| slug.replace('-', "_"));
    };
    if !is_tool_name(name) {
        let wanted = "expected 1 to 64 of [a-zA-Z0-9_]";
        fields.refuse(
            "name",
            format_args!("{wanted}, got `{}`", Short(name)),
            issues,
        );
        return None;
    }
    Some(name.to_owned())
}

fn schema(fields: &Fields<'_, '_>, key: &str, issues: &mut Issues) -> Option<Object> {
    let schema = fields.object_document(key, issues)?;
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => fields.refuse(key, "must be the JSON Schema of an object", issues),
    }
    Some(schema)
}

fn effect(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<DeclaredEffect> {
    match fields.str("effect", issues)? {
        "read" => Some(DeclaredEffect::Read),
        "idempotent" => Some(DeclaredEffect::Idempotent),
        "once" => Some(DeclaredEffect::Once),
        other => {
            let wanted = "expected `read`, `idempotent` or `once`";
            fields.refuse(
                "effect",
                format_args!("{wanted}, got `{}`", Short(other)),
                issues,
            );
            None
        }
    }
}

fn http(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<HttpCall> {
    let own = [
        "method",
        "url",
        "headers",
        "query",
        "body",
        "response",
        "maxResponseBytes",
    ];
    only(fields, &own, issues);
    let method = method(fields, issues);
    let url = url_template(fields, issues);
    let headers = web::own_headers(fields, issues);
    for (name, value) in &headers {
        let headers = fields.path.key("headers");
        is_template(value, &headers.key(name), issues);
    }
    let query = query(fields, issues);
    let body = fields.document("body", issues);
    if let Some(body) = &body {
        templates_inside(body, &fields.path.key("body"), issues);
    }
    let response = response(fields, issues);
    let max_response_bytes = bytes(fields, "maxResponseBytes", issues);
    Some(HttpCall {
        method,
        url: url?,
        headers,
        query,
        body,
        response,
        max_response_bytes,
    })
}

fn method(fields: &Fields<'_, '_>, issues: &mut Issues) -> HttpMethod {
    let Some(word) = fields.str("method", issues) else {
        return HttpMethod::default();
    };
    let known = |method: &HttpMethod| method.as_str().eq_ignore_ascii_case(word);
    HttpMethod::ALL.into_iter().find(known).unwrap_or_else(|| {
        let all = HttpMethod::ALL.map(HttpMethod::as_str).join(", ");
        let message = format_args!("expected one of {all}, got `{}`", Short(word));
        fields.refuse("method", message, issues);
        HttpMethod::default()
    })
}

/// Arguments come from the model: one in the host would let it choose where the workspace's credentials go.
fn url_template(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<String> {
    fields.require("url", issues)?;
    let text = fields.str("url", issues)?;
    let pieces = match template::pieces(text) {
        Ok(pieces) => pieces,
        Err(error) => {
            fields.refuse("url", error, issues);
            return None;
        }
    };
    let mut plain = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => plain.push_str(text),
            Piece::Argument(_) | Piece::Secret(_) => {
                let behind = plain
                    .split_once("://")
                    .is_some_and(|(_, rest)| rest.contains(['/', '?']));
                if !behind {
                    let message =
                        "arguments and secrets may stand only behind the host, after a `/` or `?`";
                    fields.refuse("url", message, issues);
                    return None;
                }
                plain.push('x');
            }
        }
    }
    match web::check_url(&plain) {
        Ok(()) => Some(text.to_owned()),
        Err(message) => {
            fields.refuse("url", message, issues);
            None
        }
    }
}

fn query(fields: &Fields<'_, '_>, issues: &mut Issues) -> BTreeMap<String, String> {
    let mut query = BTreeMap::new();
    let Some(object) = fields.object("query", issues) else {
        return query;
    };
    let path = fields.path.key("query");
    within_count(object.len(), limits::HEADERS_MAX, &path, issues);
    for (name, value) in object {
        let path = path.key(name);
        if let Some(text) = string(value, &path, issues) {
            is_template(text, &path, issues);
            query.insert(name.clone(), text.to_owned());
        }
    }
    query
}

fn is_template(text: &str, path: &Path<'_>, issues: &mut Issues) {
    if let Err(error) = template::pieces(text) {
        issues.add(path, error);
    }
}

fn templates_inside(value: &Value, path: &Path<'_>, issues: &mut Issues) {
    match value {
        Value::String(text) => is_template(text, path, issues),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                templates_inside(item, &path.index(index), issues);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                templates_inside(value, &path.key(key), issues);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn response(fields: &Fields<'_, '_>, issues: &mut Issues) -> ResponseMapping {
    let Some(object) = fields.object("response", issues) else {
        return ResponseMapping::default();
    };
    let path = fields.path.key("response");
    let fields = Fields::new(object, &path);
    fields.only(&["pointer", "template"], issues);
    let pointer = fields.text("pointer", limits::REFERENCE_MAX_CHARS, issues);
    if pointer.is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
        let message = "expected a JSON Pointer like `/items/0/name`";
        fields.refuse("pointer", message, issues);
    }
    let text = fields.text("template", limits::DESCRIPTION_MAX_CHARS, issues);
    match text.map(template::pieces) {
        None => {}
        Some(Err(error)) => fields.refuse("template", error, issues),
        // What the model reads is stored and streamed: a secret must not get there.
        Some(Ok(pieces)) if pieces.iter().any(|p| matches!(p, Piece::Secret(_))) => {
            fields.refuse("template", "must not name secrets", issues);
        }
        Some(Ok(_)) => {}
    }
    ResponseMapping {
        pointer: pointer.filter(|text| !text.is_empty()).map(str::to_owned),
        template: text.filter(|text| !text.is_empty()).map(str::to_owned),
    }
}

fn bytes(fields: &Fields<'_, '_>, key: &str, issues: &mut Issues) -> u64 {
    fields
        .integer(key, 1..=limits::TOOL_RESPONSE_BYTES_MAX, issues)
        .unwrap_or(limits::TOOL_RESPONSE_BYTES_DEFAULT)
}

fn code(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<CodeCall> {
    let own = [
        "source",
        "memoryMb",
        "maxOutputBytes",
        "allowFetch",
        "secrets",
    ];
    only(fields, &own, issues);
    let source = fields.required_text("source", limits::CODE_SOURCE_MAX_BYTES, issues);
    let memory_mb = fields.small("memoryMb", 1..=limits::CODE_MEMORY_MB_MAX, issues);
    let secrets = secret_names(fields, issues);
    let max_output_bytes = bytes(fields, "maxOutputBytes", issues);
    let allow_fetch = fields.flag("allowFetch", issues);
    Some(CodeCall {
        source: source?.to_owned(),
        memory_mb: memory_mb.unwrap_or(limits::CODE_MEMORY_MB_DEFAULT),
        max_output_bytes,
        allow_fetch,
        secrets,
    })
}

fn secret_names(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<String> {
    let Some(array) = fields.array("secrets", issues) else {
        return Vec::new();
    };
    let path = fields.path.key("secrets");
    within_count(array.len(), limits::CODE_SECRETS_MAX, &path, issues);
    let mut names = Vec::new();
    for (index, value) in array.iter().enumerate() {
        let path = path.index(index);
        match string(value, &path, issues) {
            Some(name) if template::is_secret_name(name) => names.push(name.to_owned()),
            Some(_) => issues.add(&path, "expected the name of a secret"),
            None => {}
        }
    }
    names
}

fn mcp(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<McpCall> {
    only(fields, &["url", "headers", "tool"], issues);
    let url = web::url(fields, "url", issues);
    let headers = web::own_headers(fields, issues);
    let tool = fields.text("tool", limits::REFERENCE_MAX_CHARS, issues);
    Some(McpCall {
        url: url?,
        headers,
        tool: tool.filter(|name| !name.is_empty()).map(str::to_owned),
    })
}

fn plugin(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<PluginCall> {
    only(fields, &["plugin"], issues);
    let name = fields.required_text("plugin", limits::REFERENCE_MAX_CHARS, issues)?;
    if !super::super::names::is_plugin_name(name) {
        let wanted = "expected a name like `web_search` or `@plugin/tool`";
        fields.refuse(
            "plugin",
            format_args!("{wanted}, got `{}`", Short(name)),
            issues,
        );
        return None;
    }
    Some(PluginCall {
        plugin: name.to_owned(),
    })
}

pub(super) fn external(
    fields: &Fields<'_, '_>,
    slug: &str,
    issues: &mut Issues,
) -> Option<ToolDefinition> {
    only(fields, &["agentCardUrl", "headers"], issues);
    match fields.str("type", issues) {
        None | Some("a2a") => {}
        Some(_) => fields.refuse("type", "expected `a2a`", issues),
    }
    let url = web::url(fields, "agentCardUrl", issues);
    let headers = web::own_headers(fields, issues);
    let action = url.map(|agent_card_url| {
        ToolAction::A2a(ExternalAgent {
            agent_card_url,
            headers,
        })
    });
    definition(fields, Some(slug), action, issues)
}

fn only(fields: &Fields<'_, '_>, own: &[&str], issues: &mut Issues) {
    let known: Vec<&str> = SHARED.iter().chain(own).copied().collect();
    fields.only(&known, issues);
}
