//! Dry runs: the request and its worst-case cost, without a run and without a model call.

use std::collections::BTreeMap;
use std::sync::Arc;

use runloom_protocol::error::Issue;
use runloom_protocol::event::{Event, Started};
use runloom_protocol::id::RunId;
use runloom_protocol::limits;
use runloom_protocol::resource::{AppliedBudget, DryRun};
use runloom_protocol::spec::{AgentSpec, CreateRun};
use runloom_protocol::tools::{ClientTool, ToolRef};
use serde_json::Value;

use super::auth::Caller;
use crate::error::Result;
use crate::spec_resolver::SpecResolver;
use runloom_engine::planner::{Planned, Planner};
use runloom_engine::run::{self, Note, Plan, Record, RunState, Step};
use runloom_engine::toolbox::has_object_root;
use runloom_ports::clock::Clock;
use runloom_ports::conversation::Conversation;
use runloom_ports::model::StructuredSupport;
use runloom_ports::store::{BudgetScope, MicroUsd, Store};
use runloom_ports::tools::{ToolContext, ToolHost};

/// Dry runs.
pub struct DryRunService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) resolver: Arc<SpecResolver>,
    pub(crate) planner: Arc<Planner>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) clock: Clock,
}

impl DryRunService {
    /// Resolves and plans a run, and stops before the model is called.
    ///
    /// # Errors
    /// When a run of this request would be refused.
    pub async fn dry_run(&self, caller: &Caller, request: CreateRun) -> Result<DryRun> {
        let CreateRun { spec, messages } = request;
        let checked = self
            .resolver
            .registry
            .check_project_refs(&caller.workspace, &spec.tools);
        checked.await?;
        let stored = self.resolver.resolve(caller, spec, messages, None).await?;
        let window = self
            .planner
            .catalog
            .now()
            .resolve(&stored.workspace, Some(&stored.model))?
            .context_window;
        let id = RunId::from_suffix(self.clock.new_id());
        let spec = stored.spec.clone();
        let planned = self
            .planner
            .plan(id.clone(), stored, Conversation::default())
            .await?;
        let state = self.first_state(id, &planned).await;
        let mut budgets = self.applied(&planned).await?;
        let mut warnings = warnings(&state, window);
        if spec.fallback_model_id.is_some() && planned.plan.fallback.is_none() {
            let same =
                "fallbackModelId is the model of the run itself, so that there is no fallback";
            warnings.push(same.to_owned());
        }
        warnings.extend(of_tools(&spec, &state));
        let (turn, run) = worst_case(&state, &budgets, &mut warnings);
        let plan = &state.plan;
        if plan.primary.price.is_none() {
            let model = &plan.primary.model.id;
            warnings.push(format!(
                "the model {model} has no price in the catalog: no budget of money can hold its runs"
            ));
            budgets.clear();
        }
        let bound = state.bid().map(|bid| bid.most);
        Ok(DryRun {
            dry_run: true,
            model: plan.primary.model.clone(),
            tools: state.toolbox.names().map(str::to_owned).collect(),
            schema_requested: plan.output.is_some(),
            estimated_prompt_tokens: state.estimated_input(),
            max_output_tokens: bound
                .or_else(|| state.output_bound())
                .or(plan.primary.max_output_tokens),
            max_tool_turns: plan.max_tool_turns,
            worst_case_turn_usd: turn.map(MicroUsd::usd),
            worst_case_run_usd: run.map(MicroUsd::usd),
            budgets,
            warnings,
        })
    }

    /// The state of the run just before its first call.
    async fn first_state(&self, id: RunId, planned: &Planned) -> RunState {
        let mut state = RunState::new(Arc::clone(&planned.plan));
        state.apply(Record::Event(Event::Started(Started {})));
        if !state.resolved {
            let context = ToolContext {
                session: None,
                project: planned.project.clone(),
                workspace: Arc::clone(&planned.workspace),
                run: id,
                refs: Arc::clone(&planned.refs),
            };
            let tools = self.tools.resolve(&context, &planned.refs).await;
            state.apply(Record::Note(Note::Toolset { tools }));
        }
        state
    }

    async fn applied(&self, planned: &Planned) -> Result<Vec<AppliedBudget>> {
        let mut budgets = Vec::new();
        if let Some(usd) = planned.plan.budgets.max_cost_usd {
            budgets.push(AppliedBudget {
                scope: "run".to_owned(),
                limit_usd: usd,
                remaining_usd: usd,
                refills_at: None,
            });
        }
        let now = self.clock.now();
        for monthly_budget in &planned.monthly_budgets {
            let limit = monthly_budget.at(now);
            let state = self.store.budget(&limit.scope, limit.month).await?;
            let scope = match limit.scope {
                BudgetScope::Workspace(_) => "workspace",
                BudgetScope::Key(_) => "key",
                BudgetScope::Run(_) => "run",
            };
            budgets.push(AppliedBudget {
                scope: scope.to_owned(),
                limit_usd: limit.cap.usd(),
                remaining_usd: limit.cap.minus(state.spent).usd(),
                refills_at: Some(limit.month.ends_at()),
            });
        }
        Ok(budgets)
    }
}

/// Worst-case cost of one turn and of the whole run.
fn worst_case(
    state: &RunState,
    budgets: &[AppliedBudget],
    warnings: &mut Vec<String>,
) -> (Option<MicroUsd>, Option<MicroUsd>) {
    let left = budgets
        .iter()
        .map(|budget| MicroUsd::from_usd(budget.remaining_usd))
        .min();
    let Some(bid) = state.worst_bid() else {
        return (None, None);
    };
    let turn = bid.worst(bid.most);
    let has_tools = !state.toolbox.is_empty();
    if let Some(left) = left {
        if bid.affordable(left).is_none() {
            let needed = bid.worst(bid.least);
            warnings.push(format!(
                "the smallest budget has {left} left, and a call may cost {needed}: the run would be brought to its end at once"
            ));
        }
        let turn = turn.min(left);
        return (Some(turn), Some(if has_tools { left } else { turn }));
    }
    if !has_tools {
        return (Some(turn), Some(turn));
    }
    warnings.push(
        "no budget of money applies: the worst case of the run does not count what its tools return"
            .to_owned(),
    );
    let turns = state.plan.max_tool_turns.saturating_add(1);
    (Some(turn), state.worst_of_turns(turns))
}

fn warnings(state: &RunState, window: Option<u64>) -> Vec<String> {
    let mut warnings = Vec::new();
    let estimate = state.estimated_input();
    if let Some(window) = window.filter(|&window| estimate > window) {
        warnings.push(format!(
            "the prompt has about {estimate} tokens, and the model reads {window}"
        ));
    }
    let plan = &state.plan;
    if plan.output.is_some() && plan.primary.capabilities.structured == StructuredSupport::None {
        warnings.push("the model cannot enforce an output schema".to_owned());
    }
    if plan.reasoning_level.is_some_and(|level| level > 0) && !plan.primary.capabilities.reasoning {
        warnings.push("the model does not reason: reasoningLevel has no effect".to_owned());
    }
    warnings.extend(of_fallback(plan));
    if let Step::Finish(Event::Error(error)) = run::next(state) {
        warnings.push(format!("the run would fail at once: {}", error.error));
    }
    warnings
}

/// Features that are lost when the fallback takes over.
fn of_fallback(plan: &Plan) -> Vec<String> {
    let Some(fallback) = &plan.fallback else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let id = &fallback.model.id;
    if plan.output.is_some() && fallback.capabilities.structured == StructuredSupport::None {
        warnings.push(format!(
            "the fallback {id} cannot enforce an output schema: with strict enforcement it is not asked"
        ));
    }
    if plan.primary.price.is_some() && fallback.price.is_none() {
        warnings.push(format!(
            "the fallback {id} has no price in the catalog: no budget of money holds it"
        ));
    }
    warnings
}

/// Unknown names, and schemas that the model does not see.
fn of_tools(spec: &AgentSpec, state: &RunState) -> Vec<String> {
    let has = |name: &String| state.toolbox.get(name).is_some();
    let capped = spec.tool_budgets.iter().flat_map(BTreeMap::keys);
    let unknown = capped
        .filter(|name| !has(name))
        .map(|name| format!("toolBudgets names `{name}`, and no tool of the run has this name"));
    let mut warnings: Vec<String> = unknown.collect();
    warnings.extend(state.toolbox.unchecked().iter().map(|issue| {
        let Issue { path, message } = issue;
        format!("{path} is no schema that this server understands, so that any arguments are passed on: {message}")
    }));
    let levels = spec.max_depth.unwrap_or(limits::MAX_DEPTH_DEFAULT);
    warnings.extend(unreachable_delegates(&spec.tools, levels, ""));
    for tool in spec.tools.iter().filter_map(ToolRef::client_tool) {
        match tool {
            ClientTool::Local(tool) => {
                warnings.extend(no_arguments(&tool.name, tool.parameters.as_ref()));
            }
            ClientTool::McpLocal(server) => warnings.extend(
                server
                    .tools
                    .iter()
                    .filter_map(|tool| no_arguments(&tool.name, tool.input_schema.as_ref())),
            ),
            // Its parameters are the server's own.
            ClientTool::A2aLocal(_) => {}
        }
    }
    warnings
}

/// Delegates that no run of the tree can call.
fn unreachable_delegates(tools: &[ToolRef], levels: u8, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let Some(delegate) = tool.delegate() else {
            continue;
        };
        let (path, name) = (format!("{path}tools[{index}]"), &delegate.name);
        let Some(left) = levels.checked_sub(1) else {
            warnings.push(format!(
                "{path}: the delegate `{name}` can never be called: maxDepth leaves no level for it"
            ));
            continue;
        };
        let left = delegate.max_depth.map_or(left, |own| own.min(left));
        let inner = delegate.tools.as_deref().unwrap_or_default();
        warnings.extend(unreachable_delegates(inner, left, &format!("{path}.")));
    }
    warnings
}

fn no_arguments(name: &str, schema: Option<&Value>) -> Option<String> {
    let lost = schema.is_some_and(|schema| !schema.is_null() && !has_object_root(schema));
    // An empty schema has nothing to lose.
    let lost =
        lost && schema.is_some_and(|schema| schema.as_object().is_none_or(|own| !own.is_empty()));
    lost.then(|| {
        format!(
            "the schema of `{name}` is not that of an object ({{\"type\": \"object\", \"properties\": …}}): the model is told that it takes no arguments"
        )
    })
}
