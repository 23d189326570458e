//! What the configuration declares is kept in step at every start: created or updated, never silently deleted.

use anyhow::{Context, Result};
use runloom_core::ports::store::{DocumentKind, Expect, KeyUsage};
use runloom_core::service::Service;
use runloom_core::service::tenancy::{CreateKey, PutWorkspace};
use serde_json::{Value, json};

use crate::config::{self, ApiKeyConfig, Config, WorkspaceConfig};

/// Brings workspaces, their keys and their documents in step with the configuration.
pub(super) async fn declare(service: &Service, config: &Config) -> Result<()> {
    for workspace in &config.workspaces {
        let put = PutWorkspace {
            name: Some(workspace.name.clone()),
            without: None,
        };
        service
            .tenancy()
            .put_workspace(&workspace.slug, put, service.clock().now())
            .await
            .with_context(|| format!("cannot make the workspace {}", workspace.slug))?;
        for key in &workspace.api_keys {
            ensure_key(service, workspace, key).await?;
        }
        documents(service, workspace).await?;
    }
    Ok(())
}

/// Secrets first: the others may name them.
async fn documents(service: &Service, workspace: &WorkspaceConfig) -> Result<()> {
    for secret in &workspace.secrets {
        let body = json!({ "value": secret.value.expose() });
        put(
            service,
            workspace,
            DocumentKind::Secret,
            &secret.name,
            &body,
        )
        .await?;
    }
    for (kind, declared) in [
        (DocumentKind::Tool, &workspace.tools),
        (DocumentKind::Plugin, &workspace.plugins),
        (DocumentKind::ExternalAgent, &workspace.external_agents),
        (DocumentKind::Agent, &workspace.agents),
    ] {
        for document in declared {
            put(
                service,
                workspace,
                kind,
                &document.slug,
                &document.definition,
            )
            .await?;
        }
    }
    Ok(())
}

async fn put(
    service: &Service,
    workspace: &WorkspaceConfig,
    kind: DocumentKind,
    slug: &str,
    body: &Value,
) -> Result<()> {
    let registry = service.registry();
    let put = registry
        .put(&workspace.slug, kind, slug, body, Expect::Anything)
        .await
        .with_context(|| {
            let kind = kind.as_str().replace('_', " ");
            format!(
                "cannot make the {kind} {slug} of workspace {}",
                workspace.slug
            )
        })?;
    for warning in &put.document.warnings {
        tracing::warn!(
            workspace = workspace.slug,
            kind = kind.as_str(),
            slug,
            "{warning}"
        );
    }
    Ok(())
}

/// A key as the configuration describes it.
pub(super) fn create_key(key: &ApiKeyConfig) -> CreateKey {
    CreateKey {
        name: key.name.clone(),
        usage: match key.usage {
            config::KeyUsage::DeveloperApi => KeyUsage::DeveloperApi,
            config::KeyUsage::A2a => KeyUsage::A2a,
            config::KeyUsage::Mcp => KeyUsage::Mcp,
        },
        agent_ids: key.agent_ids.clone(),
        runs_per_minute: key.runs_per_minute,
    }
}

async fn ensure_key(
    service: &Service,
    workspace: &WorkspaceConfig,
    key: &ApiKeyConfig,
) -> Result<()> {
    let create = create_key(key);
    let now = service.clock().now();
    service
        .tenancy()
        .ensure_key(&workspace.slug, key.key.expose(), create, now)
        .await
        .with_context(|| {
            format!(
                "cannot make the key {} of workspace {}",
                key.name, workspace.slug
            )
        })?;
    Ok(())
}
