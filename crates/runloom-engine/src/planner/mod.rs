//! From a stored spec to a plan the machine can run.

mod facts;
mod no_model;
mod opening;
mod sub_run;

use std::sync::Arc;

use runloom_protocol::id::{AgentId, RunId, SessionId};
use runloom_protocol::outcome::ModelInfo;
use runloom_protocol::policy::Policy;
use runloom_protocol::spec::{AgentSpec, Compaction, PromptMessage};
use runloom_protocol::tools::{self, ToolRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use crate::catalog::CatalogModel;
use crate::live_catalog::LiveCatalog;
use crate::monthly_budgets::{MonthlyBudget, MonthlyBudgets};
use crate::policy::{self, CompiledPolicy};
use crate::run::{ModelFacts, Plan, default_tool_budgets};
use crate::toolbox::Toolbox;
use runloom_ports::agents::Agents;
use runloom_ports::conversation::Conversation;
use runloom_ports::error::{Chain, Error, Result};
use runloom_ports::model::{Capabilities, Model};
use runloom_ports::project::RunProject;
use runloom_ports::sealer::Sealer;
use runloom_ports::tools::ToolContext;
use runloom_ports::trace::TraceParent;
use runloom_schema::SchemaCache;

use facts::{compaction_of, compaction_plan, model_facts};
use no_model::NoModel;
pub use opening::spoken;
use opening::{opening, system_prompt};
pub use sub_run::{BudgetAbove, StoredPlace, public_spec};
pub(crate) use sub_run::{ParentRun, PlanSubRuns};

/// The stored request of a run: everything that is needed to plan it again after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredRun {
    /// Slug of the workspace whose models it may use.
    pub workspace: String,
    /// Id of the key that started it. The monthly budget of this key pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Catalog id of the model.
    pub model: String,
    /// Catalog id of the fallback. Never the model itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The agent, with every override applied.
    pub spec: AgentSpec,
    /// The request's own messages.
    pub messages: Vec<PromptMessage>,
    /// The session of the message, for the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The span of the client's trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
    /// The AG-UI request, if the run belongs to a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadRequest>,
    /// Position in a tree; `None` for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<StoredPlace>,
    /// Permissions of the project tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Arc<RunProject>>,
}

/// The parts of an AG-UI request that are neither spec nor messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRequest {
    /// The ids that the client gave to the run's messages, in their order.
    pub message_ids: Vec<String>,
    /// Context from the client for the model, for this run only. It is not a message of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// How long calls wait for the client.
    pub tool_timeout_ms: u64,
}

/// A plan and the model that carries it out.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The plan for the run machine.
    pub plan: Arc<Plan>,
    /// The model that the driver calls.
    pub model: Arc<dyn Model>,
    /// The model that the driver calls after a fallback.
    pub fallback: Option<Arc<dyn Model>>,
    /// The model that the driver asks for summaries, when it is another.
    pub summariser: Option<Arc<dyn Model>>,
    /// The reason why a requested fallback is unavailable.
    pub missing_fallback: Option<String>,
    /// Slug of the workspace.
    pub workspace: Arc<str>,
    /// The tools of the spec, header values in clear.
    pub refs: Arc<Vec<ToolRef>>,
    /// The monthly_budgets that pay for it.
    pub monthly_budgets: Vec<MonthlyBudget>,
    /// The origin of the run, for its trace.
    pub origin: Origin,
    /// Id of the key that started it.
    pub key: Option<String>,
    /// Policies that its children inherit.
    pub policies: Arc<[Policy]>,
    /// Position in a tree; `None` for a root.
    pub place: Option<Arc<StoredPlace>>,
    /// Permissions of the project tool.
    pub project: Option<Arc<RunProject>>,
}

/// The model of a run, and its fallback.
struct Models {
    model: Arc<CatalogModel>,
    fallback: Option<Arc<CatalogModel>>,
    /// The model of summaries, when it is another.
    summariser: Option<Arc<CatalogModel>>,
}

/// The origin of a run, for its trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// The span of the client's trace that it belongs to.
    pub trace: Option<TraceParent>,
    /// Its session.
    pub session: Option<SessionId>,
    /// Name given by the client.
    pub name: Option<String>,
    /// Its persisted agent.
    pub agent: Option<AgentId>,
}

impl Planned {
    /// The facts about the run that tools get.
    #[must_use]
    pub fn context(&self, run: &RunId) -> ToolContext {
        ToolContext {
            workspace: Arc::clone(&self.workspace),
            run: run.clone(),
            refs: Arc::clone(&self.refs),
            session: self.origin.session.clone(),
            project: self.project.clone(),
        }
    }
}

impl StoredRun {
    /// The same run, continuing on the fallback that an earlier run of the session switched to. Ignored when `active`
    /// is no longer the fallback, because the agent may have changed.
    #[must_use]
    pub fn staying_on(mut self, active: Option<&str>) -> Self {
        if let Some(fallback) = self.fallback.take_if(|fallback| active == Some(fallback)) {
            self.model = fallback;
        }
        self
    }

    /// The same with the header values of its tools sealed, for storage.
    ///
    /// # Errors
    /// When no master key is set.
    pub fn sealed(&self, sealer: &dyn Sealer) -> Result<Self> {
        self.map_headers(|place, value| sealer.seal(place, value).map_err(Error::internal))
    }

    /// The same with the header values of its tools in clear, for use.
    ///
    /// # Errors
    /// When it was sealed with another master key.
    pub fn opened(&self, sealer: &dyn Sealer) -> Result<Self> {
        self.map_headers(|place, value| sealer.open(place, value).map_err(Error::internal))
    }

    /// The origin of the run.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            trace: self.trace,
            session: self.session.clone(),
            name: self.spec.name.clone(),
            agent: self.spec.agent_id.clone(),
        }
    }

    fn map_headers(&self, change: impl Fn(&str, &str) -> Result<String>) -> Result<Self> {
        let mut changed = self.clone();
        let mut outcome = Ok(());
        tools::visit_mut(&mut changed.spec.tools, "", &mut |path, tool| {
            for (name, value) in tool.headers_mut().into_iter().flatten() {
                match change(&format!("{}/{path}/{name}", self.workspace), value) {
                    Ok(text) => *value = text,
                    Err(error) => outcome = Err(error),
                }
            }
        });
        outcome.map(|()| changed)
    }
}

/// Turns stored requests into plans.
#[derive(Debug)]
pub struct Planner {
    /// The models of now.
    pub catalog: Arc<LiveCatalog>,
    /// Compiled schemas.
    pub schemas: Arc<SchemaCache>,
    /// Seals the secrets of stored specs.
    pub sealer: Arc<dyn Sealer>,
    /// The monthly budgets.
    pub monthly_budgets: Arc<MonthlyBudgets>,
    /// Tool turns when the spec does not say.
    pub max_tool_turns: u32,
    /// Runs that a root may have below it.
    pub max_sub_runs: u32,
    /// Persisted agents that delegates name.
    pub agents: Arc<dyn Agents>,
}

impl Planner {
    /// Plans a run. New schemas are compiled off the async threads, because compiling them may take long.
    ///
    /// # Errors
    /// When the spec cannot be run: its model is unknown, or a schema is refused.
    pub async fn plan(
        self: &Arc<Self>,
        id: RunId,
        stored: StoredRun,
        history: Conversation,
    ) -> Result<Planned> {
        let model = self.catalog.find(&stored.workspace, Some(&stored.model));
        let model = model.await?;
        // The model itself is available, so the run continues without a fallback.
        let (fallback, lost) = match &stored.fallback {
            Some(spare) => match self.catalog.find(&stored.workspace, Some(spare)).await {
                Ok(found) => (Some(found), None),
                Err(error) => {
                    warn!(run = %id, fallback = spare, error = %Chain(&error), "the run has no fallback");
                    (None, Some(error.to_string()))
                }
            },
            None => (None, None),
        };
        let summariser = self
            .summariser(&stored)
            .await
            .filter(|it| it.id != model.id);
        let models = Models {
            model,
            fallback,
            summariser,
        };
        let planned = self.plan_with(id, models, stored, history).await?;
        Ok(Planned {
            missing_fallback: lost,
            ..planned
        })
    }

    /// The model of summaries. The run's own model takes its place when it is not there.
    async fn summariser(&self, stored: &StoredRun) -> Option<Arc<CatalogModel>> {
        let Some(Compaction::On(settings)) = compaction_of(stored) else {
            return None;
        };
        let name = settings.model_id?;
        let found = self.catalog.find(&stored.workspace, Some(&name)).await;
        found
            .inspect_err(
                |error| warn!(model = name, error = %Chain(error), "no model for summaries"),
            )
            .ok()
    }

    async fn plan_with(
        self: &Arc<Self>,
        id: RunId,
        models: Models,
        stored: StoredRun,
        history: Conversation,
    ) -> Result<Planned> {
        if self.knows_schemas(&stored.spec) {
            return self.plan_now(id, models, &stored, history);
        }
        let planner = Arc::clone(self);
        tokio::task::spawn_blocking(move || planner.plan_now(id, models, &stored, history))
            .await
            .unwrap_or_else(|panic| Err(Error::internal(panic)))
    }

    fn knows_schemas(&self, spec: &AgentSpec) -> bool {
        let known = |schema: &Value| self.schemas.knows(schema);
        let output = spec.output_schema.as_ref();
        let mut policies = spec
            .policies()
            .flat_map(|(_, policy)| CompiledPolicy::schemas(policy));
        Toolbox::schemas(&spec.tools).all(|schema| known(&schema))
            && policies.all(known)
            && output.is_none_or(|output| known(&Value::Object(output.schema.clone())))
    }

    /// A plan for a run that cannot be run: its only turn fails with the reason. The known parts of the spec are
    /// kept, because the log was written under them.
    #[must_use]
    pub fn unplannable(&self, id: RunId, stored: Option<&StoredRun>, reason: String) -> Planned {
        let model = stored.map_or("unknown", |stored| stored.model.as_str());
        let spec = stored.map(|stored| &stored.spec);
        let budgets = spec.map(|spec| spec.budgets.clone()).unwrap_or_default();
        let info = ModelInfo {
            id: model.to_owned(),
            provider: "unknown".to_owned(),
            vendor_model_id: model.to_owned(),
            reasoning_effort: None,
        };
        let plan = Plan {
            run: id,
            system: "".into(),
            history_len: 0,
            compaction: None,
            opening: Conversation::default(),
            toolbox: Arc::new(Toolbox::empty()),
            has_server_tools: false,
            schemas: Arc::clone(&self.schemas),
            reasoning_level: None,
            output: None,
            primary: ModelFacts {
                model: info,
                capabilities: Capabilities::default(),
                price: None,
                context_window: None,
                max_output_tokens: None,
            },
            fallback: None,
            has_monthly_budgets: false,
            max_tool_turns: budgets.max_tool_turns.unwrap_or(self.max_tool_turns),
            loop_detection: spec
                .and_then(|spec| spec.loop_detection)
                .unwrap_or_default(),
            tool_budgets: default_tool_budgets(None),
            policies: Vec::new(),
            has_call_policy: false,
            budgets,
            client_timeout_ms: None,
            place: self.place(stored),
        };
        Planned {
            plan: Arc::new(plan),
            model: Arc::new(NoModel { reason }),
            fallback: None,
            summariser: None,
            missing_fallback: None,
            workspace: "".into(),
            refs: Arc::default(),
            monthly_budgets: Vec::new(),
            origin: stored.map(StoredRun::origin).unwrap_or_default(),
            key: stored.and_then(|stored| stored.key.clone()),
            policies: Arc::default(),
            place: stored.and_then(|stored| stored.place.clone()).map(Arc::new),
            project: None,
        }
    }

    fn plan_now(
        &self,
        id: RunId,
        models: Models,
        stored: &StoredRun,
        history: Conversation,
    ) -> Result<Planned> {
        let Models {
            model,
            fallback,
            summariser,
        } = models;
        let spec = &stored.spec;
        let history = if spec.tools.is_empty() {
            history.without_calls()
        } else {
            history
        };
        let monthly_budgets = self
            .monthly_budgets
            .of(&stored.workspace, stored.key.as_deref());
        let place = self.place(Some(stored));
        let toolbox = Toolbox::build(&spec.tools, &self.schemas).map_err(Error::Invalid)?;
        let toolbox = toolbox.for_levels(place.levels);
        let output = match &spec.output_schema {
            None => None,
            Some(output) => {
                let schema = Value::Object(output.schema.clone());
                let validator = self.schemas.compile(&schema).map_err(|error| {
                    Error::invalid(format!("outputSchema.schema{}", error.path), error.message)
                })?;
                Some((Arc::new(output.clone()), validator))
            }
        };
        let plan = Plan {
            run: id,
            system: system_prompt(stored).into(),
            history_len: history.len(),
            compaction: compaction_plan(stored, summariser.as_deref()),
            opening: opening(history, stored),
            toolbox: Arc::new(toolbox),
            has_server_tools: spec.tools.iter().any(ToolRef::is_server_resolved),
            schemas: Arc::clone(&self.schemas),
            reasoning_level: spec.reasoning_level,
            output,
            primary: model_facts(&model, spec.reasoning_level),
            fallback: fallback
                .as_ref()
                .map(|model| model_facts(model, spec.reasoning_level)),
            has_monthly_budgets: !monthly_budgets.is_empty()
                || stored
                    .place
                    .as_ref()
                    .is_some_and(|it| !it.budgets.is_empty()),
            max_tool_turns: spec.budgets.max_tool_turns.unwrap_or(self.max_tool_turns),
            loop_detection: spec.loop_detection.unwrap_or_default(),
            tool_budgets: default_tool_budgets(spec.tool_budgets.as_ref()),
            policies: policy::compile_all(spec.policies(), &self.schemas)
                .map_err(Error::Invalid)?,
            has_call_policy: false,
            budgets: spec.budgets.clone(),
            client_timeout_ms: stored.thread.as_ref().map(|thread| thread.tool_timeout_ms),
            place,
        };
        Ok(Planned {
            plan: Arc::new(plan),
            model: Arc::clone(&model.model),
            fallback: fallback.map(|model| Arc::clone(&model.model)),
            summariser: summariser.map(|model| Arc::clone(&model.model)),
            missing_fallback: None,
            workspace: stored.workspace.as_str().into(),
            refs: Arc::new(spec.tools.clone()),
            monthly_budgets,
            origin: stored.origin(),
            key: stored.key.clone(),
            policies: spec.policies().map(|(_, policy)| policy.clone()).collect(),
            place: stored.place.clone().map(Arc::new),
            project: stored.project.clone(),
        })
    }
}
