//! The models that a workspace can run, and how a client names them.
//!
//! A name is matched by form, from exact to loose: catalog id, provider id with model, provider kind with model,
//! vendor's model id. The first form with a match decides. In each form the workspace's own models take precedence
//! over the platform's. Two equal matches are an error that names both; the catalog never guesses.
//! A catalog id that is not listed is opened by its provider, if that provider allows it ([`UnlistedModels`]).

use std::collections::HashMap;
use std::sync::Arc;

use runloom_protocol::resource::{CatalogEntry, ModelCatalog};
use runloom_protocol::spelling::edit_distance;

pub use runloom_protocol::resource::{ModelSource as Source, Pricing};

use runloom_ports::error::{Error, Result};
use runloom_ports::model::Model;

/// Maximum candidates in one error message.
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
    /// Whether the workspace or the platform provides it.
    pub source: Source,
    /// Tokens that it can read.
    pub context_window: Option<u64>,
    /// Price, if known.
    pub pricing: Option<Pricing>,
    /// Whether it can think.
    pub reasoning: bool,
    /// Maximum output tokens of one call, if limited.
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

    /// Whether the name is `first/vendor` or `first:vendor`. Compared from the left, because vendors' ids contain
    /// both separators.
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

/// A name, and the form in which it is read.
#[derive(Clone, Copy)]
struct Named<'a> {
    form: Form,
    name: &'a str,
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
    /// The providers that run models beyond `models`.
    pub unlisted: Vec<Arc<dyn UnlistedModels>>,
    /// Model of a spec without `modelId`, in any form of name.
    pub default: Option<String>,
}

/// A workspace's provider that runs vendor models which the catalog does not list.
pub trait UnlistedModels: std::fmt::Debug + Send + Sync {
    /// The provider's id in its workspace.
    fn provider_id(&self) -> &str;

    /// Opens a model by the vendor's name. Makes no connection: whether the vendor has it shows in the first call.
    ///
    /// # Errors
    /// [`Error::InvalidModel`] if no vendor can have a model of that name.
    fn open(&self, vendor_model_id: &str) -> Result<Arc<CatalogModel>>;
}

/// Every model of the server.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Models that the server offers to every workspace.
    pub platform: Vec<Arc<CatalogModel>>,
    /// Models of workspaces, by slug.
    pub workspaces: HashMap<String, WorkspaceModels>,
}

impl Catalog {
    /// Resolves a name. Without a name: the workspace's default, else its first own model, else the first platform
    /// model.
    ///
    /// # Errors
    /// [`Error::InvalidModel`] with candidates when the name matches no model or several.
    pub fn resolve(&self, slug: &str, model_id: Option<&str>) -> Result<Arc<CatalogModel>> {
        match model_id {
            Some(name) => self.named(slug, name),
            None => self.default_model(slug),
        }
    }

    /// The response of `GET /models` for a workspace: its own models, then the platform's.
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
                    several => return self.several(slug, Named { form, name }, several),
                }
            }
        }
        match self.unlisted(slug, name) {
            Some(opened) => opened,
            None => Err(self.unknown(slug, name)),
        }
    }

    /// The model `provider:<id>:<vendor model>` of a provider that runs unlisted models.
    fn unlisted(&self, slug: &str, name: &str) -> Option<Result<Arc<CatalogModel>>> {
        let (provider_id, vendor) = name.strip_prefix("provider:")?.split_once(':')?;
        let providers = &self.workspaces.get(slug)?.unlisted;
        let provider = providers
            .iter()
            .find(|one| one.provider_id() == provider_id)?;
        Some(provider.open(vendor))
    }

    /// Several models fit. For `provider:<id>` the default decides if it is one of them; every other form is an error.
    fn several(
        &self,
        slug: &str,
        named: Named<'_>,
        fitting: &[&Arc<CatalogModel>],
    ) -> Result<Arc<CatalogModel>> {
        let Named { form, name } = named;
        let default = self
            .workspaces
            .get(slug)
            .and_then(|own| own.default.as_deref());
        if let Form::Provider = form
            && let Some(default) = default.filter(|&default| default != name)
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
        if near.is_empty() {
            // Nothing is similar: list what there is.
            near = self.all(slug).map(|model| (0, model)).collect();
        }
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

/// The name as an error message repeats it, cut and cleaned: a client may send anything.
fn shown(name: &str) -> String {
    name.chars().take(COMPARED_MAX_CHARS).collect()
}

/// Whether one name is a part of the other. Very short parts are not compared, because they would match everything.
fn contains(vendor: &str, name: &str) -> bool {
    let vendor = vendor.to_lowercase();
    (name.len() >= 3 && vendor.contains(name)) || (vendor.len() >= 3 && name.contains(&vendor))
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
