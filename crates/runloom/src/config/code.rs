//! `[code]`: code tools.

use runloom_protocol::definition::ToolAction;
use runloom_service::registry::code_tools;

use super::Config;
use super::table_reader::Table;

/// `[code]`.
#[derive(Debug, Clone, Copy)]
pub struct CodeConfig {
    /// Whether code tools can be used.
    pub enabled: bool,
}

pub(super) fn read(table: &Table<'_>) -> CodeConfig {
    let config = CodeConfig {
        enabled: table.boolean("enabled").unwrap_or(true),
    };
    table.finish();
    config
}

/// Refuses a configuration that disables code tools and declares some.
pub(super) fn refuse_disabled(root: &Table<'_>, config: &Config) {
    if config.code.enabled {
        return;
    }
    let declared = config.workspaces.iter().flat_map(|workspace| {
        let definitions = workspace.tools.iter().chain(&workspace.plugins);
        let code = definitions.filter(|declared| !code_tools(&declared.definition).is_empty());
        code.map(|declared| format!("`{}` of workspace `{}`", declared.slug, workspace.slug))
    });
    let of_plugins = config.plugins.iter().filter(|plugin| {
        let tools = plugin.manifest.iter().flat_map(|manifest| &manifest.tools);
        tools
            .into_iter()
            .any(|tool| matches!(tool.action, ToolAction::Code(_)))
    });
    let of_plugins = of_plugins.map(|plugin| format!("the plugin `{}`", plugin.slug));
    for declared in declared.chain(of_plugins) {
        root.refuse(
            "code",
            format_args!("`enabled` is false, and {declared} has code tools"),
        );
    }
}
