//! The configuration: a TOML file with the environment laid over it, checked before anything starts.
//!
//! One file per section has its type, its defaults and how it is read: `server`, `store`, `fabric`, `runs`, `limits`,
//! `ag_ui`, `outbound`, `code`, `log`, `platform`, `workspace` (with `api_key`, `oauth_app`, `definition`, `provider`),
//! `plugin` and `project`. Below them: `table_reader` (the protocol's typed reader with secrets), `source_document`
//! (TOML, overrides and line numbers) and `environment`. All problems are reported at once.

mod ag_ui;
mod api_key;
mod code;
mod definition;
mod environment;
mod fabric;
mod limits;
mod log;
mod oauth_app;
mod outbound;
mod platform;
mod plugin;
mod problem;
mod project;
mod provider;
mod runs;
mod server;
mod source_document;
mod store;
mod table_reader;
mod toolset;
mod workspace;

use std::path::{Path, PathBuf};

use runloom_project::OfferedModule;
use runloom_protocol::error::Issue;
use runloom_protocol::read::DocumentReader;
use runloom_service::AgUiSettings;

use self::source_document::SourceDocument;
use self::table_reader::{Surroundings, Table};

pub use api_key::{ApiKeyConfig, KeyUsage};
pub use code::CodeConfig;
pub use definition::{DefinitionConfig, SecretConfig};
pub use environment::Environment;
pub use fabric::{BusConfig, FabricConfig, QueueConfig};
pub use limits::LimitsConfig;
pub use log::{LogConfig, LogFormat};
pub use oauth_app::{AppVisibility, OauthAppConfig};
pub use outbound::OutboundConfig;
pub use platform::PlatformConfig;
pub use plugin::PluginConfig;
pub use problem::{Invalid, Problem};
pub use provider::{ModelConfig, PricingConfig, ProviderConfig};
pub use runs::RunsConfig;
pub use server::ServerConfig;
pub use store::StoreConfig;
pub use toolset::ToolsetConfig;
pub use workspace::WorkspaceConfig;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "runloom.toml";

/// Maximum bytes of a configuration file.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The whole configuration. `docs/configuration.md` has every key with its default.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`.
    pub server: ServerConfig,
    /// `[store]`.
    pub store: StoreConfig,
    /// `[fabric]`.
    pub fabric: FabricConfig,
    /// `[runs]`.
    pub runs: RunsConfig,
    /// `sessions.retention_days`: unused sessions are deleted after this many days; `None` = never.
    pub session_retention_days: Option<u32>,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[outbound]`.
    pub outbound: OutboundConfig,
    /// `[code]`.
    pub code: CodeConfig,
    /// `dashboard.enabled`: whether the dashboard is served.
    pub dashboard: bool,
    /// `[ag_ui]`.
    pub ag_ui: AgUiSettings,
    /// `[log]`.
    pub log: LogConfig,
    /// `[platform]`.
    pub platform: PlatformConfig,
    /// `[[workspaces]]`.
    pub workspaces: Vec<WorkspaceConfig>,
    /// `[[plugins]]`.
    pub plugins: Vec<PluginConfig>,
    /// `[[project_modules]]`.
    pub project_modules: Vec<OfferedModule>,
    /// Settings that are allowed but probably not meant.
    pub warnings: Vec<Problem>,
}

/// Which file a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This file; it must exist.
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
        let message =
            format!("the file has {size} bytes; a configuration has at most {MAX_FILE_BYTES}");
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
    let mut document =
        SourceDocument::parse(text, name).map_err(|problems| Invalid { problems })?;
    let mut problems = document.overlay(environment);
    let reader = DocumentReader::new(document.reader_options());
    let surroundings = Surroundings {
        environment,
        file: name,
    };
    let root = reader.root(&document.root).fields_or_empty();
    let mut config = read(&Table::new(root, surroundings));
    let findings = reader.into_findings();
    let located = |issue: Issue| Problem {
        place: document.place(&issue.path),
        path: issue.path,
        message: issue.message,
    };
    problems.extend(findings.errors.into_iter().map(located));
    if !problems.is_empty() {
        return Err(Invalid { problems });
    }
    config.warnings = findings.warnings.into_iter().map(located).collect();
    Ok(config)
}

fn read(root: &Table<'_>) -> Config {
    let server = server::read(&root.section("server"));
    let store = store::read(&root.section("store"));
    let fabric = fabric::read(&root.section("fabric"), &store);
    let platform = platform::read(&root.section("platform"));
    let config = Config {
        server,
        store,
        fabric,
        runs: runs::read(&root.section("runs")),
        session_retention_days: runs::read_sessions(&root.section("sessions")),
        limits: limits::read(&root.section("limits")),
        outbound: outbound::read(&root.section("outbound")),
        code: code::read(&root.section("code")),
        dashboard: dashboard(&root.section("dashboard")),
        ag_ui: ag_ui::read(&root.section("ag_ui")),
        log: log::read(&root.section("log")),
        workspaces: workspace::read_all(root, &platform),
        plugins: plugin::read_all(root),
        project_modules: project::read_modules(root),
        platform,
        warnings: Vec::new(),
    };
    code::refuse_disabled(root, &config);
    root.finish();
    config
}

fn dashboard(table: &Table<'_>) -> bool {
    let enabled = table.boolean("enabled").unwrap_or(true);
    table.finish();
    enabled
}

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod toolset_tests;
