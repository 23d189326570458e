//! The alphabets of names, and the search for names that are used twice.

use std::collections::HashMap;

use super::issues::{Issues, Path};
use crate::limits;

fn made_of(text: &str, max: usize, allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.len() <= max && text.bytes().all(allowed)
}

/// `^[a-zA-Z0-9_]{1,64}$`
pub(super) fn is_tool_name(text: &str) -> bool {
    made_of(text, limits::TOOL_NAME_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || b == b'_'
    })
}

/// `^[a-zA-Z0-9_-]{1,64}$`
pub(super) fn is_schema_name(text: &str) -> bool {
    made_of(text, limits::OUTPUT_SCHEMA_NAME_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
    })
}

/// `^[A-Za-z0-9._-]{1,64}$`
pub(super) fn is_metadata_key(text: &str) -> bool {
    made_of(text, limits::METADATA_KEY_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')
    })
}

/// `web_search` or `@plugin/tool`. Whether it is installed is for the workspace to say, so the alphabet is generous.
pub(super) fn is_plugin_name(text: &str) -> bool {
    made_of(text, limits::REFERENCE_MAX_CHARS, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@' | b'/')
    })
}

/// What a name has to be unique among.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Realm {
    /// What the model calls.
    ModelFacing,
    /// Prefixes that `mcp` refs put before their tools' names.
    McpPrefix,
    /// Rows of the workspace, each of which has one name.
    WorkspaceTool,
}

/// The names that were seen, and where first.
#[derive(Default)]
pub(super) struct Names<'v> {
    seen: HashMap<(Realm, &'v str), String>,
}

impl<'v> Names<'v> {
    /// Notes the name at `path`, or adds an issue when it was there before.
    pub(super) fn claim(
        &mut self,
        realm: Realm,
        name: &'v str,
        path: &Path<'_>,
        issues: &mut Issues,
    ) {
        if let Some(first) = self.seen.get(&(realm, name)) {
            let what = match realm {
                Realm::ModelFacing => "tool name",
                Realm::McpPrefix => "`mcp` server name",
                Realm::WorkspaceTool => "workspace tool",
            };
            issues.add(
                path,
                format_args!("duplicate {what} `{name}`: already used by {first}"),
            );
        } else {
            self.seen.insert((realm, name), path.to_string());
        }
    }
}
