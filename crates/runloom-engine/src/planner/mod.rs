//! From a stored spec to a plan the machine can run.

mod no_model;
mod opening;
mod sub_run;

use std::sync::Arc;

use runloom_protocol::id::{AgentId, RunId, SessionId};
use runloom_protocol::outcome::{ModelInfo, effort_of_level};
use runloom_protocol::policy::Policy;
use runloom_protocol::spec::{AgentSpec, PromptMessage};
use runloom_protocol::tools::{self, ToolRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use crate::catalog::CatalogModel;
use crate::live_catalog::LiveCatalog;
use crate::monthly_budgets::{MonthlyBudget, MonthlyBudgets};
use crate::policy::{self, CompiledPolicy};
use crate::run::{ModelFacts, Plan, Price, default_tool_budgets};
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

use no_model::NoModel;
pub use opening::spoken;
use opening::{opening, system_prompt};
pub use sub_run::{BudgetAbove, StoredPlace, public_spec};
pub(crate) use sub_run::{ParentRun, PlanSubRuns};

/// What is stored of a run's request: everything that is needed to plan it again after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredRun {
    /// Slug of the workspace, whose models it may use.
    pub workspace: String,
    /// Id of the key that started it, whose monthly_budget pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Catalog id of the model.
    pub model: String,
    /// Catalog id of the model that takes over when that one is out of service; never the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The agent, with every override applied.
    pub spec: AgentSpec,
    /// The request's own messages.
    pub messages: Vec<PromptMessage>,
    /// The session whose message it is, for its trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The span of the client's trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
    /// What it has as a run of an AG-UI thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadRequest>,
    /// Its place in a tree; `None` for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<StoredPlace>,
    /// What it may do through the project tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Arc<RunProject>>,
}

/// What a run of an AG-UI thread has beside its spec and its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRequest {
    /// The ids that the client gave to the run's messages, in their order.
    pub message_ids: Vec<String>,
    /// What the client says about itself, for the model and for this run alone: no message of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// How long calls wait for the client.
    pub tool_timeout_ms: u64,
}

/// A plan and the model that carries it out.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What the machine needs.
    pub plan: Arc<Plan>,
    /// What the driver calls.
    pub model: Arc<dyn Model>,
    /// What it calls when that one is out of service.
    pub fallback: Option<Arc<dyn Model>>,
    /// Why the run has no fallback though one was asked for.
    pub missing_fallback: Option<String>,
    /// Slug of the workspace.
    pub workspace: Arc<str>,
    /// The tools of the spec, header values in clear.
    pub refs: Arc<Vec<ToolRef>>,
    /// The monthly_budgets that pay for it.
    pub monthly_budgets: Vec<MonthlyBudget>,
    /// Where it comes from.
    pub origin: Origin,
    /// Id of the key that started it.
    pub key: Option<String>,
    /// Policies that its children inherit.
    pub policies: Arc<[Policy]>,
    /// Its place in a tree; `None` for a root.
    pub place: Option<Arc<StoredPlace>>,
    /// What it may do through the project tool.
    pub project: Option<Arc<RunProject>>,
}

/// The model of a run, and its fallback.
type Models = (Arc<CatalogModel>, Option<Arc<CatalogModel>>);

/// Where a run comes from, for its trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// The span of the client's trace that it belongs to.
    pub trace: Option<TraceParent>,
    /// Its session.
    pub session: Option<SessionId>,
    /// What its client calls it.
    pub name: Option<String>,
    /// Its persisted agent.
    pub agent: Option<AgentId>,
}

impl Planned {
    /// What its tools are told of the run.
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
    /// The same as a run of a session that stays on this model since an earlier run fell back. That counts for as
    /// long as it is the fallback: an agent may have got other models meanwhile.
    #[must_use]
    pub fn staying_on(mut self, active: Option<&str>) -> Self {
        if let Some(fallback) = self.fallback.take_if(|fallback| active == Some(fallback)) {
            self.model = fallback;
        }
        self
    }

    /// The same with the header values of its tools sealed, as it is stored.
    ///
    /// # Errors
    /// When nothing can be sealed.
    pub fn sealed(&self, sealer: &dyn Sealer) -> Result<Self> {
        self.map_headers(|place, value| sealer.seal(place, value).map_err(Error::internal))
    }

    /// The same with the header values of its tools in clear, as it is used.
    ///
    /// # Errors
    /// When it was sealed with another master key.
    pub fn opened(&self, sealer: &dyn Sealer) -> Result<Self> {
        self.map_headers(|place, value| sealer.open(place, value).map_err(Error::internal))
    }

    /// Where it comes from.
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

/// Makes plans.
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
    /// Plans a run. Compiling strangers' schemas may take a while, so it happens off the async threads when one is new.
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
        // The model itself is there, so that the run can do without the other one.
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
        let models = (model, fallback);
        let planned = self.plan_with(id, models, stored, history).await?;
        Ok(Planned {
            missing_fallback: lost,
            ..planned
        })
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

    /// A plan for a run that cannot be run: its only turn would fail with the reason. What is known of its spec
    /// holds, because the meaning of its log rests on it.
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
            budgets,
            client_timeout_ms: None,
            place: self.place(stored),
        };
        Planned {
            plan: Arc::new(plan),
            model: Arc::new(NoModel { reason }),
            fallback: None,
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
        (model, fallback): Models,
        stored: &StoredRun,
        history: Conversation,
    ) -> Result<Planned> {
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
            budgets: spec.budgets.clone(),
            client_timeout_ms: stored.thread.as_ref().map(|thread| thread.tool_timeout_ms),
            place,
        };
        Ok(Planned {
            plan: Arc::new(plan),
            model: Arc::clone(&model.model),
            fallback: fallback.map(|model| Arc::clone(&model.model)),
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

fn model_facts(model: &CatalogModel, level: Option<u8>) -> ModelFacts {
    ModelFacts {
        model: info_of(model, level),
        capabilities: model.model.capabilities(),
        price: price_of(model),
        max_output_tokens: model.max_output_tokens,
    }
}

fn info_of(model: &CatalogModel, level: Option<u8>) -> ModelInfo {
    let effort = level
        .filter(|_| model.model.capabilities().reasoning)
        .map(|level| effort_of_level(level).to_owned());
    ModelInfo {
        id: model.id.clone(),
        provider: model.provider.clone(),
        vendor_model_id: model.vendor_model_id.clone(),
        reasoning_effort: effort,
    }
}

fn price_of(model: &CatalogModel) -> Option<Price> {
    model.pricing.map(|price| Price {
        input: price.input_per_1m_usd,
        output: price.output_per_1m_usd,
        cache_read: price
            .cache_read_per_1m_usd
            .unwrap_or(price.input_per_1m_usd),
    })
}
