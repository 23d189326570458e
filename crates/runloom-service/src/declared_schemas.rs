//! Schemas in a workspace's own definitions. Unusable ones are refused when the definition is stored; otherwise
//! arguments would be unchecked and providers would refuse the schema during a run.

use std::sync::Arc;

use runloom_protocol::definition::{PluginManifest, ToolDefinition};
use runloom_protocol::error::Issue;
use runloom_protocol::policy::Policy;
use runloom_protocol::tools::Object;
use serde_json::Value;

use runloom_schema::{SchemaCache, SchemaError, compile_off_thread};

/// The schema of a tool's arguments or output, and its path in the definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    path: String,
    schema: Arc<Value>,
}

impl Declared {
    /// The schemas of a tool or an external agent; empty when they are listed or inferred at run time.
    #[must_use]
    pub fn by_tool(tool: &ToolDefinition) -> Vec<Self> {
        Self::under("", tool).collect()
    }

    /// The schemas of a plugin's tools. Those of its MCP servers are listed at run time.
    #[must_use]
    pub fn by_plugin(plugin: &PluginManifest) -> Vec<Self> {
        let tools = plugin.tools.iter().enumerate();
        tools
            .flat_map(|(index, tool)| Self::under(&format!("tools[{index}]."), tool))
            .collect()
    }

    /// The schemas in the rules of a policy at `path`.
    #[must_use]
    pub fn by_policy(policy: &Policy, path: &str) -> Vec<Self> {
        let rules = policy.rules.iter().enumerate();
        let declared = rules.filter_map(|(index, rule)| {
            Some(Self {
                path: format!("{path}.rules[{index}].args"),
                schema: Arc::new(rule.args.clone()?),
            })
        });
        declared.collect()
    }

    fn under(place: &str, tool: &ToolDefinition) -> impl Iterator<Item = Self> + use<> {
        let schema = |name: &str, schema: &Object| {
            (!schema.is_empty()).then(|| Self {
                path: format!("{place}{name}"),
                schema: Arc::new(Value::Object(schema.clone())),
            })
        };
        let output = tool.output_schema.as_ref();
        let found = [
            schema("parameters", &tool.parameters),
            output.and_then(|output| schema("outputSchema", output)),
        ];
        found.into_iter().flatten()
    }

    /// The violations of each schema, built on the calling thread.
    #[must_use]
    pub fn issues(declared: &[Self], schemas: &SchemaCache) -> Vec<Issue> {
        let issue = |one: &Self| Some(one.issue(&schemas.compile(&one.schema).err()?));
        declared.iter().filter_map(issue).collect()
    }

    /// [`Self::issues`] for async code.
    pub async fn issues_off_thread(declared: &[Self], schemas: &Arc<SchemaCache>) -> Vec<Issue> {
        let mut issues = Vec::new();
        for one in declared {
            let compiling = compile_off_thread(Arc::clone(schemas), Arc::clone(&one.schema));
            issues.extend(compiling.await.err().map(|error| one.issue(&error)));
        }
        issues
    }

    fn issue(&self, error: &SchemaError) -> Issue {
        Issue {
            path: self.path.clone(),
            message: error.to_string(),
        }
    }
}
