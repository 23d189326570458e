//! The alphabets of names, and the search for names that are used twice.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::limits;
use crate::read::{Excerpt, Fields, Node};

fn made_of(text: &str, max: usize, allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.len() <= max && text.bytes().all(allowed)
}

/// `^[a-zA-Z0-9_]{1,64}$`
pub(crate) fn is_tool_name(text: &str) -> bool {
    made_of(text, limits::TOOL_NAME_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || b == b'_'
    })
}

/// `^[a-zA-Z0-9_-]{1,64}$`
pub(crate) fn is_schema_name(text: &str) -> bool {
    made_of(text, limits::OUTPUT_SCHEMA_NAME_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
    })
}

/// `^[A-Za-z0-9._-]{1,64}$`
pub(crate) fn is_metadata_key(text: &str) -> bool {
    made_of(text, limits::METADATA_KEY_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')
    })
}

/// `web_search` or `@plugin/tool`. The alphabet is generous: only the workspace knows which plugins are installed.
fn is_plugin_name(text: &str) -> bool {
    made_of(text, limits::REFERENCE_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@' | b'/')
    })
}

/// A name that the model can call.
pub(crate) fn tool_name<'v>(node: &Node<'v, '_>) -> Option<&'v str> {
    let name = node.string()?;
    if !is_tool_name(name) {
        let wanted = "expected 1 to 64 of [a-zA-Z0-9_]";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(name)));
        return None;
    }
    Some(name)
}

/// The name of a tool at an MCP server, which may have characters that models cannot use.
pub(crate) fn mcp_tool_name<'v>(node: &Node<'v, '_>) -> Option<&'v str> {
    let name = node.string()?;
    let is_valid = made_of(name, limits::TOOL_NAME_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/')
    });
    if !is_valid {
        let wanted = "expected 1 to 64 of [a-zA-Z0-9_./-]";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(name)));
        return None;
    }
    Some(name)
}

/// The name of a plugin's tool.
pub(crate) fn plugin_name<'v>(node: &Node<'v, '_>) -> Option<&'v str> {
    let name = node.string()?;
    if !is_plugin_name(name) {
        let wanted = "expected a name like `web_search` or `@plugin/tool`";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(name)));
        return None;
    }
    Some(name)
}

/// A set of names within which each must be unique.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Namespace {
    /// Names of tools that the model calls.
    ModelFacing,
    /// Prefixes that `mcp` refs put before their tools' names.
    McpPrefix,
    /// Ids of workspace tools.
    WorkspaceTool,
    /// Slugs and ids of toolsets.
    Toolset,
}

/// The names seen so far, each with the path of its first use.
#[derive(Default)]
pub(crate) struct Names<'v> {
    seen: HashMap<(Namespace, Cow<'v, str>), String>,
}

impl<'v> Names<'v> {
    /// Records the name that stands at `node`, or an error when it is already used.
    pub(crate) fn claim(
        &mut self,
        namespace: Namespace,
        name: impl Into<Cow<'v, str>>,
        node: &Node<'_, '_>,
    ) {
        let key = (namespace, name.into());
        if let Some(first) = self.seen.get(&key) {
            let name = &key.1;
            let what = match namespace {
                Namespace::ModelFacing => "tool name",
                Namespace::McpPrefix => "`mcp` server name",
                Namespace::WorkspaceTool => "workspace tool",
                Namespace::Toolset => "toolset",
            };
            node.refuse(format_args!(
                "duplicate {what} `{name}`: already used by {first}"
            ));
        } else {
            self.seen.insert(key, node.path().to_string());
        }
    }

    /// The `name` of a tool, recorded in its namespace.
    pub(crate) fn claim_name(
        &mut self,
        fields: &Fields<'v, '_>,
        namespace: Namespace,
    ) -> Option<String> {
        let node = fields.require("name")?;
        let name = tool_name(&node)?;
        self.claim(namespace, name, &node);
        Some(name.to_owned())
    }
}
