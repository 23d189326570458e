//! The catalog port: providers become models.

use runloom_protocol::definition::ProviderDefinition;

use crate::catalog::Catalog;
use runloom_ports::error::Result;

/// A provider that a workspace keeps, its secrets in clear.
#[derive(Debug, Clone)]
pub struct StoredProvider {
    /// Slug of the workspace.
    pub workspace: String,
    /// Its name in model ids.
    pub id: String,
    /// What it is. Templates are filled in.
    pub definition: ProviderDefinition,
}

/// Opens models.
///
/// Contract: nothing is connected, nothing blocks. What the configuration declares goes before what is stored under the
/// same name.
pub trait CatalogBuilder: Send + Sync {
    /// Whether the provider can be opened.
    ///
    /// # Errors
    /// Why it cannot, in words for the one who wrote it; no secret is repeated.
    fn check(&self, provider: &StoredProvider) -> Result<()>;

    /// Every model of the configuration and of `stored`. A stored provider that cannot be opened is left out and
    /// logged: it must not take the others with it.
    fn build(&self, stored: &[StoredProvider]) -> Catalog;
}

/// A builder whose catalog never changes; it opens no stored provider.
#[derive(Debug, Clone, Default)]
pub struct FixedCatalog(pub Catalog);

impl CatalogBuilder for FixedCatalog {
    fn check(&self, _provider: &StoredProvider) -> Result<()> {
        Err(runloom_ports::error::Error::Conflict {
            message: "this server takes providers from its configuration only".to_owned(),
        })
    }

    fn build(&self, _stored: &[StoredProvider]) -> Catalog {
        self.0.clone()
    }
}
