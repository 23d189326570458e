//! What a workspace keeps: persisted agents, tools, plugins, external agents and providers, as their owners write them.
//!
//! Everything in here has passed [`crate::validate`]. Header values and credentials may be templates with
//! `{{secret:NAME}}` (see [`template`]); the secret's value is never part of a definition.

mod agent;
mod document;
mod plugin;
mod project;
mod provider;
pub mod template;
mod tool;
mod toolset;

pub use agent::{AgentDefinition, Skill};
pub use document::{ExternalAgentDefinition, PutSecret};
pub use plugin::{McpEndpoint, PluginManifest, PluginMatch, PluginServer, PluginTool, ProcessSpec};
pub use project::{NamedModule, ProjectDefinition};
pub use provider::{ModelDefinition, ModelPrice, ProviderDefinition, ProviderKind};
pub use tool::{
    CodeCall, DeclaredEffect, ExternalAgent, HttpCall, HttpMethod, McpCall, PluginCall,
    ProcessCall, ResponseMapping, ShippedTool, ToolAction, ToolDefinition,
};
pub use toolset::{ToolSettings, ToolsetConnection, ToolsetDefinition, ToolsetServer};
