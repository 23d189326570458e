//! The catalog port: providers become models.

use runloom_protocol::definition::ProviderDefinition;

use crate::catalog::Catalog;
use runloom_ports::error::Result;

/// A provider stored by a workspace, with its secrets in clear.
#[derive(Debug, Clone)]
pub struct StoredProvider {
    /// Slug of the workspace.
    pub workspace: String,
    /// Its name in model ids.
    pub id: String,
    /// Its definition, with templates filled in.
    pub definition: ProviderDefinition,
}

/// Opens models.
///
/// Contract: connects to nothing and never blocks. A provider of the configuration takes precedence over a stored one
/// of the same name.
pub trait CatalogBuilder: Send + Sync {
    /// Checks that the provider can be opened.
    ///
    /// # Errors
    /// The reason, for the author of the definition. It never contains a secret.
    fn check(&self, provider: &StoredProvider) -> Result<()>;

    /// Every model of the configuration and of `stored`. A stored provider that cannot be opened is omitted and
    /// logged, so that the others stay usable.
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
