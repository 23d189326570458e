//! `[[workspaces.toolsets]]`: connections to MCP servers. Only these toolsets may start processes.

use std::collections::BTreeSet;
use std::fmt;

use runloom_protocol::definition::{ToolsetConnection, ToolsetDefinition};
use runloom_protocol::limits;
use runloom_protocol::validate::{self, DefinitionSource};
use runloom_service::declared_schemas::Declared;
use serde_json::Value;

use super::definition::{DefinitionConfig, check_schemas};
use super::table_reader::Table;
use super::workspace::slug;

/// `[[workspaces.toolsets]]` with the transport `stdio`.
#[derive(Clone)]
pub struct ToolsetConfig {
    /// Its name in the workspace.
    pub slug: String,
    /// Its definition.
    pub definition: ToolsetDefinition,
}

impl fmt::Debug for ToolsetConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables may be credentials.
        f.debug_tuple("ToolsetConfig").field(&self.slug).finish()
    }
}

/// The toolsets of a workspace.
#[derive(Default)]
pub(super) struct Toolsets {
    /// Those on the network, which are stored like every definition.
    pub(super) definitions: Vec<DefinitionConfig>,
    /// Those that start processes, which are kept in memory.
    pub(super) processes: Vec<ToolsetConfig>,
}

pub(super) fn read_all(workspace: &Table<'_>) -> Toolsets {
    let mut seen = BTreeSet::new();
    let mut toolsets = Toolsets::default();
    workspace.tables("toolsets", |table| {
        toolsets.add(table, &mut seen);
        Some(())
    });
    let (count, max) = (seen.len(), limits::TOOLSETS_MAX);
    if count > max {
        workspace.refuse(
            "toolsets",
            format_args!("must be at most {max}, got {count}"),
        );
    }
    toolsets
}

impl Toolsets {
    fn add(&mut self, table: &Table<'_>, seen: &mut BTreeSet<String>) {
        let slug = slug(table, seen);
        let body = Value::Object(table.object().clone());
        let name = slug.as_deref().unwrap_or_default();
        let checked = validate::toolset_definition(&body, name, DefinitionSource::Operator);
        let checked = checked.and_then(|toolset| {
            let policy = toolset.policy.as_ref();
            let declared = policy.map(|policy| Declared::by_policy(policy, "policy"));
            check_schemas(&declared.unwrap_or_default())?;
            Ok(toolset)
        });
        for issue in checked.as_ref().err().into_iter().flatten() {
            table.refuse_issue(issue);
        }
        let (Some(slug), Ok(definition)) = (slug, checked) else {
            return;
        };
        match definition.connection {
            ToolsetConnection::Stdio(_) => self.processes.push(ToolsetConfig { slug, definition }),
            ToolsetConnection::Sse(_) | ToolsetConnection::StreamableHttp(_) => {
                let definition = body;
                self.definitions.push(DefinitionConfig { slug, definition });
            }
        }
    }
}
