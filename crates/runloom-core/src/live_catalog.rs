//! The catalog of now: read by every request, replaced when providers change.

use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::Catalog;

/// A catalog that can be replaced while it is read. Whoever holds an older one keeps it until it is done.
#[derive(Debug, Default)]
pub struct LiveCatalog(RwLock<Arc<Catalog>>);

impl LiveCatalog {
    /// The models of now.
    #[must_use]
    pub fn now(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces them.
    pub fn replace(&self, catalog: Catalog) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }
}

impl From<Catalog> for LiveCatalog {
    fn from(catalog: Catalog) -> Self {
        Self(RwLock::new(Arc::new(catalog)))
    }
}
