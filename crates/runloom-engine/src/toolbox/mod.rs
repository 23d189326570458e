//! The toolbox: from the spec's tool refs to declarations for the model and tools for the run machine.
//!
//! Client-resolved tools are known from the spec alone; server-resolved ones are added when their peers have
//! answered. Nothing is executed here.
//!
//! Reading order: [`Toolbox`], [`Tool`]; `declare` (descriptions and schemas as the model sees them).

mod declare;
mod tool;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use runloom_protocol::error::Issue;
use runloom_protocol::policy::Policy;
use runloom_protocol::tools::{
    A2aLocalTool, ClientTool, DelegateRef, LocalTool, McpLocalTool, McpToolEntry, ToolRef,
};
use serde_json::Value;

use crate::policy::CompiledPolicy;
use runloom_ports::effect::Effect;
use runloom_ports::model::ToolDeclaration;
use runloom_ports::tools::ServerTool;
use runloom_schema::{SchemaCache, SchemaError, Validator};

pub(crate) use declare::any_object;
pub use declare::has_object_root;
pub use tool::{Tool, ToolKind};

/// The tools of one run, in the spec's order. Immutable, shared by `Arc`.
#[derive(Debug, Default)]
pub struct Toolbox {
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
    declarations: Arc<Vec<ToolDeclaration>>,
    unchecked: Vec<Issue>,
    /// Delegates are not declared to the model.
    hides_delegates: bool,
}

impl Toolbox {
    /// Reads the refs and compiles their schemas. New schemas are built on the calling thread.
    ///
    /// # Errors
    /// Every violation, with its path in the spec: unusable schemas, duplicate names, kinds that this server cannot
    /// execute.
    pub fn build(refs: &[ToolRef], schemas: &SchemaCache) -> Result<Self, Vec<Issue>> {
        let mut builder = Builder {
            schemas,
            tools: Vec::new(),
            by_name: HashMap::new(),
            declarations: Vec::new(),
            issues: Vec::new(),
            unchecked: Vec::new(),
        };
        for (index, tool) in refs.iter().enumerate() {
            builder.add(&format!("tools[{index}]"), tool);
        }
        if !builder.issues.is_empty() {
            return Err(builder.issues);
        }
        Ok(Self {
            tools: builder.tools,
            by_name: builder.by_name,
            declarations: Arc::new(builder.declarations),
            unchecked: builder.unchecked,
            hides_delegates: false,
        })
    }

    /// The same tools, followed by those that the server executes. A name that is taken gets a number. An unusable
    /// schema is replaced by one that accepts any object, because the peer checks too.
    #[must_use]
    pub fn with_server(&self, resolved: Vec<ServerTool>, schemas: &SchemaCache) -> Self {
        let mut tools = self.tools.clone();
        let mut by_name = self.by_name.clone();
        let mut declarations = Vec::clone(&self.declarations);
        for mut tool in resolved {
            tool.name = free_name(&by_name, tool.name);
            let (validator, parameters) = match schemas.compile(&tool.parameters) {
                Ok(validator) => (validator, tool.parameters.clone()),
                Err(_) => match schemas.compile(&any_object()) {
                    Ok(validator) => (validator, any_object()),
                    Err(_) => continue,
                },
            };
            by_name.insert(tool.name.clone(), tools.len());
            declarations.push(ToolDeclaration {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters,
                output_schema: tool.output_schema.clone(),
            });
            tools.push(Tool {
                name: tool.name.clone(),
                read_only: tool.effect == Effect::Read,
                effect: tool.effect,
                retain: false,
                policy: tool.policy.as_ref().map(|policy| compiled(policy, schemas)),
                validator,
                kind: ToolKind::Server(Arc::new(tool)),
            });
        }
        Self {
            tools,
            by_name,
            declarations: Arc::new(declarations),
            unchecked: self.unchecked.clone(),
            hides_delegates: self.hides_delegates,
        }
    }

    /// The same tools for a run that may have this many levels of runs below it. With 0, delegates are not declared
    /// to the model, but calls of them are still recognised.
    #[must_use]
    pub fn for_levels(mut self, levels: u8) -> Self {
        if levels == 0 && self.tools.iter().any(Tool::is_delegate) {
            let hidden = |name: &str| self.get(name).is_some_and(Tool::is_delegate);
            let declarations = self.declarations.iter();
            let shown = declarations.filter(|tool| !hidden(&tool.name)).cloned();
            self.declarations = Arc::new(shown.collect());
            self.hides_delegates = true;
        }
        self
    }

    /// Schemas of peers that this server cannot use, with their path in the spec and the reason. The model gets them
    /// unchanged, and arguments are not checked here.
    #[must_use]
    pub fn unchecked(&self) -> &[Issue] {
        &self.unchecked
    }

    /// The schemas that [`Self::build`] compiles.
    pub fn schemas(tools: &[ToolRef]) -> impl Iterator<Item = Value> {
        let delegates = tools.iter().any(|tool| tool.delegate().is_some());
        let delegates = delegates.then(declare::prompt_parameters);
        let client_tools = tools.iter().filter_map(ToolRef::client_tool);
        let client_schemas = client_tools.flat_map(|tool| match tool {
            ClientTool::Local(tool) => vec![declare::parameters(tool.parameters.as_ref())],
            ClientTool::A2aLocal(_) => vec![declare::message_parameters()],
            ClientTool::McpLocal(server) => {
                let inputs = server.tools.iter().map(|entry| entry.input_schema.as_ref());
                inputs.map(declare::parameters).collect()
            }
        });
        delegates.into_iter().chain(client_schemas)
    }

    /// No tools.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The declarations for the model, in the spec's order.
    #[must_use]
    pub fn declarations(&self) -> Arc<Vec<ToolDeclaration>> {
        Arc::clone(&self.declarations)
    }

    /// The tool of a model-facing name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(*self.by_name.get(name)?)
    }

    /// The declaration of a tool by its model-facing name.
    #[must_use]
    pub fn declaration(&self, name: &str) -> Option<&ToolDeclaration> {
        self.declarations.get(*self.by_name.get(name)?)
    }

    /// The model-facing names, in the spec's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let shown = |tool: &&Tool| !(self.hides_delegates && tool.is_delegate());
        self.tools
            .iter()
            .filter(shown)
            .map(|tool| tool.name.as_str())
    }

    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether it has no tool.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// The administrator's policy of a tool. It was checked when it was stored; a policy that can no longer be compiled
/// denies every call.
fn compiled(policy: &Policy, schemas: &SchemaCache) -> Arc<CompiledPolicy> {
    let compiled = CompiledPolicy::compile(policy, "policy", schemas);
    Arc::new(compiled.unwrap_or_else(|_| CompiledPolicy::closed()))
}

fn free_name(taken: &HashMap<String, usize>, name: String) -> String {
    if !taken.contains_key(&name) {
        return name;
    }
    let stem: String = name.chars().take(60).collect();
    (2..1000)
        .map(|n| format!("{stem}_{n}"))
        .find(|free| !taken.contains_key(free))
        .unwrap_or(name)
}

struct Builder<'a> {
    schemas: &'a SchemaCache,
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
    declarations: Vec<ToolDeclaration>,
    issues: Vec<Issue>,
    unchecked: Vec<Issue>,
}

/// A tool before its schema is compiled.
struct Draft {
    kind: ToolKind,
    read_only: bool,
    effect: Effect,
    retain: bool,
    declaration: ToolDeclaration,
    /// Path of the name in the spec.
    name_path: String,
    schema_path: String,
}

impl Builder<'_> {
    fn add(&mut self, path: &str, tool: &ToolRef) {
        if let Some(delegate) = tool.delegate() {
            return self.finish(delegate_draft(path, delegate));
        }
        match tool.client_tool() {
            Some(ClientTool::Local(tool)) => self.finish(local(path, tool)),
            Some(ClientTool::A2aLocal(tool)) => self.finish(a2a_local(path, tool)),
            Some(ClientTool::McpLocal(server)) => {
                let info = server.server_info.clone().map(Arc::new);
                for (index, entry) in server.tools.iter().enumerate() {
                    let path = format!("{path}.tools[{index}]");
                    self.finish(mcp_local(&path, server, info.clone(), entry));
                }
            }
            // Executed by the server: added by `with_server` when their peers have answered.
            None => {}
        }
    }

    fn finish(&mut self, draft: Draft) {
        let name = draft.declaration.name.clone();
        if self.by_name.contains_key(&name) {
            self.issues.push(Issue {
                path: draft.name_path,
                message: format!("the name \"{name}\" is given twice; each tool needs its own"),
            });
            return;
        }
        self.by_name.insert(name.clone(), self.tools.len());
        match self.validator(&draft) {
            Ok(validator) => {
                self.tools.push(Tool {
                    name,
                    kind: draft.kind,
                    read_only: draft.read_only,
                    effect: draft.effect,
                    retain: draft.retain,
                    policy: None,
                    validator,
                });
                self.declarations.push(draft.declaration);
            }
            Err(error) => self.issues.push(Issue {
                path: draft.schema_path,
                message: error.to_string(),
            }),
        }
    }
}

impl Builder<'_> {
    /// The author of a tool can correct its schema, so an unusable one is an error. A client that passes on the
    /// listing of an MCP server cannot, and that server checks the arguments.
    fn validator(&mut self, draft: &Draft) -> Result<Validator, SchemaError> {
        let compiled = self.schemas.compile(&draft.declaration.parameters);
        match compiled {
            Err(error)
                if error.is_about_content() && matches!(draft.kind, ToolKind::McpLocal { .. }) =>
            {
                self.unchecked.push(Issue {
                    path: draft.schema_path.clone(),
                    message: error.to_string(),
                });
                self.schemas.compile(&any_object())
            }
            compiled => compiled,
        }
    }
}

fn delegate_draft(path: &str, delegate: &DelegateRef) -> Draft {
    Draft {
        kind: ToolKind::Delegate(Arc::new(delegate.clone())),
        read_only: false,
        effect: Effect::Once,
        retain: false,
        declaration: ToolDeclaration {
            name: delegate.name.clone(),
            description: declare::delegate_description(delegate),
            parameters: declare::prompt_parameters(),
            output_schema: None,
        },
        name_path: format!("{path}.name"),
        schema_path: path.to_owned(),
    }
}

fn local(path: &str, tool: &LocalTool) -> Draft {
    let mut description = declare::given(tool.description.as_deref())
        .unwrap_or(&tool.name)
        .to_owned();
    if tool.long_running {
        description.push_str("\n\n");
        description.push_str(declare::LONG_RUNNING_NOTE);
    }
    Draft {
        kind: ToolKind::Local,
        read_only: tool.read_only,
        effect: if tool.read_only {
            Effect::Read
        } else {
            Effect::Once
        },
        retain: tool.retain,
        declaration: ToolDeclaration {
            name: tool.name.clone(),
            description,
            parameters: declare::parameters(tool.parameters.as_ref()),
            output_schema: declare::output_schema(tool.output_schema.as_ref()),
        },
        name_path: format!("{path}.name"),
        schema_path: format!("{path}.parameters"),
    }
}

fn a2a_local(path: &str, tool: &A2aLocalTool) -> Draft {
    let description = match declare::given(tool.description.as_deref()) {
        Some(description) => description.to_owned(),
        None => declare::card_description(&tool.agent_card, &tool.name),
    };
    Draft {
        kind: ToolKind::A2aLocal {
            agent_card: Arc::new(tool.agent_card.clone()),
        },
        read_only: false,
        effect: Effect::Once,
        retain: false,
        declaration: ToolDeclaration {
            name: tool.name.clone(),
            description,
            parameters: declare::message_parameters(),
            output_schema: None,
        },
        name_path: format!("{path}.name"),
        schema_path: path.to_owned(),
    }
}

fn mcp_local(
    path: &str,
    server: &McpLocalTool,
    server_info: Option<Arc<runloom_protocol::tools::Object>>,
    entry: &McpToolEntry,
) -> Draft {
    let hint = |name: &str| {
        let hint = entry.annotations.as_ref().and_then(|hints| hints.get(name));
        hint == Some(&Value::Bool(true))
    };
    let title = entry.rest.get("title").and_then(Value::as_str);
    let description = declare::given(entry.description.as_deref())
        .or(declare::given(title))
        .unwrap_or(&entry.name);
    Draft {
        kind: ToolKind::McpLocal {
            server: server.name.clone(),
            tool_name: entry.name.clone(),
            server_info,
            annotations: entry.annotations.clone(),
        },
        read_only: hint("readOnlyHint"),
        effect: if hint("readOnlyHint") {
            Effect::Read
        } else if hint("idempotentHint") {
            Effect::Idempotent
        } else {
            Effect::Once
        },
        retain: false,
        declaration: ToolDeclaration {
            name: entry.model_name().into_owned(),
            description: description.to_owned(),
            parameters: declare::parameters(entry.input_schema.as_ref()),
            output_schema: declare::output_schema(entry.output_schema.as_ref()),
        },
        name_path: format!("{path}.name"),
        schema_path: format!("{path}.inputSchema"),
    }
}
