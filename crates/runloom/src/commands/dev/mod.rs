//! `runloom dev`: a server with everything in one process and one folder.

mod found_providers;
mod screen;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use runloom_client::{Client, Options, RetryPolicy};
use runloom_ports::secret::Secret;

use self::found_providers::FoundProviders;
use self::screen::Announcement;
use crate::app;
use crate::config::{
    self, ApiKeyConfig, Config, DEFAULT_FILE, Environment, KeyUsage, Source, WorkspaceConfig,
};
use crate::data_dir::{DEFAULT, DataDir, DevCredentials};
use crate::exit::{Exit, Failure};
use crate::{output, telemetry};

/// The model that needs no key.
const DEMO_MODEL: &str = "platform:demo";

/// How long a stopping `dev` waits for step boundaries; Ctrl-C ends it within two seconds.
const MAX_DRAIN_MS: u64 = 1_000;

/// Timeout of the question whether a server answers at an address.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// `runloom dev`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  runloom dev
  runloom dev --base-url http://127.0.0.1:11434/v1   with the models of Ollama, vLLM, LM Studio, …
  OPENAI_API_KEY=sk-… runloom dev                    with the models of OpenAI
  runloom dev --model openai/gpt-5.5                 another default model, also at later starts
  runloom dev --port 0 --json                        prints {\"url\",\"workspace\",\"apiKey\",\"adminToken\"}
  runloom dev --config runloom.toml                  with the providers of a configuration

Providers of the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, XAI_API_KEY,
OLLAMA_HOST, and AWS_ACCESS_KEY_ID with AWS_REGION. --offline ignores them.

The key, the admin token and the master key are made at the first start and kept in the data folder.
DATABASE_URL, AMQP_URL and REDIS_URL are ignored; a PostgreSQL that RUNLOOM_STORE__URL or the
configuration names is used. It logs warnings and errors; RUNLOOM_LOG__LEVEL=info logs more.")]
pub(crate) struct Dev {
    /// HOST:PORT to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Port to listen on at 127.0.0.1; 0 takes a free one
    #[arg(long, short, conflicts_with = "listen")]
    port: Option<u16>,
    /// Open the dashboard in the browser
    #[arg(long)]
    open: bool,
    /// An OpenAI-compatible server whose models are offered as local/MODEL
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The variable with the key of --base-url, if it needs one
    #[arg(long, value_name = "VARIABLE", requires = "base_url")]
    api_key_env: Option<String>,
    /// The default model; it is kept for later starts
    #[arg(long, short)]
    model: Option<String>,
    /// Use no provider of the environment
    #[arg(long)]
    offline: bool,
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
    let started = Instant::now();
    // Only a named file: ./runloom.toml is for `serve`.
    let source = dev.config.clone().map_or(Source::Nothing, Source::File);
    let mut config = config::load(&source, &environment.ignoring_shared())?;
    note_ignored(&dev, &source, environment);
    let folder = DataDir::new(&dev.data_dir);
    folder.create()?;
    let mut credentials = folder.credentials_or_new()?;
    if config.server.master_key.is_none() {
        config.server.master_key = Some(folder.master_key()?);
    }
    prepare(&mut config, &folder, &mut credentials);
    if config.log.level == "info" && environment.get("RUNLOOM_LOG__LEVEL").is_none() {
        "warn".clone_into(&mut config.log.level);
    }
    if let Some(listen) = listen_address(&dev) {
        config.server.listen = listen;
    }
    telemetry::init(&config.log);
    let found = find_providers(&dev, &mut config, &credentials.workspace, environment)?;
    let lists = app::model_lists::fill(&mut config).await;
    let model = default_model(&dev, &mut config, &mut credentials)?;
    let announcement = Announcement {
        found: found.describe(&lists),
        offered: first_own_model(&config, &credentials.workspace),
        model,
        with_dashboard: config.dashboard,
        data_dir: dev.data_dir.clone(),
    };
    let listen = config.server.listen.clone();
    let earlier_url = credentials.url.clone();
    let ended = super::serve::until_stopped(config, app::Role::All, |address| {
        credentials.url = format!("http://{}", screen::reachable(address));
        folder.keep(&credentials)?;
        if dev.json {
            output::json(&credentials)?;
        } else {
            announcement.print(&credentials, started.elapsed())?;
        }
        if dev.open && announcement.with_dashboard {
            screen::open_browser(&screen::dashboard_link(&credentials));
        }
        Ok(())
    })
    .await;
    match ended {
        Err(failure) => Err(with_advice(failure, &listen, &earlier_url).await),
        ended => ended,
    }
}

fn listen_address(dev: &Dev) -> Option<String> {
    let at_port = dev.port.map(|port| format!("127.0.0.1:{port}"));
    dev.listen.clone().or(at_port)
}

fn note_ignored(dev: &Dev, source: &Source, environment: &Environment) {
    let ignored: Vec<&str> = environment.shared().collect();
    if !ignored.is_empty() {
        output::note(format!(
            "note: `dev` ignores {}: it keeps everything in {} unless RUNLOOM_STORE__URL or --config says otherwise",
            ignored.join(", "),
            dev.data_dir.display()
        ));
    }
    if *source == Source::Nothing && Path::new(DEFAULT_FILE).exists() {
        output::note(format!(
            "note: `dev` does not read ./{DEFAULT_FILE}; name it if you want it: runloom dev --config {DEFAULT_FILE}"
        ));
    }
}

/// Adds the providers of the environment and of `--base-url` to the workspace of `dev`.
fn find_providers(
    dev: &Dev,
    config: &mut Config,
    slug: &str,
    environment: &Environment,
) -> Result<FoundProviders, Failure> {
    let mut found = FoundProviders::default();
    if let Some(url) = &dev.base_url {
        let key = dev.api_key_env.as_deref();
        found
            .add_local(url, key, environment)
            .map_err(|message| Failure::new(Exit::Usage, message))?;
    }
    if !dev.offline {
        found.add_from(environment);
    }
    let declared = |id: &str| {
        let of_workspaces = config.workspaces.iter().flat_map(|known| &known.providers);
        let mut all = config.platform.providers.iter().chain(of_workspaces);
        all.any(|provider| provider.id == id)
    };
    found.providers.retain(|provider| !declared(&provider.id));
    if let Some(workspace) = config
        .workspaces
        .iter_mut()
        .find(|known| known.slug == slug)
    {
        workspace.providers.extend(found.providers.iter().cloned());
    }
    Ok(found)
}

/// The models of the workspace of `dev`, as `<provider>/<model>`.
fn own_models<'a>(config: &'a Config, slug: &str) -> impl Iterator<Item = String> + 'a {
    let workspace = config.workspaces.iter().find(|known| known.slug == slug);
    let providers = workspace.into_iter().flat_map(|known| &known.providers);
    providers.flat_map(|provider| {
        let models = found_providers::preferred_first(provider);
        models.map(move |model| format!("{}/{}", provider.id, model.id))
    })
}

fn first_own_model(config: &Config, slug: &str) -> Option<String> {
    own_models(config, slug).next()
}

/// Decides the default model: `--model`, else the one of the file, else the kept one, else the first that was found.
/// The kept one stays when a provider is added, so that the default never changes by itself.
fn default_model(
    dev: &Dev,
    config: &mut Config,
    credentials: &mut DevCredentials,
) -> Result<String, Failure> {
    let slug = credentials.workspace.clone();
    let own: Vec<String> = own_models(config, &slug).collect();
    let has_demo = config.platform.demo == Some(true);
    let is_offered = |model: &str| {
        model.starts_with("platform:")
            || model.starts_with("provider:")
            || own.iter().any(|known| known == model)
    };
    if let Some(model) = dev.model.as_deref().filter(|model| !is_offered(model)) {
        let mut known = own.clone();
        known.extend(has_demo.then(|| DEMO_MODEL.to_owned()));
        known.truncate(20);
        let message = format!(
            "--model: no model `{model}`; there are: {}",
            known.join(", ")
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let Some(workspace) = config
        .workspaces
        .iter_mut()
        .find(|known| known.slug == slug)
    else {
        return Ok(DEMO_MODEL.to_owned());
    };
    if let (None, Some(model)) = (&dev.model, &workspace.default_model) {
        return Ok(model.clone());
    }
    let kept = credentials.default_model.clone();
    if let Some(gone) = kept
        .as_deref()
        .filter(|model| dev.model.is_none() && !is_offered(model))
    {
        // The kept name stays: the provider may be back at the next start.
        output::note(format!(
            "note: the default model {gone} is not offered now (its key or server is missing); this start uses {DEMO_MODEL}"
        ));
        workspace.default_model = Some(DEMO_MODEL.to_owned());
        return Ok(DEMO_MODEL.to_owned());
    }
    let first = own.first().cloned();
    let chosen = dev.model.clone().or(kept).or(first);
    let chosen = chosen.unwrap_or_else(|| DEMO_MODEL.to_owned());
    workspace.default_model = (has_demo || chosen != DEMO_MODEL).then(|| chosen.clone());
    credentials.default_model = Some(chosen.clone());
    Ok(chosen)
}

/// Adds to a failed start where another server runs, and what to do.
async fn with_advice(mut failure: Failure, listen: &str, earlier_url: &str) -> Failure {
    let Some(message) = &mut failure.message else {
        return failure;
    };
    let port_is_taken = message.starts_with("cannot listen on");
    if !port_is_taken && !message.contains("is in use by another Runloom process") {
        return failure;
    }
    if !earlier_url.is_empty() && is_runloom(earlier_url).await {
        message.push_str(&format!(
            "\n`runloom dev` runs in this folder already, at {earlier_url}: use that one, or stop it with Ctrl-C. \
             For a second one: runloom dev --data-dir OTHER --port 0"
        ));
    } else if port_is_taken {
        let holder = match is_runloom(&format!("http://{listen}")).await {
            true => "a Runloom server of another folder",
            false => "another program",
        };
        message.push_str(&format!(
            "\nThe port belongs to {holder}. Choose another: runloom dev --port 8788 (0 takes a free one)"
        ));
    }
    failure
}

/// Whether a Runloom server answers at an address.
async fn is_runloom(url: &str) -> bool {
    let options = Options {
        connect_timeout: PROBE_TIMEOUT,
        request_timeout: PROBE_TIMEOUT,
        retry: RetryPolicy::none(),
        ..Options::default()
    };
    match Client::with_options(url, "none", "none", options) {
        Ok(client) => client.ready().await.is_ok(),
        Err(_) => false,
    }
}

/// Adds to a configuration what `dev` needs: the data folder, the demo model, a workspace with a key.
fn prepare(config: &mut Config, folder: &DataDir, credentials: &mut DevCredentials) {
    config.store.sqlite = folder.database();
    config.platform.demo.get_or_insert(true);
    config.runs.drain_ms = config.runs.drain_ms.min(MAX_DRAIN_MS);
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
            default_model: None,
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
