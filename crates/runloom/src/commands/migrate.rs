//! `runloom migrate`.

use anyhow::Context;
use clap::Args;
use runloom_store::DataLoss;

use crate::config::{self, Environment};
use crate::config_file::ConfigFile;
use crate::exit::{Exit, Failure};
use crate::output;

/// `runloom migrate`.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    file: ConfigFile,
    /// SQLite: continue although a side file is missing or damaged; the writes in it are lost
    #[arg(long)]
    accept_data_loss: bool,
}

pub(crate) async fn run(migrate: &Migrate, environment: &Environment) -> Result<Exit, Failure> {
    let config = config::load(&migrate.file.source(), environment)?;
    let shown = config.store.shown();
    let data_loss = match migrate.accept_data_loss {
        true => DataLoss::Accept,
        false => DataLoss::Refuse,
    };
    let done = runloom_store::migrate(&config.store.url(), data_loss)
        .await
        .with_context(|| format!("cannot migrate {shown}"))?;
    for lost in &done.lost {
        output::line(format!("lost: {lost}"))?;
    }
    if done.from == done.to {
        output::line(format!("{shown} is at version {}, nothing to do", done.to))?;
    } else {
        output::line(format!(
            "{shown} went from version {} to {}",
            done.from, done.to
        ))?;
    }
    Ok(Exit::Ok)
}
