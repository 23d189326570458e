//! `runloom migrate`.

use anyhow::Context;

use crate::cli::ConfigFile;
use crate::config::{self, Environment};
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) async fn run(file: &ConfigFile, environment: &Environment) -> Result<Exit, Failure> {
    let config = config::load(&file.source(), environment)?;
    let shown = config.store.shown();
    let done = runloom_store::migrate(&config.store.url())
        .await
        .with_context(|| format!("cannot migrate {shown}"))?;
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
