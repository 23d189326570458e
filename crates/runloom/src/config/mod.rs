//! The configuration: a TOML file, the environment over it, everything checked before anything starts.
//!
//! Reading order: [`types`] (what there is), `sections`, `workspaces`, `providers`, `documents` and `plugins` (how it is read), `document` (values that know where they
//! stand), `table` (reading with every error collected), `environment` (variables and secrets). All problems are reported at once.

mod document;
mod documents;
mod environment;
mod plugins;
mod problem;
mod providers;
mod sections;
mod table;
mod types;
mod workspaces;

use std::path::{Path, PathBuf};

pub use environment::Environment;
pub use problem::{Invalid, Problem};
pub use types::{
    ApiKeyConfig, BusConfig, CodeConfig, Config, DocumentConfig, FabricConfig, KeyUsage,
    LimitsConfig, LogConfig, LogFormat, ModelConfig, OauthAppConfig, OutboundConfig,
    PlatformConfig, PluginConfig, PricingConfig, ProviderConfig, QueueConfig, RunsConfig, Secret,
    SecretConfig, ServerConfig, StoreConfig, WorkspaceConfig,
};

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "runloom.toml";

/// Bytes of a configuration file; a larger one is a mistake.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Which file a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This one; it must exist.
    File(PathBuf),
    /// [`DEFAULT_FILE`] in the working folder if it exists, else only defaults and the environment.
    Discover,
    /// No file: defaults and the environment.
    Nothing,
}

/// Reads and checks a configuration.
///
/// # Errors
/// Every problem of the file and of the environment, at once.
pub fn load(source: &Source, environment: &Environment) -> Result<Config, Invalid> {
    match source {
        Source::File(path) => load_file(path, environment),
        Source::Discover if Path::new(DEFAULT_FILE).exists() => {
            load_file(Path::new(DEFAULT_FILE), environment)
        }
        Source::Discover | Source::Nothing => parse("", "configuration", environment),
    }
}

fn load_file(path: &Path, environment: &Environment) -> Result<Config, Invalid> {
    let name = path.display().to_string();
    let size = std::fs::metadata(path).map_or(0, |found| found.len());
    if size > MAX_FILE_BYTES {
        let message = format!(
            "the file has {size} bytes, more than the {MAX_FILE_BYTES} of any sensible configuration"
        );
        return Err(Invalid::single(&name, message));
    }
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &name, environment),
        Err(error) => Err(Invalid::single(&name, format!("cannot be read: {error}"))),
    }
}

/// Reads and checks a configuration's text; `name` stands before line numbers in problems.
///
/// # Errors
/// Every problem of the text and of the environment, at once.
pub fn parse(text: &str, name: &str, environment: &Environment) -> Result<Config, Invalid> {
    let context = table::Context::new(name, environment);
    let mut root = match document::parse(text) {
        Ok(root) => root,
        Err(errors) => {
            for (line, message) in errors {
                context.problem(document::Origin::Line(line), "", message);
            }
            return Err(context.into_invalid());
        }
    };
    document::overlay(&mut root, environment, &context);
    let config = sections::read(&root, &context);
    context.finish(config)
}

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;
