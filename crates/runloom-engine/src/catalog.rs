//! The models that a workspace can run, and the many ways a client may name them.
//!
//! A name is tried by form, from the exact to the loose: catalog id, provider's id with model, kind of provider with
//! model, vendor's id alone. The first form that fits decides. In each form the workspace's own models go before the
//! platform's, and two that fit equally are an error that names both: a run never goes to a model that was guessed.

use std::collections::HashMap;
use std::sync::Arc;

use runloom_protocol::resource::{CatalogEntry, ModelCatalog};
use runloom_protocol::spelling::edit_distance;

pub use runloom_protocol::resource::{ModelSource as Source, Pricing};

use runloom_ports::error::{Error, Result};
use runloom_ports::model::Model;

/// Candidates in one refusal.
const CANDIDATES_MAX: usize = 5;

/// Characters of a name that are compared when candidates are looked for.
const COMPARED_MAX_CHARS: usize = 128;

/// One model.
#[derive(Debug, Clone)]
pub struct CatalogModel {
    /// Catalog id: `provider:<provider id>:<vendor model>` or `platform:<offering>`.
    pub id: String,
    /// For people.
    pub label: String,
    /// The provider's id in its workspace; of platform models the offering.
    pub provider_id: String,
    /// The kind of provider: `openai`, `anthropic`, …
    pub provider: String,
    /// The vendor's own name.
    pub vendor_model_id: String,
    /// Where it comes from.
    pub source: Source,
    /// Tokens that it can read.
    pub context_window: Option<u64>,
    /// What it costs, when that is known.
    pub pricing: Option<Pricing>,
    /// Whether it can think.
    pub reasoning: bool,
    /// Upper bound of one answer, when it has one.
    pub max_output_tokens: Option<u64>,
    /// How it is called.
    pub model: Arc<dyn Model>,
}

impl CatalogModel {
    /// The catalog id of a workspace's model.
    #[must_use]
    pub fn workspace_id(provider_id: &str, vendor_model_id: &str) -> String {
        format!("provider:{provider_id}:{vendor_model_id}")
    }

    /// The catalog id of a platform model.
    #[must_use]
    pub fn platform_id(offering: &str) -> String {
        format!("platform:{offering}")
    }

    fn entry(&self) -> CatalogEntry {
        CatalogEntry {
            id: self.id.clone(),
            label: self.label.clone(),
            provider: self.provider.clone(),
            vendor_model_id: self.vendor_model_id.clone(),
            source: self.source,
            context_window_tokens: self.context_window,
            pricing: self.pricing,
        }
    }

    fn fits(&self, form: Form, name: &str) -> bool {
        match form {
            Form::CatalogId => self.id == name,
            Form::Provider => {
                name.strip_prefix("provider:") == Some(&self.provider_id)
                    && self.source == Source::WorkspaceProvider
            }
            Form::ProviderAndModel => self.is_pair(&self.provider_id, name),
            Form::KindAndModel => self.is_pair(&self.provider, name),
            Form::VendorModel => self.vendor_model_id == name,
        }
    }

    /// `first/vendor` or `first:vendor`. Compared from the left, because vendors' ids contain both separators.
    fn is_pair(&self, first: &str, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(first) else {
            return false;
        };
        let vendor = rest.strip_prefix('/').or_else(|| rest.strip_prefix(':'));
        vendor == Some(&self.vendor_model_id)
    }

    fn distance(&self, name: &str) -> usize {
        let pair = format!("{}/{}", self.provider, self.vendor_model_id);
        let configured = format!("{}/{}", self.provider_id, self.vendor_model_id);
        [&self.id, &pair, &configured, &self.vendor_model_id]
            .into_iter()
            .map(|known| edit_distance(&known.to_lowercase(), name))
            .min()
            .unwrap_or(usize::MAX)
    }
}

/// How a model may be named, from the exact to the loose.
#[derive(Debug, Clone, Copy)]
enum Form {
    CatalogId,
    Provider,
    ProviderAndModel,
    KindAndModel,
    VendorModel,
}

const FORMS: [Form; 5] = [
    Form::CatalogId,
    Form::Provider,
    Form::ProviderAndModel,
    Form::KindAndModel,
    Form::VendorModel,
];

/// A workspace's own models.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceModels {
    /// In the order of the configuration.
    pub models: Vec<Arc<CatalogModel>>,
    /// What a spec without `modelId` gets, in any form.
    pub default: Option<String>,
}

/// Every model of the server.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// What the server offers to every workspace.
    pub platform: Vec<Arc<CatalogModel>>,
    /// What workspaces brought, by slug.
    pub workspaces: HashMap<String, WorkspaceModels>,
}

impl Catalog {
    /// The model that a client means. Without a name: the workspace's default, else its first own model, else the first
    /// platform model.
    ///
    /// # Errors
    /// [`Error::InvalidModel`] with candidates when the name fits nothing, or several.
    pub fn resolve(&self, slug: &str, model_id: Option<&str>) -> Result<Arc<CatalogModel>> {
        match model_id {
            Some(name) => self.named(slug, name),
            None => self.default_model(slug),
        }
    }

    /// What `GET /models` shows to a workspace: its own models, then the platform's.
    #[must_use]
    pub fn list(&self, slug: &str) -> ModelCatalog {
        ModelCatalog {
            models: self.all(slug).map(|model| model.entry()).collect(),
            default_model_id: self.default_model(slug).ok().map(|model| model.id.clone()),
        }
    }

    fn default_model(&self, slug: &str) -> Result<Arc<CatalogModel>> {
        let workspace = self.workspaces.get(slug);
        if let Some(name) = workspace.and_then(|workspace| workspace.default.as_deref()) {
            return self.named(slug, name);
        }
        let first = self.all(slug).next().cloned();
        first.ok_or_else(|| Error::InvalidModel {
            message: "This workspace has no models. Configure a provider, or give a `modelId`."
                .to_owned(),
            candidates: Vec::new(),
        })
    }

    fn named(&self, slug: &str, name: &str) -> Result<Arc<CatalogModel>> {
        for form in FORMS {
            for models in [self.own(slug), &self.platform] {
                let fitting: Vec<_> = models
                    .iter()
                    .filter(|model| model.fits(form, name))
                    .collect();
                match fitting.as_slice() {
                    [] => {}
                    [only] => return Ok(Arc::clone(only)),
                    several => return self.several(slug, name, several),
                }
            }
        }
        Err(self.unknown(slug, name))
    }

    /// Several models fit: the default decides if it is one of them.
    fn several(
        &self,
        slug: &str,
        name: &str,
        fitting: &[&Arc<CatalogModel>],
    ) -> Result<Arc<CatalogModel>> {
        let default = self
            .workspaces
            .get(slug)
            .and_then(|own| own.default.as_deref());
        if let Some(default) = default.filter(|&default| default != name)
            && let Ok(model) = self.named(slug, default)
            && fitting.iter().any(|fits| fits.id == model.id)
        {
            return Ok(model);
        }
        Err(Error::InvalidModel {
            message: format!("`{}` fits several models; give the whole id.", shown(name)),
            candidates: fitting
                .iter()
                .take(CANDIDATES_MAX)
                .map(|model| model.id.clone())
                .collect(),
        })
    }

    fn unknown(&self, slug: &str, name: &str) -> Error {
        let lower = shown(name).to_lowercase();
        let allowed = (lower.chars().count() / 3).max(2);
        let mut near: Vec<_> = self
            .all(slug)
            .map(|model| (model.distance(&lower), model))
            .filter(|(distance, model)| {
                *distance <= allowed || contains(&model.vendor_model_id, &lower)
            })
            .collect();
        near.sort_by_key(|(distance, _)| *distance);
        Error::InvalidModel {
            message: format!("This workspace has no model `{}`.", shown(name)),
            candidates: near
                .into_iter()
                .take(CANDIDATES_MAX)
                .map(|(_, model)| model.id.clone())
                .collect(),
        }
    }

    fn own(&self, slug: &str) -> &[Arc<CatalogModel>] {
        self.workspaces.get(slug).map_or(&[], |own| &own.models)
    }

    fn all(&self, slug: &str) -> impl Iterator<Item = &Arc<CatalogModel>> {
        self.own(slug).iter().chain(&self.platform)
    }
}

/// What an error repeats of a name: a client may send anything.
fn shown(name: &str) -> String {
    name.chars().take(COMPARED_MAX_CHARS).collect()
}

/// One name is a part of the other; very short parts would fit everything.
fn contains(vendor: &str, name: &str) -> bool {
    let vendor = vendor.to_lowercase();
    (name.len() >= 3 && vendor.contains(name)) || (vendor.len() >= 3 && name.contains(&vendor))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use runloom_ports::model::{Capabilities, ModelError, ModelRequest, ModelStream};
    use runloom_protocol::outcome::ErrorClass;

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

    fn model(id: String, provider_id: &str, kind: &str, vendor: &str) -> Arc<CatalogModel> {
        let platform = id.starts_with("platform:");
        Arc::new(CatalogModel {
            id,
            label: vendor.to_owned(),
            provider_id: provider_id.to_owned(),
            provider: kind.to_owned(),
            vendor_model_id: vendor.to_owned(),
            source: if platform {
                Source::PlatformOffering
            } else {
                Source::WorkspaceProvider
            },
            context_window: None,
            pricing: None,
            reasoning: false,
            max_output_tokens: None,
            model: Arc::new(Silent),
        })
    }

    fn own(provider_id: &str, kind: &str, vendor: &str) -> Arc<CatalogModel> {
        let id = CatalogModel::workspace_id(provider_id, vendor);
        model(id, provider_id, kind, vendor)
    }

    fn catalog(default: Option<&str>) -> Catalog {
        let acme = WorkspaceModels {
            models: vec![
                own("oa", "openai", "gpt-5.5"),
                own("oa", "openai", "gpt-5.5-mini"),
                own("ant", "anthropic", "claude-sonnet-5"),
                own("or", "openai-compatible", "meta/llama-4:free"),
                own("eu", "azure-openai", "shared"),
                own("us", "azure-openai", "shared"),
            ],
            default: default.map(str::to_owned),
        };
        Catalog {
            platform: vec![
                model(CatalogModel::platform_id("demo"), "demo", "demo", "demo"),
                model(
                    CatalogModel::platform_id("fast"),
                    "fast",
                    "openai",
                    "gpt-5.5",
                ),
            ],
            workspaces: HashMap::from([("acme".to_owned(), acme)]),
        }
    }

    fn refused(result: Result<Arc<CatalogModel>>) -> Vec<String> {
        match result {
            Err(Error::InvalidModel { candidates, .. }) => candidates,
            other => panic!("expected invalid_model, got {other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_name_finds_its_model() {
        let catalog = catalog(Some("oa/gpt-5.5"));
        for (name, id) in [
            ("provider:oa:gpt-5.5", "provider:oa:gpt-5.5"),
            ("platform:demo", "platform:demo"),
            ("platform:fast", "platform:fast"),
            ("provider:ant", "provider:ant:claude-sonnet-5"),
            ("provider:oa", "provider:oa:gpt-5.5"),
            (
                "provider:or:meta/llama-4:free",
                "provider:or:meta/llama-4:free",
            ),
            ("oa/gpt-5.5-mini", "provider:oa:gpt-5.5-mini"),
            ("oa:gpt-5.5-mini", "provider:oa:gpt-5.5-mini"),
            ("openai/gpt-5.5", "provider:oa:gpt-5.5"),
            ("openai:gpt-5.5", "provider:oa:gpt-5.5"),
            ("anthropic/claude-sonnet-5", "provider:ant:claude-sonnet-5"),
            (
                "openai-compatible/meta/llama-4:free",
                "provider:or:meta/llama-4:free",
            ),
            ("meta/llama-4:free", "provider:or:meta/llama-4:free"),
            ("claude-sonnet-5", "provider:ant:claude-sonnet-5"),
            ("gpt-5.5", "provider:oa:gpt-5.5"),
            ("eu/shared", "provider:eu:shared"),
            ("demo", "platform:demo"),
            ("demo/demo", "platform:demo"),
        ] {
            let found = catalog.resolve("acme", Some(name)).unwrap();
            assert_eq!(found.id, id, "{name}");
        }
    }

    #[test]
    fn without_a_name_the_default_then_the_first() {
        let id = |catalog: &Catalog, slug| catalog.resolve(slug, None).unwrap().id.clone();
        assert_eq!(
            id(&catalog(Some("ant/claude-sonnet-5")), "acme"),
            "provider:ant:claude-sonnet-5"
        );
        assert_eq!(id(&catalog(None), "acme"), "provider:oa:gpt-5.5");
        assert_eq!(id(&catalog(None), "unconfigured"), "platform:demo");
        assert!(refused(Catalog::default().resolve("acme", None)).is_empty());
    }

    #[test]
    fn a_workspace_does_not_see_the_models_of_another() {
        let catalog = catalog(None);
        assert_eq!(
            catalog.resolve("other", Some("gpt-5.5")).unwrap().id,
            "platform:fast"
        );
        refused(catalog.resolve("other", Some("claude-sonnet-5")));
        assert_eq!(catalog.list("other").models.len(), 2);
    }

    #[test]
    fn ambiguous_names_are_refused_with_what_they_may_mean() {
        let catalog = catalog(None);
        for name in ["shared", "azure-openai/shared"] {
            assert_eq!(
                refused(catalog.resolve("acme", Some(name))),
                ["provider:eu:shared", "provider:us:shared"],
                "{name}"
            );
        }
        assert_eq!(
            refused(catalog.resolve("acme", Some("provider:oa"))),
            ["provider:oa:gpt-5.5", "provider:oa:gpt-5.5-mini"]
        );
    }

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let catalog = catalog(None);
        let near = refused(catalog.resolve("acme", Some("claude-sonet-5")));
        assert_eq!(near, ["provider:ant:claude-sonnet-5"]);
        let near = refused(catalog.resolve("acme", Some("Platform:Demo")));
        assert_eq!(near[0], "platform:demo");
        let near = refused(catalog.resolve("acme", Some("gpt-5")));
        assert!(near.contains(&"provider:oa:gpt-5.5".to_owned()));
        assert!(near.len() <= 5);
        for far in ["", "zzzzzzzzzzzzzz", &"x".repeat(100_000)] {
            assert!(refused(catalog.resolve("acme", Some(far))).is_empty());
        }
    }

    #[test]
    fn a_default_that_is_gone_is_an_error_and_not_another_model() {
        let catalog = catalog(Some("oa/gone"));
        refused(catalog.resolve("acme", None));
        assert_eq!(catalog.list("acme").default_model_id, None);
    }

    #[test]
    fn the_list_shows_own_models_first_and_the_default() {
        let list = catalog(Some("oa/gpt-5.5")).list("acme");
        let ids: Vec<_> = list.models.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids[0], "provider:oa:gpt-5.5");
        assert_eq!(ids[ids.len() - 1], "platform:fast");
        assert_eq!(
            list.default_model_id.as_deref(),
            Some("provider:oa:gpt-5.5")
        );
    }
}
