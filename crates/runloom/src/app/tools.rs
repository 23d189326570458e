//! The host of server tools, with the plugins of the configuration.

use std::sync::Arc;

use anyhow::{Context, Result};
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::ToolHost;
use runloom_service::memory::MemoryService;
use runloom_service::project::ProjectService;
use runloom_service::registry::{OperatorToolset, RegistryService};
use runloom_tools::outbound::{Outbound, OutboundPolicy};
use runloom_tools::{
    ConfiguredPlugin, Host, HostParts, PluginSet, ProjectParts, ProjectProgram, SandboxProgram,
    ToolLimits,
};

use crate::config::{Config, PluginConfig, WorkspaceConfig};

/// The command that makes this program the sandbox of a code tool.
pub(crate) const SANDBOX_COMMAND: &str = "sandbox";

/// The command that makes this program an action of a shipped project module.
pub(crate) const PROJECT_CLI: &str = "project-cli";

/// The host of server tools.
pub(super) fn open(
    config: &Config,
    registry: &Arc<RegistryService>,
    memory: &Arc<MemoryService>,
    project: &Arc<ProjectService>,
    tasks: &Tasks,
) -> Result<Arc<dyn ToolHost>> {
    let policy = OutboundPolicy {
        allow_private_networks: config.outbound.allow_private_networks,
        allow_hosts: config.outbound.allow_hosts.clone(),
        ..OutboundPolicy::default()
    };
    let parts = HostParts {
        outbound: Outbound::new(policy).context("[outbound] cannot be used")?,
        definitions: Arc::clone(registry) as _,
        plugins: plugins(&config.plugins),
        memory: Some(Arc::clone(memory) as _),
        sandbox: match config.code.enabled {
            true => {
                let program = SandboxProgram::this_program(SANDBOX_COMMAND);
                Some(program.context("cannot find this program")?)
            }
            false => None,
        },
        project: Some(ProjectParts {
            modules: Arc::clone(registry.modules()),
            authority: Arc::clone(project) as _,
            program: ProjectProgram {
                program: std::env::current_exe().context("cannot find this program")?,
                arguments: vec![PROJECT_CLI.to_owned()],
            },
        }),
        limits: ToolLimits::default(),
    };
    Ok(Arc::new(Host::new(parts, tasks)))
}

fn plugins(configured: &[PluginConfig]) -> PluginSet {
    let mut set = PluginSet::default();
    for plugin in configured {
        match &plugin.manifest {
            None => set.without.push(plugin.slug.clone()),
            Some(manifest) => set.installed.push(ConfiguredPlugin {
                manifest: manifest.clone(),
                workspaces: plugin.workspaces.clone(),
            }),
        }
    }
    set
}

/// The toolsets of the configuration file that are processes.
pub(super) fn operator_toolsets(config: &Config) -> Vec<OperatorToolset> {
    let of_workspace = |workspace: &WorkspaceConfig| {
        let slug = workspace.slug.clone();
        let toolsets = workspace.process_toolsets.iter().cloned();
        let toolsets = toolsets.map(move |toolset| OperatorToolset {
            workspace: slug.clone(),
            slug: toolset.slug,
            definition: toolset.definition,
        });
        toolsets.collect::<Vec<_>>()
    };
    config.workspaces.iter().flat_map(of_workspace).collect()
}
