//! `runloom models …`: list and test the models of the workspace.

mod model_probe;

use std::path::Path;

use clap::Subcommand;
use runloom_client::protocol::event::{Event, Terminal};
use runloom_client::{Client, RunRequest, ToolHandlers};

use crate::app;
use crate::config::{self, Environment};
use crate::config_file::ConfigFile;
use crate::exit::{Exit, Failure};
use crate::render::summary;
use crate::{connect, output};

/// `runloom models …`.
#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List the models of the workspace
    List {
        /// Print the catalog as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Call a model once; on failure, show request and response
    ///
    /// With a configuration (--config, or ./runloom.toml when no server is named) the provider is called from here.
    /// Otherwise a server starts a small run.
    Test {
        /// The model; default: the workspace's default model
        model: Option<String>,
        #[command(flatten)]
        file: ConfigFile,
        /// The workspace of the configuration; optional if there is only one
        #[arg(long, value_name = "SLUG")]
        workspace: Option<String>,
        /// Print one JSON object: the outcome, or the terminal event of the server's run
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(models: Models, environment: &Environment) -> Result<Exit, Failure> {
    match models {
        Models::List { json } => list(&connect::client(environment)?, json).await,
        Models::Test {
            model,
            file,
            workspace,
            json,
        } => {
            if !is_here(&file, environment) {
                return test(&connect::client(environment)?, model, json).await;
            }
            let mut config = config::load(&file.source(), environment)?;
            for list in app::model_lists::fill(&mut config).await {
                if let Err(error) = list.outcome {
                    output::note(format!("warning: provider {}: {error}", list.provider));
                }
            }
            let workspace = workspace
                .as_deref()
                .or_else(|| environment.get("MANTYX_WORKSPACE_SLUG"));
            model_probe::run(&config, workspace, model.as_deref(), json).await
        }
    }
}

/// Whether a configuration is available, and not only the address of a server.
fn is_here(file: &ConfigFile, environment: &Environment) -> bool {
    file.config.is_some()
        || environment.get("MANTYX_API_KEY").is_none() && Path::new(config::DEFAULT_FILE).exists()
}

async fn list(client: &Client, json: bool) -> Result<Exit, Failure> {
    let catalog = client.models().await?;
    if json {
        output::json(&catalog)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = catalog
        .models
        .iter()
        .map(|model| {
            let is_default = catalog.default_model_id.as_ref() == Some(&model.id);
            let window = model
                .context_window_tokens
                .map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
            let price = model.pricing.map_or_else(
                || "-".to_owned(),
                |price| format!("{} / {}", price.input_per_1m_usd, price.output_per_1m_usd),
            );
            let id = if is_default {
                format!("{} *", model.id)
            } else {
                model.id.clone()
            };
            vec![
                id,
                model.provider.clone(),
                window,
                price,
                model.label.clone(),
            ]
        })
        .collect();
    output::table(
        &["ID", "PROVIDER", "CONTEXT", "USD PER 1M IN/OUT", "LABEL"],
        &rows,
    )?;
    if catalog.default_model_id.is_some() {
        output::note("* the workspace's default");
    }
    Ok(Exit::Ok)
}

async fn test(client: &Client, model: Option<String>, json: bool) -> Result<Exit, Failure> {
    let mut request = RunRequest::prompt("Answer in one short sentence.", "Say hello.");
    request.spec.model_id = model;
    let end = client
        .run_with_tools(&request, &ToolHandlers::new())
        .await?;
    if json {
        output::line(end.event.raw.get())?;
    }
    match end.event.event.as_ref().and_then(Event::terminal) {
        Some(Terminal::Result(result)) => {
            if !json {
                output::line(&result.text)?;
                output::note(summary(
                    &result.tokens,
                    result.turns,
                    Some(&result.model),
                    result.cost_usd,
                ));
            }
            Ok(Exit::Ok)
        }
        Some(Terminal::Error(error)) => {
            let status = error
                .api_status
                .map_or_else(String::new, |status| format!(", HTTP {status}"));
            let message = format!(
                "{} ({}{status}): {}\nhint: with the server's configuration (--config FILE) this command shows what \
                 was sent and what came back",
                error.model.id,
                error.error_class.as_str(),
                error.error
            );
            Err(Failure::new(Exit::RunFailed, message))
        }
        Some(Terminal::Cancelled(_)) | None => Err(Failure::new(
            Exit::RunFailed,
            format!("the run ended with `{}`", end.event.kind),
        )),
    }
}
