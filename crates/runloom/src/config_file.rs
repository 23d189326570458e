//! The option `--config`, which several commands have.

use std::path::PathBuf;

use clap::Args;

use crate::config::Source;

/// The configuration file of a command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file; default: ./runloom.toml if it exists, else only defaults and the environment
    #[arg(long, short, value_name = "FILE", env = "RUNLOOM_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

impl ConfigFile {
    pub(crate) fn source(&self) -> Source {
        self.config.clone().map_or(Source::Discover, Source::File)
    }
}
