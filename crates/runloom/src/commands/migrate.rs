//! `runloom migrate`.

use anyhow::Context;

use crate::cli::ConfigFile;
use crate::config::{self, Environment};
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) async fn run(file: &ConfigFile, environment: &Environment) -> Result<Exit, Failure> {
    let config = config::load(&file.source(), environment)?;
    let url = config.store.url();
    let done = runloom_store::migrate(&url)
        .await
        .with_context(|| format!("cannot migrate {url}"))?;
    if done.from == done.to {
        output::line(format!("{url} is at version {}, nothing to do", done.to))?;
    } else {
        output::line(format!(
            "{url} went from version {} to {}",
            done.from, done.to
        ))?;
    }
    Ok(Exit::Ok)
}
