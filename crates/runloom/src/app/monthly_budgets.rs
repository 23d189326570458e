//! Monthly budgets of the configuration.
//!
//! Budgets must be known before the first run is claimed. Budgets of keys refer to key ids, so workspaces and keys
//! with a budget are created here, before everything else that the configuration declares.

use anyhow::{Context, Result};
use runloom_engine::monthly_budgets::MonthlyBudgets;
use runloom_ports::clock::Clock;
use runloom_ports::store::MicroUsd;
use runloom_service::tenancy::{PutWorkspace, TenancyService};

use super::declare::create_key;
use crate::config::Config;

/// All monthly budgets.
pub(super) async fn monthly_budgets(
    config: &Config,
    tenancy: &TenancyService,
) -> Result<MonthlyBudgets> {
    let now = Clock.now();
    let mut purses = MonthlyBudgets::default();
    for workspace in &config.workspaces {
        let slug = &workspace.slug;
        if let Some(usd) = workspace.monthly_budget_usd {
            let cap = MicroUsd::from_usd(usd);
            purses.workspaces.insert(slug.clone(), cap);
        }
        for key in &workspace.api_keys {
            let Some(usd) = key.monthly_budget_usd else {
                continue;
            };
            let put = PutWorkspace {
                name: Some(workspace.name.clone()),
                without: None,
            };
            let made = async {
                tenancy.put_workspace(slug, put, now).await?;
                let secret = key.key.expose();
                tenancy.ensure_key(slug, secret, create_key(key), now).await
            };
            let id = made.await.with_context(|| {
                let name = &key.name;
                format!("cannot make the key {name} of workspace {slug}")
            })?;
            purses.keys.insert(id.to_string(), MicroUsd::from_usd(usd));
        }
    }
    Ok(purses)
}
