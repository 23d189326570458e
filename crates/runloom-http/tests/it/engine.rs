//! The service behind the router: everything but a worker, so that runs are accepted and stay queued.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use runloom_engine::catalog::{Catalog, CatalogModel, Source};
use runloom_engine::catalog_builder::{CatalogBuilder, StoredProvider};
use runloom_engine::hub::Hub;
use runloom_engine::planner::Planner;
use runloom_fabric::EmbeddedQueue;
use runloom_ports::error::Error;
use runloom_ports::model::{Capabilities, Model, ModelError, ModelRequest, ModelStream};
use runloom_ports::shutdown::Shutdown;
use runloom_protocol::outcome::ErrorClass;
use runloom_schema::SchemaCache;
use runloom_service::auth::{Authenticator, KeyCache, KeyRing};
use runloom_service::rate::{RateLimiter, RateLimits};
use runloom_service::registry::RegistryService;
use runloom_service::tenancy::TenancyService;
use runloom_service::{ServiceParts, Services};
use runloom_store::OpenOptions;
use tempfile::TempDir;

/// A service with a store of its own, which goes with the directory.
pub(crate) async fn service(limits: RateLimits) -> (Services, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("runloom.db").display());
    let store = runloom_store::open(&url, OpenOptions::default())
        .await
        .unwrap();
    let keys = Arc::new(KeyRing::new(b"master key of the tests"));
    let cache = Arc::new(KeyCache::default());
    let auth = Authenticator::new(store.clone(), keys.clone(), cache.clone());
    let tenancy = TenancyService::new(store.clone(), keys, cache);
    let planner = Planner {
        catalog: Arc::new(catalog().into()),
        schemas: Arc::new(SchemaCache::new()),
        sealer: Arc::new(runloom_service::vault::Vault::new(
            b"0123456789abcdef0123456789abcdef",
        )),
        max_tool_turns: 32,
        max_sub_runs: 64,
        agents: Arc::new(runloom_ports::agents::NoAgents),
        monthly_budgets: Arc::default(),
    };
    let planner = Arc::new(planner);
    let registry = RegistryService::new(
        store.clone(),
        Arc::clone(&planner.sealer),
        planner.catalog.clone(),
        Arc::new(Silents),
    );
    let parts = ServiceParts {
        memory: Arc::new(runloom_service::memory::MemoryService::new(store.clone())),
        project: Arc::new(runloom_service::project::ProjectService::new(
            store.clone(),
            Arc::new(runloom_service::memory::MemoryService::new(store.clone())),
            &[7; 32],
        )),
        store,
        registry: Arc::new(registry),
        queue: Arc::new(EmbeddedQueue::new()),
        bus: Arc::new(runloom_ports::bus::NoBus),
        hub: Arc::new(Hub::default()),
        planner,
        tools: Arc::new(runloom_ports::tools::NoTools),
        worker: None,
        ender: None,
        shutdown: Shutdown::default(),
        backlog: runloom_service::BacklogLimits::default(),
        ag_ui: runloom_service::AgUiSettings::default(),
    };
    let service = Services::new(parts, auth, RateLimiter::new(limits), tenancy);
    (service, directory)
}

fn catalog() -> Catalog {
    let id = CatalogModel::platform_id("silent");
    let silent = silent(id, "silent", "silent", Source::PlatformOffering);
    Catalog {
        platform: vec![Arc::new(silent)],
        workspaces: HashMap::new(),
    }
}

fn silent(id: String, provider: &str, model: &str, source: Source) -> CatalogModel {
    CatalogModel {
        id,
        label: "Silent".to_owned(),
        provider_id: provider.to_owned(),
        provider: "demo".to_owned(),
        vendor_model_id: model.to_owned(),
        source,
        context_window: None,
        pricing: None,
        reasoning: false,
        max_output_tokens: None,
        model: Arc::new(Silent),
    }
}

/// Opens every stored provider with models that nobody calls; one with the key `wrong` cannot be opened.
struct Silents;

impl CatalogBuilder for Silents {
    fn check(&self, provider: &StoredProvider) -> runloom_ports::error::Result<()> {
        match provider.definition.api_key.as_deref() {
            Some("wrong") => Err(Error::invalid("apiKey", "does not fit")),
            _ => Ok(()),
        }
    }

    fn build(&self, stored: &[StoredProvider]) -> Catalog {
        let mut catalog = catalog();
        for provider in stored {
            let own = catalog.workspaces.entry(provider.workspace.clone());
            let own = &mut own.or_default().models;
            own.extend(provider.definition.models.iter().map(|model| {
                let id = CatalogModel::workspace_id(&provider.id, &model.id);
                let source = Source::WorkspaceProvider;
                Arc::new(silent(id, &provider.id, &model.id, source))
            }));
        }
        catalog
    }
}

/// A model that nobody calls.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Model for Silent {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn call(&self, _request: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(ModelError::new(ErrorClass::Server, "silent"))
    }
}
