//! `runloom migrate`.

use crate::cli::ConfigFile;
use crate::config::{self, Environment};
use crate::exit::{Exit, Failure};
use crate::{output, wiring};

pub(crate) async fn run(file: &ConfigFile, environment: &Environment) -> Result<Exit, Failure> {
    let config = config::load(&file.source(), environment)?;
    wiring::migrate(&config).await?;
    output::line(format!(
        "{} is at this version",
        config.store.sqlite.display()
    ))?;
    Ok(Exit::Ok)
}
