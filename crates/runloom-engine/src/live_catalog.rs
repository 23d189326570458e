//! The catalog of now: read by every request, replaced when providers change.

use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use async_trait::async_trait;

use crate::catalog::{Catalog, CatalogModel};
use runloom_ports::error::{Error, Result};

/// A catalog that can be replaced while it is read. A reader keeps the version that it loaded.
#[derive(Default)]
pub struct LiveCatalog {
    now: RwLock<Arc<Catalog>>,
    source: OnceLock<Weak<dyn CatalogSource>>,
}

/// The origin of the catalog.
#[async_trait]
pub trait CatalogSource: Send + Sync {
    /// Replaces the catalog if another process has changed its providers.
    async fn catch_up(&self) -> Result<()>;
}

impl std::fmt::Debug for LiveCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LiveCatalog").field(&self.now()).finish()
    }
}

impl LiveCatalog {
    /// The models of now.
    #[must_use]
    pub fn now(&self) -> Arc<Catalog> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces them.
    pub fn replace(&self, catalog: Catalog) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }

    /// Sets the source of changes. Only the first call has an effect.
    pub fn set_source(&self, source: Weak<dyn CatalogSource>) {
        let _ = self.source.set(source);
    }

    /// Like [`Catalog::resolve`], but asks the source for changes before it refuses an unknown name: another process
    /// may have just added the model.
    ///
    /// # Errors
    /// [`Error::InvalidModel`].
    pub async fn find(&self, slug: &str, model_id: Option<&str>) -> Result<Arc<CatalogModel>> {
        let found = self.now().resolve(slug, model_id);
        let Err(Error::InvalidModel { .. }) = &found else {
            return found;
        };
        let Some(source) = self.source.get().and_then(Weak::upgrade) else {
            return found;
        };
        source.catch_up().await?;
        // Resolved again in any case: another task may have replaced the catalog meanwhile.
        self.now().resolve(slug, model_id)
    }
}

impl From<Catalog> for LiveCatalog {
    fn from(catalog: Catalog) -> Self {
        Self {
            now: RwLock::new(Arc::new(catalog)),
            source: OnceLock::new(),
        }
    }
}
