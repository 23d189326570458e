//! `runloom dev`: a server with everything in one process and one folder.

use std::path::{Path, PathBuf};

use clap::Args;
use runloom_ports::secret::Secret;

use crate::config::{
    self, ApiKeyConfig, Config, DEFAULT_FILE, Environment, KeyUsage, Source, WorkspaceConfig,
};
use crate::data_dir::{DEFAULT, DataDir, DevCredentials};
use crate::exit::{Exit, Failure};
use crate::{output, telemetry};

/// `runloom dev`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  runloom dev
  runloom dev --listen 127.0.0.1:0 --json   prints {\"url\",\"workspace\",\"apiKey\",\"adminToken\"} when it is ready
  runloom dev --config runloom.toml         with the providers of a configuration

The key, the admin token and the master key are made at the first start and kept in the data folder.
DATABASE_URL, AMQP_URL and REDIS_URL are ignored; a PostgreSQL that RUNLOOM_STORE__URL or the
configuration names is used.")]
pub(crate) struct Dev {
    /// HOST:PORT to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Folder for data and keys
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT, env = "RUNLOOM_DATA_DIR")]
    data_dir: PathBuf,
    /// Print one JSON object when the server is ready
    #[arg(long)]
    json: bool,
    /// A configuration with providers, workspaces and limits; ./runloom.toml is read only when it is named
    #[arg(long, short, value_name = "FILE", env = "RUNLOOM_CONFIG")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(dev: Dev, environment: &Environment) -> Result<Exit, Failure> {
    // Only a named file: ./runloom.toml is for `serve`.
    let source = dev.config.map_or(Source::Nothing, Source::File);
    let mut config = config::load(&source, &environment.ignoring_shared())?;
    let ignored: Vec<&str> = environment.shared().collect();
    if !ignored.is_empty() {
        output::note(format!(
            "note: `dev` ignores {}: it keeps everything in {} unless RUNLOOM_STORE__URL or --config says otherwise",
            ignored.join(", "),
            dev.data_dir.display()
        ));
    }
    if source == Source::Nothing && Path::new(DEFAULT_FILE).exists() {
        output::note(format!(
            "note: `dev` does not read ./{DEFAULT_FILE}; name it if you want it: runloom dev --config {DEFAULT_FILE}"
        ));
    }
    let folder = DataDir::new(&dev.data_dir);
    folder.create()?;
    let mut credentials = folder.credentials_or_new()?;
    if config.server.master_key.is_none() {
        config.server.master_key = Some(folder.master_key()?);
    }
    prepare(&mut config, &folder, &mut credentials);
    if let Some(listen) = dev.listen {
        config.server.listen = listen;
    }
    telemetry::init(&config.log);
    let with_dashboard = config.dashboard;
    super::serve::until_stopped(config, crate::app::Role::All, |address| {
        credentials.url = format!("http://{address}");
        folder.keep(&credentials)?;
        announce(&credentials, with_dashboard, dev.json)
    })
    .await
}

/// Adds to a configuration what `dev` needs: the data folder, the demo model, a workspace with a key.
fn prepare(config: &mut Config, folder: &DataDir, credentials: &mut DevCredentials) {
    config.store.sqlite = folder.database();
    config.platform.demo.get_or_insert(true);
    match &config.server.admin_token {
        Some(token) => token.expose().clone_into(&mut credentials.admin_token),
        None => config.server.admin_token = Some(Secret::new(&credentials.admin_token)),
    }
    let key = ApiKeyConfig {
        act_for_owners: false,
        name: "dev".to_owned(),
        key: Secret::new(&credentials.api_key),
        usage: KeyUsage::DeveloperApi,
        agent_ids: Vec::new(),
        runs_per_minute: None,
        monthly_budget_usd: None,
    };
    match config
        .workspaces
        .iter_mut()
        .find(|workspace| workspace.slug == credentials.workspace)
    {
        Some(workspace) => workspace.api_keys.push(key),
        None => config.workspaces.push(WorkspaceConfig {
            project: None,
            slug: credentials.workspace.clone(),
            name: "Demo".to_owned(),
            default_model: None,
            monthly_budget_usd: None,
            api_keys: vec![key],
            providers: Vec::new(),
            secrets: Vec::new(),
            agents: Vec::new(),
            tools: Vec::new(),
            plugins: Vec::new(),
            external_agents: Vec::new(),
            toolsets: Vec::new(),
            process_toolsets: Vec::new(),
            oauth_apps: Vec::new(),
        }),
    }
}

fn announce(credentials: &DevCredentials, with_dashboard: bool, json: bool) -> Result<(), Failure> {
    if json {
        output::json(credentials)?;
        return Ok(());
    }
    let DevCredentials {
        url,
        workspace,
        api_key,
        admin_token,
    } = credentials;
    output::line(format!("listening on {url}"))?;
    if with_dashboard {
        let link = dashboard_link(credentials);
        output::line(format!("\nThe dashboard, signed in:\n\n  {link}"))?;
    }
    output::line(format!(
        "
  workspace    {workspace}
  API key      {api_key}
  admin token  {admin_token}

In another terminal, in this folder:

  runloom run \"hello\"

From anywhere:

  {}

For an SDK:

  export MANTYX_BASE_URL={url} MANTYX_WORKSPACE_SLUG={workspace} MANTYX_API_KEY={api_key}
",
        curl_line(url, workspace, api_key)
    ))?;
    Ok(())
}

/// The link to the dashboard. The key is behind `#`, which browsers do not send to the server.
fn dashboard_link(credentials: &DevCredentials) -> String {
    let DevCredentials {
        url,
        workspace,
        api_key,
        ..
    } = credentials;
    format!("{url}/#workspace={workspace}&key={api_key}")
}

/// A shell command that starts a run and streams it.
fn curl_line(url: &str, workspace: &str, key: &str) -> String {
    let runs = format!("{url}/api/v1/workspaces/{workspace}/agent-runs");
    let body = r#"{"systemPrompt":"You are helpful.","prompt":"hello","modelId":"platform:demo"}"#;
    format!(
        "curl -s {runs} -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{body}' \
         | sed 's/.*\"runId\" *: *\"\\([^\"]*\\)\".*/\\1/' \
         | xargs -I RUN curl -sN {runs}/RUN/stream -H 'Authorization: Bearer {key}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(text: &str, variables: &[(&str, &str)]) -> (Config, DevCredentials) {
        let environment = variables.iter().copied().collect();
        let mut config = config::parse(text, "f.toml", &environment).unwrap();
        let mut credentials = DevCredentials {
            url: String::new(),
            workspace: "demo".to_owned(),
            api_key: "mantyx_k".to_owned(),
            admin_token: "own".to_owned(),
        };
        prepare(&mut config, &DataDir::new("d"), &mut credentials);
        (config, credentials)
    }

    #[test]
    fn dev_adds_workspace_key_token_and_demo_model() {
        let (config, _) = prepared("", &[]);
        assert_eq!(config.workspaces[0].slug, "demo");
        assert_eq!(config.workspaces[0].api_keys[0].key.expose(), "mantyx_k");
        assert_eq!(config.server.admin_token.unwrap().expose(), "own");
        assert_eq!(config.platform.demo, Some(true));
        assert_eq!(config.store.sqlite, std::path::Path::new("d/runloom.db"));
    }

    #[test]
    fn dev_keeps_the_operators_settings() {
        let text = "[platform]\ndemo = false\n[[workspaces]]\nslug = \"demo\"\nname = \"Mine\"\n";
        let (config, credentials) =
            prepared(text, &[("RUNLOOM_ADMIN_TOKEN", "theirs, and long enough")]);
        assert_eq!(
            (config.workspaces.len(), config.workspaces[0].name.as_str()),
            (1, "Mine")
        );
        assert_eq!(config.platform.demo, Some(false));
        assert_eq!(credentials.admin_token, "theirs, and long enough");
    }
}
