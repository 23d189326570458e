//! Children of runs: from a call of a delegate to a run that can be stored.

use async_trait::async_trait;
use runloom_protocol::definition::AgentDefinition;
use runloom_protocol::id::RunId;
use runloom_protocol::limits;
use runloom_protocol::policy::Policy;
use runloom_protocol::spec::{AgentSpec, Budgets, PromptMessage, Role};
use runloom_protocol::tools::{self, DelegateRef, DelegateSource, ToolRef, ToolsetRef};
use serde::{Deserialize, Serialize};

use super::{Planned, Planner, StoredRun};
use crate::derived_ids::{run_span, sub_run_id, trace_of};
use crate::run::{DelegateCall, TreePlace};
use runloom_ports::error::{Error, Result};
use runloom_ports::store::{MicroUsd, NewSubRun, PREVIEW_CHARS, RunNo};
use runloom_ports::trace::TraceParent;

/// Placeholder of a secret in a public spec.
const SEALED: &str = "***";

/// Position of a child in its tree, stored with its spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredPlace {
    /// The run that called the delegate.
    pub parent: RunId,
    /// Its call.
    pub tool_use_id: String,
    /// Number of the root's row.
    pub root: i64,
    /// Numbers of the rows of all ancestors, the root first and the parent last.
    pub ancestors: Vec<i64>,
    /// 1 for a child of a root.
    pub depth: u32,
    /// Levels of runs that it may have below it.
    pub levels: u8,
    /// Runs below the root, as far as the parent knew.
    pub known_below: u32,
    /// Money that the budgets of its ancestors leave for runs below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetAbove>,
}

/// The money budget of an ancestor, minus the ancestor's own calls. It makes none while a child is alive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetAbove {
    /// The ancestor.
    pub run: RunId,
    /// Millionths of a dollar for all runs below it, from the first to the last.
    pub cap_micro: u64,
}

impl StoredPlace {
    /// Number of the parent's row.
    #[must_use]
    pub fn parent_no(&self) -> RunNo {
        RunNo(self.ancestors.last().copied().unwrap_or(self.root))
    }
}

/// The parts of a parent that a child inherits.
pub(crate) struct ParentRun<'p> {
    /// The parent's plan.
    pub(crate) planned: &'p Planned,
    /// Number of the parent's row.
    pub(crate) run: RunNo,
    /// Number of runs below the root known to the parent.
    pub(crate) known_below: u32,
    /// Output tokens left to the parent.
    pub(crate) output_tokens_left: Option<u64>,
    /// Money left to the runs below the parent.
    pub(crate) money_below: Option<MicroUsd>,
    /// The parent is traced.
    pub(crate) sampled: bool,
}

/// Plans children.
#[async_trait]
pub(crate) trait PlanSubRuns: Send + Sync {
    /// Builds the child of a call.
    ///
    /// # Errors
    /// When its model or its agent no longer exists.
    async fn sub_run(&self, parent: &ParentRun<'_>, call: &DelegateCall) -> Result<NewSubRun>;
}

#[async_trait]
impl PlanSubRuns for Planner {
    async fn sub_run(&self, parent: &ParentRun<'_>, call: &DelegateCall) -> Result<NewSubRun> {
        let (planned, delegate) = (parent.planned, &*call.delegate);
        let workspace = &planned.workspace;
        let (agent, version) = match delegate.source() {
            DelegateSource::Agent(id) => {
                let found = self.agents.agent(workspace, id).await?;
                let found = found.ok_or_else(|| {
                    Error::invalid(
                        "agentId",
                        format!("the agent {id} is not in this workspace"),
                    )
                })?;
                (Some(found.definition), Some(found.version))
            }
            DelegateSource::Tools(_) | DelegateSource::Toolset { .. } => (None, None),
        };
        let named = delegate.model_id.as_deref();
        let named = named.or(agent.as_ref().and_then(|agent| agent.model_id.as_deref()));
        let own = &planned.plan.primary.model.id;
        let model = self.catalog.find(workspace, Some(named.unwrap_or(own)));
        let model = model.await?.id.clone();
        let fallback = match (&agent, named) {
            (Some(agent), _) => agent.fallback_model_id.clone(),
            // The parent's model comes with the parent's fallback.
            (None, None) => planned.plan.fallback.as_ref().map(|it| it.model.id.clone()),
            (None, Some(_)) => None,
        };
        let place = place(parent, call);
        let policies = inherited(parent, delegate, agent.as_ref());
        let mut spec = child_spec(delegate, agent);
        spec.applied_policies = policies;
        spec.agent_version = version;
        spec.reasoning_level = spec.reasoning_level.or(planned.plan.reasoning_level);
        spec.max_depth = Some(place.levels);
        spec.budgets.max_output_tokens =
            least(spec.budgets.max_output_tokens, parent.output_tokens_left);
        let stored = StoredRun {
            workspace: workspace.to_string(),
            key: planned.key.clone(),
            fallback: fallback.filter(|fallback| *fallback != model),
            model,
            spec,
            messages: vec![PromptMessage::new(Role::User, call.prompt())],
            session: None,
            trace: Some(trace(parent)),
            thread: None,
            place: Some(place),
            // The project tool is for the run that a client starts: children have no owner.
            project: None,
        };
        let json = |run: &StoredRun| serde_json::to_string(run).map_err(Error::internal);
        let shown = public_spec(&stored.spec);
        Ok(NewSubRun {
            id: sub_run_id(&planned.plan.run, &call.id),
            tool_use_id: call.id.clone(),
            spec: json(&stored.sealed(&*self.sealer)?)?,
            public_spec: serde_json::to_string(&shown).map_err(Error::internal)?,
            spec_name: delegate.name.clone(),
            agent_id: delegate.agent_id.as_ref().map(ToString::to_string),
            model_id: stored.model,
            input_preview: call.prompt().chars().take(PREVIEW_CHARS).collect(),
        })
    }
}

/// A spec as everybody may see it: header values are secrets.
#[must_use]
pub fn public_spec(spec: &AgentSpec) -> AgentSpec {
    let mut public = spec.clone();
    tools::visit_mut(&mut public.tools, "", &mut |_, tool| {
        let headers = tool.headers_mut().into_iter();
        let values = headers.flat_map(|headers| headers.values_mut());
        values.for_each(|value| SEALED.clone_into(value));
    });
    public
}

fn place(parent: &ParentRun<'_>, call: &DelegateCall) -> StoredPlace {
    let (above, plan) = (parent.planned.place.as_deref(), &parent.planned.plan);
    let mut ancestors = above.map_or_else(Vec::new, |above| above.ancestors.clone());
    ancestors.push(parent.run.0);
    let mut budgets = above.map_or_else(Vec::new, |above| above.budgets.clone());
    budgets.extend(parent.money_below.map(|cap| BudgetAbove {
        run: plan.run.clone(),
        cap_micro: cap.0,
    }));
    let left = plan.place.levels.saturating_sub(1);
    StoredPlace {
        parent: plan.run.clone(),
        tool_use_id: call.id.clone(),
        root: above.map_or(parent.run.0, |above| above.root),
        ancestors,
        depth: plan.place.depth.saturating_add(1),
        levels: call.delegate.max_depth.map_or(left, |own| own.min(left)),
        known_below: parent.known_below.saturating_add(1),
        budgets,
    }
}

/// The child's spec, as far as the delegate and its agent say it.
fn child_spec(delegate: &DelegateRef, agent: Option<AgentDefinition>) -> AgentSpec {
    let name = Some(delegate.name.clone());
    if let Some(agent) = agent {
        return AgentSpec {
            name,
            agent_id: delegate.agent_id.clone(),
            system_prompt: Some(agent.instructions()),
            reasoning_level: delegate.reasoning_level.or(agent.reasoning_level),
            tools: agent.tools,
            budgets: merged(&delegate.budgets, &agent.budgets),
            output_schema: agent.output_schema,
            compaction: agent.compaction,
            loop_detection: agent.loop_detection,
            tool_budgets: agent.tool_budgets,
            ..AgentSpec::default()
        };
    }
    let instructions = delegate.instructions.clone().unwrap_or_else(|| {
        format!(
            "You are {}, an agent that does tasks for another agent. Do the task of the message and answer with its result.",
            delegate.name
        )
    });
    AgentSpec {
        name,
        system_prompt: Some(instructions),
        reasoning_level: delegate.reasoning_level,
        tools: refs(delegate),
        budgets: delegate.budgets.clone(),
        ..AgentSpec::default()
    }
}

/// The policies of the child: its own agent's, and the parent's unless the delegate says otherwise.
fn inherited(
    parent: &ParentRun<'_>,
    delegate: &DelegateRef,
    agent: Option<&AgentDefinition>,
) -> Vec<Policy> {
    let given = match &delegate.policy {
        None => parent.planned.policies.to_vec(),
        Some(own) => own.iter().cloned().collect(),
    };
    let agents = agent.and_then(|agent| agent.policy.clone());
    given.into_iter().chain(agents).collect()
}

/// The refs of a child without an agent.
fn refs(delegate: &DelegateRef) -> Vec<ToolRef> {
    match delegate.source() {
        DelegateSource::Toolset { name, filter } => vec![ToolRef::Toolset(ToolsetRef {
            name: name.to_owned(),
            tool_filter: filter.cloned(),
        })],
        DelegateSource::Tools(refs) => refs.to_vec(),
        DelegateSource::Agent(_) => Vec::new(),
    }
}

fn merged(given: &Budgets, agent: &Budgets) -> Budgets {
    Budgets {
        max_tool_turns: given.max_tool_turns.or(agent.max_tool_turns),
        max_wall_ms: given.max_wall_ms.or(agent.max_wall_ms),
        max_output_tokens: given.max_output_tokens.or(agent.max_output_tokens),
        max_cost_usd: given.max_cost_usd.or(agent.max_cost_usd),
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The parent's span: the child's run is a child span.
fn trace(parent: &ParentRun<'_>) -> TraceParent {
    let run = &parent.planned.plan.run;
    let above = parent.planned.origin.trace;
    TraceParent {
        trace: above.map_or_else(|| trace_of(run), |above| above.trace),
        span: run_span(run),
        sampled: parent.sampled,
    }
}

impl Planner {
    /// The position of a run in its tree.
    pub(super) fn place(&self, stored: Option<&StoredRun>) -> TreePlace {
        let max_sub_runs = self.max_sub_runs;
        match stored.and_then(|stored| stored.place.as_ref()) {
            Some(place) => TreePlace {
                depth: place.depth,
                levels: place.levels,
                known_below: place.known_below,
                max_sub_runs,
            },
            None => TreePlace {
                levels: stored
                    .and_then(|stored| stored.spec.max_depth)
                    .unwrap_or(limits::MAX_DEPTH_DEFAULT),
                max_sub_runs,
                ..TreePlace::default()
            },
        }
    }
}
