//! Applies what the configuration declares at every start: creates or updates it, never deletes.

use std::sync::Arc;

use anyhow::{Context, Result};
use runloom_ports::clock::Clock;
use runloom_ports::store::{DocumentKind, KeyUsage, Store};
use runloom_service::oauth::{CreateOauthApp, OAuthService, Visibility};
use runloom_service::registry::{PROJECT, RegistryService};
use runloom_service::tenancy::{CreateKey, PutWorkspace, TenancyService};
use serde_json::{Value, json};

use crate::config::{self, ApiKeyConfig, AppVisibility, Config, WorkspaceConfig};

/// Creates or updates workspaces with their keys, definitions and OAuth apps.
pub(super) async fn declare(
    (store, tenancy): (&Arc<dyn Store>, &TenancyService),
    registry: &RegistryService,
    config: &Config,
) -> Result<()> {
    let oauth = OAuthService::new(Arc::clone(store), tenancy);
    for workspace in &config.workspaces {
        let put = PutWorkspace {
            name: Some(workspace.name.clone()),
            without: None,
        };
        tenancy
            .put_workspace(&workspace.slug, put, Clock.now())
            .await
            .with_context(|| format!("cannot make the workspace {}", workspace.slug))?;
        for key in &workspace.api_keys {
            ensure_key(tenancy, workspace, key).await?;
        }
        documents(registry, workspace).await?;
        oauth_apps(&oauth, workspace).await?;
    }
    Ok(())
}

async fn oauth_apps(oauth: &OAuthService, workspace: &WorkspaceConfig) -> Result<()> {
    for app in &workspace.oauth_apps {
        let create = CreateOauthApp {
            name: app.name.clone(),
            visibility: match app.visibility {
                AppVisibility::Private => Visibility::Private,
                AppVisibility::Public => Visibility::Public,
            },
            redirect_uris: app.redirect_uris.clone(),
            scopes: app.scopes.clone(),
            client_credentials: app.allow_client_credentials,
        };
        let credential = (app.client_id.as_str(), app.client_secret.expose());
        oauth
            .ensure_app(&workspace.slug, credential, create, Clock.now())
            .await
            .with_context(|| {
                format!(
                    "cannot make the OAuth app {} of workspace {}",
                    app.client_id, workspace.slug
                )
            })?;
    }
    Ok(())
}

/// Secrets first, because the other definitions may name them.
async fn documents(registry: &RegistryService, workspace: &WorkspaceConfig) -> Result<()> {
    for secret in &workspace.secrets {
        let body = json!({ "value": secret.value.expose() });
        put(
            registry,
            workspace,
            DocumentKind::Secret,
            &secret.name,
            &body,
        )
        .await?;
    }
    if let Some(project) = &workspace.project {
        put(registry, workspace, DocumentKind::Project, PROJECT, project).await?;
    }
    for (kind, declared) in [
        (DocumentKind::Tool, &workspace.tools),
        (DocumentKind::Plugin, &workspace.plugins),
        (DocumentKind::ExternalAgent, &workspace.external_agents),
        (DocumentKind::Toolset, &workspace.toolsets),
        (DocumentKind::Agent, &workspace.agents),
    ] {
        for document in declared {
            put(
                registry,
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
    registry: &RegistryService,
    workspace: &WorkspaceConfig,
    kind: DocumentKind,
    slug: &str,
    body: &Value,
) -> Result<()> {
    let put = registry
        .declare(&workspace.slug, kind, slug, body)
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

/// A key of the configuration as the tenancy service takes it.
pub(super) fn create_key(key: &ApiKeyConfig) -> CreateKey {
    CreateKey {
        name: key.name.clone(),
        usage: match key.usage {
            config::KeyUsage::DeveloperApi => KeyUsage::DeveloperApi,
            config::KeyUsage::A2a => KeyUsage::A2a,
            config::KeyUsage::Mcp => KeyUsage::Mcp,
            config::KeyUsage::Approvals => KeyUsage::Approvals,
        },
        agent_ids: key.agent_ids.clone(),
        runs_per_minute: key.runs_per_minute,
        act_for_owners: key.act_for_owners,
    }
}

async fn ensure_key(
    tenancy: &TenancyService,
    workspace: &WorkspaceConfig,
    key: &ApiKeyConfig,
) -> Result<()> {
    let create = create_key(key);
    tenancy
        .ensure_key(&workspace.slug, key.key.expose(), create, Clock.now())
        .await
        .with_context(|| {
            format!(
                "cannot make the key {} of workspace {}",
                key.name, workspace.slug
            )
        })?;
    Ok(())
}
