//! Resolving a spec: agent, tools, models and files.

use std::sync::Arc;

use runloom_protocol::spec::{AgentSpec, Compaction, PromptMessage};
use tracing::warn;

use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::fetch_limits::FetchLimits;
use crate::registry::RegistryService;
use runloom_engine::catalog::CatalogModel;
use runloom_engine::live_catalog::LiveCatalog;
use runloom_engine::planner::StoredRun;
use runloom_ports::project::Via;
use runloom_ports::tools::ToolHost;

/// Resolves what a spec refers to.
pub(crate) struct SpecResolver {
    pub(crate) registry: Arc<RegistryService>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) catalog: Arc<LiveCatalog>,
    pub(crate) fetches: FetchLimits,
}

/// The model state of the session of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionModel<'a> {
    /// Catalog id of the fallback, if the session has changed to it.
    pub(crate) active: Option<&'a str>,
}

impl SpecResolver {
    /// Resolves what a request refers to: agent, plugins, models, files. `session` is the state of the session of a
    /// message.
    pub(crate) async fn resolve(
        &self,
        caller: &Caller,
        spec: AgentSpec,
        messages: Vec<PromptMessage>,
        session: Option<SessionModel<'_>>,
    ) -> Result<StoredRun> {
        let spec = self.registry.resolve_agent(caller, spec).await?;
        let via = match session {
            Some(_) => Via::Chat,
            None => Via::Automation,
        };
        let project = self.registry.run_project(caller, &spec.tools, via).await?;
        self.tools
            .check(&caller.workspace.slug, &spec.tools)
            .await?;
        self.check_delegates(caller, &spec.tools).await?;
        let workspace = caller.workspace.slug.clone();
        let (model, fallback) = self.models_of(&workspace, &spec, session).await?;
        if let (Some(Compaction::On(settings)), None) = (&spec.compaction, session)
            && let Some(name) = settings.model_id.as_deref()
        {
            let found = self.catalog.find(&workspace, Some(name)).await;
            found.map_err(|error| Error::from(error).at_field("compaction.modelId"))?;
        }
        let models: Vec<&CatalogModel> = [Some(&model), fallback.as_ref()]
            .into_iter()
            .flatten()
            .map(|model| &**model)
            .collect();
        Ok(StoredRun {
            workspace,
            key: Some(caller.key_id.to_string()),
            messages: self
                .load_attachments(caller.workspace.no, &models, messages)
                .await?,
            model: model.id.clone(),
            fallback: fallback.map(|model| model.id.clone()),
            spec,
            session: None,
            trace: caller.trace,
            thread: None,
            place: None,
            project,
        })
    }

    /// The model of a spec and its fallback. An unknown fallback is refused, except in a session, which continues
    /// without it; a session that uses its fallback does not need the first model.
    async fn models_of(
        &self,
        workspace: &str,
        spec: &AgentSpec,
        session: Option<SessionModel<'_>>,
    ) -> Result<(Arc<CatalogModel>, Option<Arc<CatalogModel>>)> {
        let catalog = &self.catalog;
        let model = catalog.find(workspace, spec.model_id.as_deref()).await;
        let Some(name) = spec.fallback_model_id.as_deref() else {
            return Ok((model?, None));
        };
        let fallback = match (catalog.find(workspace, Some(name)).await, session) {
            (Ok(found), _) => found,
            (Err(error), None) => return Err(Error::from(error).at_field("fallbackModelId")),
            (Err(error), Some(_)) => {
                warn!(workspace, fallback = name, %error, "session fallback not found");
                return Ok((model?, None));
            }
        };
        let active = session.and_then(|session| session.active);
        if model.is_err() && active == Some(fallback.id.as_str()) {
            return Ok((fallback, None));
        }
        let model = model?;
        // If the fallback is the same model as `modelId`, it is ignored.
        let fallback = Some(fallback).filter(|fallback| fallback.id != model.id);
        Ok((model, fallback))
    }
}
