//! What workspaces keep: agents, tools, plugins, secrets, external agents, providers, toolsets.
//!
//! `check` says what is a definition, `mentions` what it mentions of its workspace, `seal` keeps credentials closed,
//! `definitions` and `host` serve tools at run time and `known` remembers them, `agents` lays an agent under a spec,
//! `models` keeps the catalog in step with providers, `rotation` changes the master key.

pub(crate) mod agents;
mod check;
mod definition_cache;
mod definitions;
mod models;
mod projects;
mod reference_check;
mod rotation;
mod sealing;
mod secret_injecting_host;
mod toolsets;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use runloom_protocol::resource::StoredDocument;
use serde_json::Value;

use crate::declared_schemas::Declared;
use crate::error::{Error, Result};
use runloom_engine::catalog_builder::{CatalogBuilder, FixedCatalog};
use runloom_engine::live_catalog::LiveCatalog;
use runloom_engine::planner::Planner;
use runloom_ports::bus::{Bus, NoBus, Signal};
use runloom_ports::clock::{Clock, rfc3339};
use runloom_ports::sealer::Sealer;
use runloom_ports::store::{
    Deleted, Document, DocumentKind, Expect, Put, PutDocument, Store, WorkspaceRow,
};
use runloom_project::ModuleSet;
use runloom_schema::SchemaCache;

use definition_cache::DefinitionCache;

pub use projects::PROJECT;
pub(crate) use projects::no_project;
pub use reference_check::{code_tools, named_secrets, named_tools};
pub use secret_injecting_host::SecretInjectingHost;
pub use toolsets::OperatorToolset;

/// Agents, tools, plugins, secrets, external agents and providers of workspaces.
pub struct RegistryService {
    store: Arc<dyn Store>,
    sealer: Arc<dyn Sealer>,
    catalog: Arc<LiveCatalog>,
    builder: Arc<dyn CatalogBuilder>,
    bus: Arc<dyn Bus>,
    /// The catalog is built from what is stored, so two builders at once could leave the older one. What it was built
    /// from.
    building: tokio::sync::Mutex<String>,
    schemas: Arc<SchemaCache>,
    /// Whether code tools are taken.
    takes_code: bool,
    known: DefinitionCache,
    operator_toolsets: Vec<OperatorToolset>,
    clock: Clock,
    /// The modules that projects may name.
    modules: Arc<ModuleSet>,
    /// Slugs of workspaces whose project the configuration file declares.
    configured_projects: BTreeSet<String>,
}

impl fmt::Debug for RegistryService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryService").finish_non_exhaustive()
    }
}

/// Who puts a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    Administrator,
    Configuration,
}

/// A document that was put.
#[derive(Debug, Clone, PartialEq)]
pub struct PutOutcome {
    /// Whether there was none before.
    pub created: bool,
    /// As it is now.
    pub document: StoredDocument,
}

impl RegistryService {
    /// Call [`Self::refresh_catalog`] once before serving.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        sealer: Arc<dyn Sealer>,
        catalog: Arc<LiveCatalog>,
        builder: Arc<dyn CatalogBuilder>,
    ) -> Self {
        Self {
            store,
            sealer,
            catalog,
            builder,
            bus: Arc::new(NoBus),
            building: tokio::sync::Mutex::default(),
            schemas: Arc::default(),
            takes_code: true,
            known: DefinitionCache::default(),
            operator_toolsets: Vec::new(),
            clock: Clock,
            modules: Arc::new(ModuleSet::with_operator(Vec::new())),
            configured_projects: BTreeSet::new(),
        }
    }

    /// Tells other processes of changes.
    #[must_use]
    pub fn announcing(mut self, bus: Arc<dyn Bus>) -> Self {
        self.bus = bus;
        self
    }

    /// Says whether code tools are taken; they are unless this says otherwise.
    #[must_use]
    pub fn taking_code(mut self, takes_code: bool) -> Self {
        self.takes_code = takes_code;
        self
    }

    /// A registry whose catalog is the planner's and never changes: it opens no stored providers.
    #[must_use]
    pub fn with_fixed_catalog(store: Arc<dyn Store>, planner: &Planner) -> Self {
        let catalog = Arc::clone(&planner.catalog);
        let builder = FixedCatalog((*catalog.now()).clone());
        Self::new(
            store,
            Arc::clone(&planner.sealer),
            catalog,
            Arc::new(builder),
        )
    }

    /// Creates a document, or replaces the one with this slug or id. One that says the same as before keeps its
    /// version.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every violation; [`Error::PreconditionFailed`]; [`Error::NotFound`] without the
    /// workspace.
    pub async fn put(
        &self,
        workspace: &str,
        kind: DocumentKind,
        name: &str,
        body: &Value,
        expect: Expect,
    ) -> Result<PutOutcome> {
        let document = (kind, name, body);
        self.put_from(Author::Administrator, workspace, document, expect)
            .await
    }

    /// As [`Self::put`], of what the configuration declares: a model that is not offered now, because a provider's
    /// key is missing for example, is a warning. One missing key must not keep a server from starting.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn declare(
        &self,
        workspace: &str,
        kind: DocumentKind,
        slug: &str,
        body: &Value,
    ) -> Result<PutOutcome> {
        let document = (kind, slug, body);
        self.put_from(Author::Configuration, workspace, document, Expect::Anything)
            .await
    }

    async fn put_from(
        &self,
        author: Author,
        workspace: &str,
        (kind, name, body): (DocumentKind, &str, &Value),
        expect: Expect,
    ) -> Result<PutOutcome> {
        let workspace = self.workspace(workspace).await?;
        self.check_changeable(&workspace.slug, kind, name)?;
        self.refuse_configured(author, &workspace.slug, kind)?;
        let known = self.store.document(workspace.no, kind, name).await?;
        // A document may be named by its id as well; only its slug is put.
        let slug = known.as_ref().map_or(name, |known| known.slug.as_str());
        let definition = check::definition(kind, slug, body)?;
        self.check_in_workspace(&workspace, kind, slug, &definition)
            .await?;
        let mut warnings = self.warnings(&workspace, kind, &definition).await?;
        if kind == DocumentKind::Agent {
            warnings.extend(self.check_model(author, &workspace, &definition)?);
        }
        if let Some(known) = &known
            && expect.holds(Some((&known.id, known.version)))
            && self
                .clear(&workspace, known)
                .is_ok_and(|old| old == definition)
        {
            return Ok(PutOutcome {
                created: false,
                document: with(warnings, view(known, definition)?),
            });
        }
        let sealed = self.sealed(&workspace, kind, slug, definition.clone())?;
        let put = PutDocument {
            id: format!("{}{}", id_prefix(kind), self.clock.new_id()),
            slug: slug.to_owned(),
            kind,
            workspace: workspace.no,
            body: sealed.to_string(),
            expect,
            limit: self.documents_max(&workspace.slug, kind),
            now: self.clock.now(),
        };
        let (created, document) = match self.store.put_document(put).await? {
            Put::Created(document) => (true, document),
            Put::Replaced(document) => (false, document),
            Put::Mismatch => return Err(changed(kind)),
            Put::Full => {
                let limit = self.documents_max(&workspace.slug, kind);
                return Err(toolsets::full(kind, limit));
            }
        };
        self.changed(kind).await?;
        Ok(PutOutcome {
            created,
            document: with(warnings, view(&document, definition)?),
        })
    }

    /// One document, by its slug or id, now or at a version.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn get(
        &self,
        workspace: &str,
        kind: DocumentKind,
        name: &str,
        version: Option<u64>,
    ) -> Result<StoredDocument> {
        let workspace = self.workspace(workspace).await?;
        let missing = || Error::NotFound { what: word(kind) };
        let found = self.store.document(workspace.no, kind, name).await?;
        let found = found.ok_or_else(missing)?;
        let found = match version {
            None => found,
            Some(version) => self
                .store
                .document_version(workspace.no, kind, &found.id, version)
                .await?
                .ok_or_else(missing)?,
        };
        view(&found, parsed(&found)?)
    }

    /// All documents of a kind, by slug.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace.
    pub async fn list(&self, workspace: &str, kind: DocumentKind) -> Result<Vec<StoredDocument>> {
        let workspace = self.workspace(workspace).await?;
        let found = self.store.documents(workspace.no, kind).await?;
        found
            .iter()
            .map(|document| view(document, parsed(document)?))
            .collect()
    }

    /// Deletes a document, by its slug or id.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::PreconditionFailed`].
    pub async fn delete(
        &self,
        workspace: &str,
        kind: DocumentKind,
        name: &str,
        expect: Expect,
    ) -> Result<()> {
        let workspace = self.workspace(workspace).await?;
        self.check_changeable(&workspace.slug, kind, name)?;
        self.refuse_configured(Author::Administrator, &workspace.slug, kind)?;
        let deleted = self.store.delete_document(workspace.no, kind, name, expect);
        match deleted.await? {
            Deleted::Gone => self.changed(kind).await,
            Deleted::Mismatch => Err(changed(kind)),
            Deleted::Unknown => Err(Error::NotFound { what: word(kind) }),
        }
    }

    async fn workspace(&self, slug: &str) -> Result<WorkspaceRow> {
        let found = self.store.workspace(slug).await?;
        found.ok_or(Error::NotFound { what: "workspace" })
    }

    /// What a definition says of its workspace must hold there.
    async fn check_in_workspace(
        &self,
        workspace: &WorkspaceRow,
        kind: DocumentKind,
        slug: &str,
        definition: &Value,
    ) -> Result<()> {
        if kind == DocumentKind::Secret {
            return Ok(());
        }
        let mut issues = sealing::refuse_masks(definition)?;
        let declared = check::declared(kind, definition)?;
        issues.extend(Declared::issues_off_thread(&declared, &self.schemas).await);
        issues.extend(self.missing_secrets(workspace, definition).await?);
        if !self.takes_code {
            let unwanted = reference_check::code_tools(definition).into_iter();
            let message = "code tools are disabled on this server";
            issues.extend(unwanted.map(|place| check::issue(&place, message)));
        }
        if !issues.is_empty() {
            return Err(Error::Invalid(issues));
        }
        if kind == DocumentKind::Provider {
            self.check_provider(workspace, slug, definition).await?;
        }
        if kind == DocumentKind::Project {
            self.check_project(workspace, definition)?;
        }
        if kind == DocumentKind::Agent {
            self.check_agents_project(workspace, definition).await?;
        }
        Ok(())
    }

    /// A warning when a model of an agent is not offered and that is allowed.
    fn check_model(
        &self,
        author: Author,
        workspace: &WorkspaceRow,
        definition: &Value,
    ) -> Result<Option<String>> {
        let catalog = self.catalog.now();
        for field in ["modelId", "fallbackModelId"] {
            let Some(model) = definition.get(field).and_then(Value::as_str) else {
                continue;
            };
            match catalog
                .resolve(&workspace.slug, Some(model))
                .map_err(Error::from)
            {
                Err(Error::InvalidModel { message, .. }) if author == Author::Configuration => {
                    return Ok(Some(format!(
                        "{field}: {message} Runs of the agent are refused until it is offered."
                    )));
                }
                Err(error) if field == "fallbackModelId" => return Err(error.at_field(field)),
                found => found.map(drop)?,
            }
        }
        Ok(None)
    }

    /// Another process has changed something.
    pub fn forget(&self) {
        self.known.forget();
    }

    async fn changed(&self, kind: DocumentKind) -> Result<()> {
        self.known.forget();
        self.bus.announce(Signal::Registry);
        match kind {
            // A provider's key may be a secret.
            DocumentKind::Provider | DocumentKind::Secret => self.refresh_catalog().await,
            _ => Ok(()),
        }
    }

    fn sealed(
        &self,
        workspace: &WorkspaceRow,
        kind: DocumentKind,
        slug: &str,
        definition: Value,
    ) -> Result<Value> {
        let place = sealing::place(&workspace.slug, kind, slug);
        match kind {
            DocumentKind::Secret => {
                let value = definition["value"].as_str().unwrap_or_default();
                let sealed = self.sealer.seal(&place, value).map_err(Error::internal)?;
                Ok(serde_json::json!({ "value": sealed }))
            }
            _ => sealing::seal(&*self.sealer, &place, definition),
        }
    }

    /// The definition with its credentials in clear.
    fn clear(&self, workspace: &WorkspaceRow, document: &Document) -> Result<Value> {
        let place = sealing::place(&workspace.slug, document.kind, &document.slug);
        let definition = parsed(document)?;
        match document.kind {
            DocumentKind::Secret => {
                let sealed = definition["value"].as_str().unwrap_or_default();
                let value = self.sealer.open(&place, sealed).map_err(Error::internal)?;
                Ok(serde_json::json!({ "value": value }))
            }
            _ => sealing::open(&*self.sealer, &place, definition),
        }
    }

    /// As [`Self::clear`], as the type that it is.
    fn read<T: serde::de::DeserializeOwned>(
        &self,
        workspace: &WorkspaceRow,
        document: &Document,
    ) -> Result<T> {
        let definition = self.clear(workspace, document)?;
        serde_json::from_value(definition).map_err(Error::internal)
    }
}

/// What the ids of a kind start with.
fn id_prefix(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Agent => "agent_",
        DocumentKind::Tool => "tool_",
        DocumentKind::Plugin => "plugin_",
        DocumentKind::Secret => "secret_",
        DocumentKind::ExternalAgent => "peer_",
        DocumentKind::Provider => "prov_",
        DocumentKind::Toolset => "toolset_",
        DocumentKind::Project => "project_",
    }
}

fn word(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Agent => "agent",
        DocumentKind::Tool => "tool",
        DocumentKind::Plugin => "plugin",
        DocumentKind::Secret => "secret",
        DocumentKind::ExternalAgent => "external agent",
        DocumentKind::Provider => "provider",
        DocumentKind::Toolset => "toolset",
        DocumentKind::Project => "project",
    }
}

fn changed(kind: DocumentKind) -> Error {
    let message = format!(
        "The {} is not as the request expects it: it was changed, made or removed meanwhile.",
        word(kind)
    );
    Error::PreconditionFailed { message }
}

fn parsed(document: &Document) -> Result<Value> {
    serde_json::from_str(&document.body).map_err(Error::internal)
}

/// What is shown of a document: no credential, sealed or not.
fn view(document: &Document, definition: Value) -> Result<StoredDocument> {
    let definition = match document.kind {
        DocumentKind::Secret => None,
        _ => Some(sealing::mask(definition)?),
    };
    Ok(StoredDocument {
        id: document.id.clone(),
        slug: document.slug.clone(),
        version: document.version,
        created_at: rfc3339(document.created_at),
        updated_at: rfc3339(document.updated_at),
        definition,
        warnings: Vec::new(),
    })
}

fn with(warnings: Vec<String>, document: StoredDocument) -> StoredDocument {
    StoredDocument {
        warnings,
        ..document
    }
}
