//! The project of a workspace: what agents may do through `project_cli`.

use serde::{Deserialize, Serialize};

/// Modules and limits of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProjectDefinition {
    /// The modules, in the order in which the model sees them.
    pub modules: Vec<NamedModule>,
    /// Timeout of one call.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// Bytes of a child's stdout.
    #[serde(default = "max_output_bytes")]
    pub max_output_bytes: usize,
    /// Lifetime of a credential.
    #[serde(default = "credential_ttl_seconds")]
    pub credential_ttl_seconds: u64,
}

/// A module of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedModule {
    /// A shipped module, or one of the operator.
    pub name: String,
    /// Its methods in this project; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
}

impl ProjectDefinition {
    /// Timeout of one call when the project does not say.
    pub const TIMEOUT_MS: u64 = 30_000;
    /// Bytes of a child's stdout when the project does not say; also the most.
    pub const MAX_OUTPUT_BYTES: usize = 262_144;
    /// Lifetime of a credential when the project does not say.
    pub const CREDENTIAL_TTL_SECONDS: u64 = 300;
}

fn timeout_ms() -> u64 {
    ProjectDefinition::TIMEOUT_MS
}

fn max_output_bytes() -> usize {
    ProjectDefinition::MAX_OUTPUT_BYTES
}

fn credential_ttl_seconds() -> u64 {
    ProjectDefinition::CREDENTIAL_TTL_SECONDS
}
