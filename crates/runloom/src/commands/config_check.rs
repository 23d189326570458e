//! `runloom config check`.

use crate::app;
use crate::config::{Config, Environment, ProviderConfig};
use crate::config_file::ConfigFile;
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) fn run(file: &ConfigFile, environment: &Environment) -> Result<Exit, Failure> {
    let config = app::server_config::load(&file.source(), environment)?;
    for warning in &config.warnings {
        output::note(format!("warning: {warning}"));
    }
    output::line(summary(&config))?;
    Ok(Exit::Ok)
}

fn summary(config: &Config) -> String {
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    let of_workspaces = config
        .workspaces
        .iter()
        .flat_map(|workspace| &workspace.providers);
    let providers: Vec<&ProviderConfig> = config
        .platform
        .providers
        .iter()
        .chain(of_workspaces)
        .collect();
    let models = providers.iter().map(|provider| provider.models.len()).sum();
    format!(
        "ok: listens on {}, data in {}, {}, {}, {}",
        config.server.listen,
        config.store.shown(),
        count(config.workspaces.len(), "workspace"),
        count(providers.len(), "provider"),
        count(models, "model"),
    )
}
