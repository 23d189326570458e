//! An agent and its delegates as the engine plans them: definitions, models, toolsets and policies by name.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use runloom_engine::catalog::{Catalog, CatalogModel, WorkspaceModels};
use runloom_engine::planner::StoredRun;
use runloom_ports::agents::{Agents, FoundAgent};
use runloom_ports::call_policy::{CallDecision, CallPolicy, JudgedCall, JudgedRun};
use runloom_ports::error::Result;
use runloom_protocol::definition::AgentDefinition;
use runloom_protocol::id::AgentId;
use runloom_protocol::limits::TOOLS_MAX;
use runloom_protocol::policy::Decision as Verdict;
use runloom_protocol::spec::{AgentSpec, PromptMessage, Role};
use runloom_protocol::tools::{DelegateRef, ToolRef, ToolsetRef};
use serde_json::Value;

use crate::agent::Agent;
use crate::models::Model;
use crate::policy::{Decision, PendingAction, Policy};
use crate::toolset::{Body, Delegate, PolicySetting, StaticToolset, Tool, Toolset};

/// The workspace of all runs.
pub(crate) const WORKSPACE: &str = "local";

/// A group of tools of one agent.
pub(crate) struct Source {
    pub(crate) toolset: Arc<dyn Toolset>,
    /// The tools are the agent's own, and their names have no prefix.
    pub(crate) is_own: bool,
}

/// One agent or delegate.
struct Node {
    name: String,
    definition: AgentDefinition,
    policy: Option<Arc<dyn Policy>>,
}

/// An agent with everything below it. Nothing is opened to build it.
pub(crate) struct Assembly {
    root: StoredRun,
    nodes: HashMap<AgentId, Node>,
    sources: HashMap<String, Source>,
    models: Vec<(String, Model)>,
}

impl std::fmt::Debug for Assembly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembly").finish_non_exhaustive()
    }
}

/// What a delegate gets from the agent above it.
#[derive(Clone)]
struct Above {
    path: String,
    levels: u8,
    policy: Option<Arc<dyn Policy>>,
}

impl Assembly {
    pub(crate) fn of(agent: &Agent) -> Self {
        let mut built = Self {
            root: StoredRun {
                workspace: WORKSPACE.to_owned(),
                key: None,
                model: String::new(),
                fallback: None,
                spec: AgentSpec::default(),
                messages: Vec::new(),
                session: None,
                trace: None,
                thread: None,
                place: None,
                project: None,
            },
            nodes: HashMap::new(),
            sources: HashMap::new(),
            models: Vec::new(),
        };
        let policy = agent.policy.as_ref();
        let rules = policy.and_then(|policy| policy.as_static().map(|it| it.rules.clone()));
        let custom = policy
            .filter(|policy| policy.as_static().is_none())
            .cloned();
        let above = Above {
            path: "root".to_owned(),
            levels: agent.max_depth,
            policy: custom.clone(),
        };
        let own = agent.tools.iter().filter(|tool| !tool.is_delegate());
        let own = own
            .cloned()
            .fold(StaticToolset::new("", ""), StaticToolset::tool);
        let inner = agent
            .toolsets
            .iter()
            .flat_map(|toolset| toolset.delegates());
        let delegates = agent
            .tools
            .iter()
            .filter(|tool| tool.is_delegate())
            .cloned();
        let delegates: Vec<Tool> = delegates.chain(inner).collect();
        let mut refs = vec![built.source(&above, own.shared(), true)];
        for toolset in &agent.toolsets {
            refs.push(built.source(&above, Arc::clone(toolset), false));
        }
        refs.extend(built.delegates(&above, &delegates));
        let id = AgentId::from_suffix(&above.path);
        let node = Node {
            name: agent.id.clone(),
            definition: AgentDefinition::default(),
            policy: custom,
        };
        built.nodes.insert(id.clone(), node);
        built.root.model = built.model(&agent.model);
        built.root.spec = AgentSpec {
            name: Some(agent.id.clone()),
            agent_id: Some(id),
            system_prompt: Some(agent.instructions.clone()),
            tools: refs,
            budgets: agent.budgets.clone(),
            output_schema: agent.output_schema.clone(),
            max_depth: Some(agent.max_depth),
            policy: rules,
            ..AgentSpec::default()
        };
        built
    }

    /// The stored form of a run with this prompt.
    pub(crate) fn stored(&self, prompt: &str) -> StoredRun {
        let mut stored = self.root.clone();
        stored.messages = vec![PromptMessage::new(Role::User, prompt)];
        stored
    }

    pub(crate) fn get(&self, source: &str) -> Option<&Source> {
        self.sources.get(source)
    }

    pub(crate) fn catalog(&self) -> Catalog {
        let models = self.models.iter();
        let models = models.map(|(id, model)| Arc::<CatalogModel>::new(model.entry(id.clone())));
        let own = WorkspaceModels {
            models: models.collect(),
            ..WorkspaceModels::default()
        };
        Catalog {
            platform: Vec::new(),
            workspaces: HashMap::from([(WORKSPACE.to_owned(), own)]),
        }
    }

    /// Whether an agent has a policy that is not data.
    pub(crate) fn has_call_policy(&self) -> bool {
        self.nodes.values().any(|node| node.policy.is_some())
    }

    fn source(&mut self, above: &Above, toolset: Arc<dyn Toolset>, is_own: bool) -> ToolRef {
        let name = format!("{}:{}", above.path, self.sources.len());
        self.sources
            .insert(name.clone(), Source { toolset, is_own });
        ToolRef::Toolset(ToolsetRef {
            name,
            tool_filter: None,
        })
    }

    /// The id of a model; two models of one name get two.
    fn model(&mut self, model: &Model) -> String {
        let same = |(_, known): &&(String, Model)| Arc::ptr_eq(&known.port, &model.port);
        if let Some((id, _)) = self.models.iter().find(same) {
            return id.clone();
        }
        let own = model.id();
        let mut id = own.clone();
        while self.models.iter().any(|(known, _)| *known == id) {
            id = format!("{own}#{}", self.models.len() + 1);
        }
        self.models.push((id.clone(), model.clone()));
        id
    }

    fn delegates(&mut self, above: &Above, tools: &[Tool]) -> Vec<ToolRef> {
        let mut refs = Vec::new();
        for tool in tools {
            let Body::Delegate(delegate) = &tool.body else {
                continue;
            };
            // What lies deeper than the levels allow is never reached.
            if self.nodes.len() < TOOLS_MAX {
                let path = format!("{}-{}", above.path, refs.len());
                let delegate = self.delegate(above, path, tool.name(), delegate);
                refs.push(ToolRef::Delegate(delegate));
            }
        }
        refs
    }

    fn delegate(&mut self, above: &Above, path: String, name: &str, it: &Delegate) -> DelegateRef {
        let options = &it.options;
        let (rules, policy) = match &options.policy {
            PolicySetting::Inherit => (None, above.policy.clone()),
            PolicySetting::None => (Some(None), None),
            PolicySetting::Use(own) => match own.as_static() {
                Some(rules) => (Some(Some(rules.rules.clone())), None),
                None => (Some(None), Some(Arc::clone(own))),
            },
        };
        let left = above.levels.saturating_sub(1);
        let own = Above {
            levels: options.max_depth.map_or(left, |own| own.min(left)),
            policy: policy.clone(),
            path,
        };
        let id = AgentId::from_suffix(&own.path);
        let mut refs = vec![self.source(&own, Arc::clone(&it.toolset), false)];
        if own.levels > 0 {
            let inner = it.toolset.delegates();
            refs.extend(self.delegates(&own, &inner));
        }
        let model = self.model(&options.model);
        let description = options.description.clone().unwrap_or_else(|| {
            let what = it.toolset.description();
            format!("Delegate a task to the {name} agent. It sees only the prompt that you give it. {what}")
        });
        let instructions = options.instructions.clone().unwrap_or_else(|| {
            format!("You are {name}, an agent that does tasks for another agent. Do the task of the message and answer with its result.")
        });
        let definition = AgentDefinition {
            name: Some(name.to_owned()),
            system_prompt: instructions,
            model_id: Some(model),
            tools: refs,
            ..AgentDefinition::default()
        };
        let node = Node {
            name: name.to_owned(),
            definition,
            policy,
        };
        self.nodes.insert(id.clone(), node);
        DelegateRef {
            name: name.to_owned(),
            description: Some(description),
            toolset: None,
            tool_filter: None,
            tools: None,
            agent_id: Some(id),
            instructions: None,
            model_id: None,
            reasoning_level: None,
            max_depth: options.max_depth,
            policy: rules,
            budgets: options.budgets.clone(),
        }
    }

    fn action(&self, run: &JudgedRun, agent: &str, call: &JudgedCall) -> PendingAction {
        let source = call.target.as_ref();
        let source = source.and_then(|target| target.get("source").and_then(Value::as_str));
        let source = source
            .and_then(|name| self.get(name))
            .filter(|it| !it.is_own);
        PendingAction {
            agent: agent.to_owned(),
            toolset: source.map(|source| source.toolset.name().to_owned()),
            tool: call.tool.clone(),
            sub_action: None,
            input: call.input.clone(),
            effect: call.effect,
            annotations: call.annotations.clone(),
            depth: run.depth,
        }
    }
}

#[async_trait]
impl Agents for Assembly {
    async fn agent(&self, _workspace: &str, id: &AgentId) -> Result<Option<FoundAgent>> {
        let found = self.nodes.get(id).map(|node| FoundAgent {
            definition: node.definition.clone(),
            version: 1,
        });
        Ok(found)
    }
}

#[async_trait]
impl CallPolicy for Assembly {
    async fn judge(&self, run: &JudgedRun, calls: &[JudgedCall]) -> Vec<CallDecision> {
        let allow = || CallDecision {
            decision: Verdict::Allow,
            reason: None,
        };
        let node = run.agent.as_ref().and_then(|id| self.nodes.get(id));
        let Some((node, policy)) = node.and_then(|node| Some((node, node.policy.as_ref()?))) else {
            return calls.iter().map(|_| allow()).collect();
        };
        let actions = calls.iter().map(|call| self.action(run, &node.name, call));
        let actions: Vec<PendingAction> = actions.collect();
        let decided = policy.evaluate_many(&actions).await.into_iter();
        let decided = decided.map(|decision| match decision {
            Decision::Allow => allow(),
            Decision::Deny(reason) => CallDecision {
                decision: Verdict::Deny,
                reason: Some(reason),
            },
            Decision::Ask(reason) => CallDecision {
                decision: Verdict::Ask,
                reason: Some(reason),
            },
        });
        decided.collect()
    }
}
