//! Stored providers and the catalog.

use std::collections::BTreeMap;

use async_trait::async_trait;
use runloom_protocol::definition::ProviderDefinition;
use serde_json::Value;

use super::RegistryService;
use crate::error::{Chain, Error, Result};
use runloom_engine::catalog_builder::StoredProvider;
use runloom_engine::live_catalog::CatalogSource;
use runloom_engine::metrics::METRICS;
use runloom_ports::store::{DocumentKind, WorkspaceRow};
use runloom_ports::tools::fill_secrets;

#[async_trait]
impl CatalogSource for RegistryService {
    async fn catch_up(&self) -> runloom_ports::error::Result<()> {
        Ok(Self::catch_up(self).await?)
    }
}

impl RegistryService {
    /// Builds the catalog anew from the configuration and the stored providers.
    ///
    /// # Errors
    /// When the store fails; the catalog stays as it was.
    pub async fn refresh_catalog(&self) -> Result<()> {
        let mut seen = self.building.lock().await;
        // Read first: what changes while the catalog is built makes the stamp old, not the catalog.
        let stamp = self.store.providers_stamp().await?;
        let mut stored = Vec::new();
        for workspace in self.store.workspaces().await? {
            let kind = DocumentKind::Provider;
            for document in self.store.documents(workspace.no, kind).await? {
                let opened = match self.read::<ProviderDefinition>(&workspace, &document) {
                    Ok(definition) => self.filled(&workspace, &document.slug, definition).await,
                    Err(error) => Err(error),
                };
                stored.extend(usable((&workspace.slug, &document.slug), opened)?);
            }
        }
        self.catalog.replace(self.builder.build(&stored));
        *seen = stamp;
        METRICS.catalogs_built.add(1);
        Ok(())
    }

    /// Builds the catalog anew if providers or secrets have changed since.
    ///
    /// # Errors
    /// When the store fails; the catalog stays as it was.
    pub async fn catch_up(&self) -> Result<()> {
        let stamp = self.store.providers_stamp().await?;
        if *self.building.lock().await == stamp {
            return Ok(());
        }
        self.refresh_catalog().await
    }

    pub(super) async fn check_provider(
        &self,
        workspace: &WorkspaceRow,
        slug: &str,
        definition: &Value,
    ) -> Result<()> {
        let definition: ProviderDefinition =
            serde_json::from_value(definition.clone()).map_err(Error::internal)?;
        let provider = self.filled(workspace, slug, definition).await?;
        Ok(self.builder.check(&provider)?)
    }

    /// The provider with its secrets filled in. Its adapter keeps them in memory, as it would keep a key of the
    /// configuration.
    async fn filled(
        &self,
        workspace: &WorkspaceRow,
        slug: &str,
        mut definition: ProviderDefinition,
    ) -> Result<StoredProvider> {
        let workspace = workspace.slug.as_str();
        if let Some(key) = &mut definition.api_key {
            *key = fill_secrets(self, workspace, key)
                .await?
                .expose()
                .to_owned();
        }
        let mut headers = BTreeMap::new();
        for (name, value) in definition.headers {
            let value = fill_secrets(self, workspace, &value).await?;
            headers.insert(name, value.expose().to_owned());
        }
        definition.headers = headers;
        for value in definition.options.values_mut() {
            if let Value::String(text) = value {
                *text = fill_secrets(self, workspace, text)
                    .await?
                    .expose()
                    .to_owned();
            }
        }
        Ok(StoredProvider {
            workspace: workspace.to_owned(),
            id: slug.to_owned(),
            definition,
        })
    }
}

/// The provider, unless something is wrong with it. When the store is away nothing is: without the provider the
/// catalog would be poorer than what is stored, until something is changed.
fn usable(
    (workspace, provider): (&str, &str),
    opened: Result<StoredProvider>,
) -> Result<Option<StoredProvider>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error @ Error::Unavailable { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(workspace, provider, error = %Chain(&error), "a stored provider cannot be used");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runloom_ports::sealer::SealError;
    use runloom_ports::store::{StoreError, StoreErrorKind};

    #[test]
    fn a_provider_is_left_out_for_its_own_faults_and_not_for_the_stores() {
        let place = ("acme", "script");
        for own in [
            Error::invalid("apiKey", "there is no secret `KEY`"),
            Error::internal(SealError::Unreadable),
        ] {
            assert!(matches!(usable(place, Err(own)), Ok(None)));
        }
        let failed = |kind| StoreError {
            kind,
            message: "cannot read".to_owned(),
            source: None,
        };
        // One row that cannot be read costs one provider; a store that is away costs nothing but time.
        let broken = usable(place, Err(failed(StoreErrorKind::Broken).into()));
        assert!(matches!(broken, Ok(None)));
        assert!(usable(place, Err(failed(StoreErrorKind::Unavailable).into())).is_err());
    }
}
