//! `runloom run`: one run, shown live.

use std::io::Read;

use clap::Args;
use runloom_client::protocol::id::{AgentId, SessionId};
use runloom_client::protocol::spec::AgentSpec;
use runloom_client::protocol::tools::{PluginToolRef, ToolRef, WorkspaceToolRef};
use runloom_client::{Client, MessageRequest, Prompt, RunRequest};

use super::attach;
use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::render::{self, Form, OnInterrupt};
use crate::{connect, output};

/// Maximum bytes of a prompt from standard input.
const MAX_PROMPT_BYTES: u64 = 4 * 1024 * 1024;

/// `runloom run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  runloom run \"hello\"
  runloom run \"Why is the sky blue?\" --model oa/gpt-5.5 --reasoning high
  git diff | runloom run - --system \"Review this change.\"
  runloom run \"and then?\" --session ses_…
  runloom run \"What is new on example.com?\" --plugin @web/fetch
  runloom run \"Where is my order?\" --agent support --tool orders
  runloom run \"What does this cost in all?\" --attach invoice.pdf --attach prices.csv
  runloom run \"hello\" --json | jq -r 'select(.type == \"result\") | .text'

The answer goes to standard output, thinking, tools and the account at the end to standard error. On a
terminal it is shown as it is written; a file or a pipe gets each turn when it is complete.
Ctrl-C cancels the run.")]
pub(crate) struct Run {
    /// The prompt; several words are joined, `-` reads standard input
    #[arg(required = true, num_args = 1..)]
    prompt: Vec<String>,
    #[command(flatten)]
    agent: Agent,
    /// Send the prompt to this session
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
    /// A file to attach, or its https address; may be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<String>,
    /// Print each event as one JSON line; the first line is {"runId"}
    #[arg(long)]
    json: bool,
}

/// Model, prompt and tools of a run or session.
#[derive(Debug, Clone, Args)]
pub(crate) struct Agent {
    /// The model: a catalog id, <provider>/<model>, …; default: the workspace's default model
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The fallback model
    #[arg(long, value_name = "MODEL")]
    pub(crate) fallback_model: Option<String>,
    /// The system prompt
    #[arg(long, short)]
    pub(crate) system: Option<String>,
    /// A stored agent instead of a system prompt, by its id or slug
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// A workspace tool, by its id or slug; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) tool: Vec<String>,
    /// A tool of a plugin, like @web/fetch; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) plugin: Vec<String>,
    /// The reasoning level: off, low, medium, high, or 0 to 100
    #[arg(long, short, value_name = "LEVEL", value_parser = reasoning_level)]
    pub(crate) reasoning: Option<u8>,
}

impl Agent {
    /// The spec of a run or session.
    pub(crate) async fn spec(&self, client: &Client) -> Result<AgentSpec, Failure> {
        let default = || "You are a helpful assistant.".to_owned();
        let agent_id = match &self.agent {
            Some(name) => Some(agent_id(client, name).await?),
            None => None,
        };
        Ok(AgentSpec {
            system_prompt: match (&self.system, &self.agent) {
                (None, Some(_)) => None,
                (system, _) => Some(system.clone().unwrap_or_else(default)),
            },
            agent_id,
            model_id: self.model.clone(),
            fallback_model_id: self.fallback_model.clone(),
            reasoning_level: self.reasoning,
            tools: self.tools(),
            ..AgentSpec::default()
        })
    }

    /// The server tools.
    pub(crate) fn tools(&self) -> Vec<ToolRef> {
        let rows = self.tool.iter().map(|id| {
            let id = id.clone();
            ToolRef::Mantyx(WorkspaceToolRef { id })
        });
        let plugins = self.plugin.iter().map(|name| {
            let name = name.clone();
            ToolRef::MantyxPlugin(PluginToolRef { name })
        });
        rows.chain(plugins).collect()
    }
}

pub(crate) async fn run(run: Run, environment: &Environment) -> Result<Exit, Failure> {
    let client = connect::client(environment)?;
    let prompt = run.prompt.join(" ");
    let prompt = if prompt == "-" {
        read_prompt()?
    } else {
        prompt
    };
    let prompt = Prompt::with_files(prompt, attach::files(&run.attach)?);
    let accepted = match &run.session {
        Some(session) => {
            if run.agent.model.is_some() || run.agent.system.is_some() || run.agent.agent.is_some()
            {
                return Err(Failure::new(
                    Exit::Usage,
                    "a session has its model and system prompt from its beginning: leave out --model, --system and --agent",
                ));
            }
            let mut message = MessageRequest::new(prompt);
            message.spec.reasoning_level = run.agent.reasoning;
            message.spec.tools = run.agent.tools();
            client.send_message(session, &message).await?
        }
        None => {
            client
                .create_run(&RunRequest::with_spec(
                    run.agent.spec(&client).await?,
                    prompt,
                ))
                .await?
        }
    };
    let form = if run.json { Form::Json } else { Form::Text };
    if run.json {
        output::json(&serde_json::json!({ "runId": accepted.run_id }))?;
    }
    let mut stream = client.stream(&accepted.run_id);
    render::follow(
        &client,
        &accepted.run_id,
        &mut stream,
        form,
        OnInterrupt::CancelRun,
    )
    .await
}

fn read_prompt() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .take(MAX_PROMPT_BYTES)
        .read_to_string(&mut text)?;
    if text.trim().is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            "standard input is empty: what shall be asked?",
        ));
    }
    Ok(text)
}

pub(crate) fn session_id(text: &str) -> Result<SessionId, String> {
    SessionId::parse(text).ok_or_else(|| "a session's id looks like ses_…".to_owned())
}

/// The id of an agent given by id or slug.
async fn agent_id(client: &Client, name: &str) -> Result<AgentId, Failure> {
    if let Some(id) = AgentId::parse(name) {
        return Ok(id);
    }
    let known = client.agents().await?.agents;
    if let Some(agent) = known.iter().find(|agent| agent.slug == name) {
        return Ok(agent.id.clone());
    }
    let slugs: Vec<&str> = known.iter().map(|agent| agent.slug.as_str()).collect();
    let there_are = match slugs.as_slice() {
        [] => "this key may run none".to_owned(),
        slugs => format!("there are: {}", slugs.join(", ")),
    };
    let message = format!("no agent has the id or slug `{name}`; {there_are}");
    Err(Failure::new(Exit::Usage, message))
}

fn reasoning_level(text: &str) -> Result<u8, String> {
    match text {
        "off" => Ok(0),
        "low" => Ok(30),
        "medium" => Ok(50),
        "high" => Ok(80),
        number => number
            .parse()
            .ok()
            .filter(|level| *level <= 100)
            .ok_or_else(|| "must be off, low, medium, high, or a number from 0 to 100".to_owned()),
    }
}
