//! Tools that a workspace or a plugin defines: what the model is shown of a definition, and how a call of it is carried out.
//!
//! [`Actions`] is the one door for every kind whose refs lead to a [`ToolDefinition`].

mod secrets;

use std::sync::Arc;
use std::time::Duration;

use runloom_ports::effect::Effect;
use runloom_ports::error::{Error, Result};
use runloom_ports::secret::Secret;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolDefinitions};
use runloom_protocol::definition::{
    CodeCall, ExternalAgent, McpCall, PluginServer, ProcessCall, ProcessSpec, ToolAction,
    ToolDefinition, template,
};
use runloom_protocol::tools::{A2aTool, Object};
use runloom_schema::{SchemaCache, SchemaErrorKind, compile_off_thread};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::a2a::A2a;
use crate::budget::Budget;
use crate::code::{self, Sandbox, Script};
use crate::content;
use crate::http::{self, Http};
use crate::mcp::{Endpoint, Launch, Mcp};
use crate::outbound::{Outbound, spec_headers};
use crate::plugin::Shipped;

pub(crate) use secrets::Secrets;

/// Said of code tools where the operator does not want them.
const CODE_IS_OFF: &str = "code tools are switched off on this server";

/// Executes definitions. Every call ends within its definition's time.
pub(crate) struct Actions {
    pub(crate) definitions: Arc<dyn ToolDefinitions>,
    pub(crate) outbound: Outbound,
    pub(crate) http: Http,
    /// `None`: switched off.
    pub(crate) code: Option<Sandbox>,
    pub(crate) shipped: Shipped,
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) a2a: Arc<A2a>,
    pub(crate) schemas: Arc<SchemaCache>,
}

impl Actions {
    /// Refuses a definition that can never work; `path` is the place in the spec that led to it. Makes no connection.
    ///
    /// # Errors
    /// [`Error::Invalid`] with what is wrong.
    pub(crate) async fn check(&self, path: &str, definition: &ToolDefinition) -> Result<()> {
        let refused = |error: String| {
            let message = format!("the tool \"{}\" cannot be used: {error}", definition.name);
            Error::invalid(path, message)
        };
        if let Some(why) = self.unusable_schema(definition).await {
            return Err(refused(why));
        }
        if matches!(definition.action, ToolAction::Code(_)) && self.code.is_none() {
            return Err(refused(CODE_IS_OFF.to_owned()));
        }
        let (url, headers) = match &definition.action {
            ToolAction::Http(http) => (http.url.as_str(), &http.headers),
            ToolAction::Mcp(mcp) => (mcp.url.as_str(), &mcp.headers),
            ToolAction::A2a(agent) => (agent.agent_card_url.as_str(), &agent.headers),
            ToolAction::Code(_)
            | ToolAction::Plugin(_)
            | ToolAction::Process(_)
            | ToolAction::Shipped(_) => return Ok(()),
        };
        // Arguments stand behind the host, so that what the guard judges is known without them.
        let bare = url.split("{{").next().unwrap_or_default();
        self.outbound
            .check(bare)
            .map_err(|error| refused(error.to_string()))?;
        spec_headers(headers).map_err(|error| refused(error.to_string()))?;
        Ok(())
    }

    /// Why the definition's own schema of arguments cannot be used. One that a peer lists is not the definition's: the peer
    /// checks by it as well, so that such a tool is offered with any arguments.
    async fn unusable_schema(&self, definition: &ToolDefinition) -> Option<String> {
        // A remote agent has one argument, whatever its definition says.
        if definition.parameters.is_empty() || matches!(definition.action, ToolAction::A2a(_)) {
            return None;
        }
        let schema = Arc::new(of_an_object(&definition.parameters));
        let compiled = compile_off_thread(Arc::clone(&self.schemas), schema).await;
        let error = compiled.err()?;
        // A machine under load is no fault of the definition.
        (error.kind != SchemaErrorKind::Busy).then(|| format!("parameters: {error}"))
    }

    /// [`Self::expose`], or nothing when the definition's schema cannot be used: its arguments would go unchecked. Runs with
    /// such a tool are refused; this one was created before.
    pub(crate) async fn offer(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        place: (usize, Value),
        budget: &Budget,
    ) -> Option<ServerTool> {
        if let Some(why) = self.unusable_schema(definition).await {
            tracing::warn!(tool = definition.name, why, "a tool is left out of a run");
            return None;
        }
        Some(self.expose(workspace, definition, place, budget).await)
    }

    /// The definition as the model sees it. `target` must lead back to it.
    async fn expose(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        (from, target): (usize, Value),
        budget: &Budget,
    ) -> ServerTool {
        let mut tool = ServerTool {
            name: definition.name.clone(),
            description: definition.description.clone(),
            parameters: of_an_object(&definition.parameters),
            output_schema: definition.output_schema.clone().map(Value::Object),
            effect: Effect::from(definition.effect()),
            from,
            target,
        };
        match &definition.action {
            ToolAction::Http(http) if definition.parameters.is_empty() => {
                tool.parameters = http::inferred_parameters(http);
            }
            ToolAction::Mcp(_) | ToolAction::Process(_) if definition.parameters.is_empty() => {
                Box::pin(self.describe(workspace, definition, &mut tool, budget)).await;
            }
            ToolAction::A2a(_) => {
                tool.parameters = crate::a2a::parameters();
                if tool.description.trim().is_empty() {
                    tool.description = crate::a2a::description(&definition.name);
                }
            }
            _ => {}
        }
        tool
    }

    /// Carries out a call. `cancel` ends it at once.
    pub(crate) async fn call(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let within = Duration::from_millis(definition.timeout_ms());
        let mut secrets = Secrets::default();
        let working = self.work(workspace, definition, call, (&mut secrets, &cancel));
        let (grace, says_goodbye) = match &definition.action {
            // Code has a clock of its own, which knows what the code wrote until then.
            ToolAction::Code(_) => (code::GRACE, false),
            // These tell their peer that nobody waits any more.
            ToolAction::Mcp(_) | ToolAction::Process(_) | ToolAction::A2a(_) => {
                (Duration::ZERO, true)
            }
            ToolAction::Http(_) | ToolAction::Plugin(_) | ToolAction::Shipped(_) => {
                (Duration::ZERO, false)
            }
        };
        let working = async {
            if says_goodbye {
                return working.await;
            }
            let ended = cancel.run_until_cancelled(working).await;
            ended.unwrap_or_else(|| Err("the call was cancelled".to_owned()))
        };
        let done = match tokio::time::timeout(within + grace, working).await {
            Ok(done) => done,
            Err(_) => Err(format!("it did not end within {within:?}")),
        };
        let outcome = done.unwrap_or_else(|why| {
            content::failure(format!("The tool \"{}\" failed: {why}.", definition.name))
        });
        secrets.redact_outcome(outcome)
    }

    async fn work(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        call: Invocation,
        (secrets, cancel): (&mut Secrets, &CancellationToken),
    ) -> Result<Outcome, String> {
        let within = Duration::from_millis(definition.timeout_ms());
        *secrets = self.secrets(workspace, &definition.action).await?;
        match &definition.action {
            ToolAction::Http(http) => {
                let effect = definition.effect();
                // Each kind's future on its own: together they would be as large as the largest, for every call, and moved about.
                Box::pin(self.http.call(http, effect, within, &call, secrets)).await
            }
            ToolAction::Code(code) => {
                let script = Script {
                    code,
                    within,
                    call: &call,
                    secrets,
                };
                let code = self.code.as_ref().ok_or(CODE_IS_OFF)?;
                Box::pin(code.run(workspace, script)).await
            }
            ToolAction::Mcp(_) | ToolAction::Process(_) => {
                let (server, tool) = server(definition, secrets)?;
                let bounds = (Some(within), cancel);
                Box::pin(self.mcp.call_tool(workspace, &server, &tool, call, bounds)).await
            }
            ToolAction::Shipped(tool) => {
                Box::pin(self.shipped.call(*tool, workspace, &call.input)).await
            }
            ToolAction::A2a(agent) => {
                let agent = remote(definition, agent, secrets)?;
                Box::pin(self.a2a.delegate(&agent, &call, cancel)).await
            }
            ToolAction::Plugin(_) => Err("it is a plugin's tool under another name".to_owned()),
        }
    }

    /// The secrets that an action names, read now.
    async fn secrets(&self, workspace: &str, action: &ToolAction) -> Result<Secrets, String> {
        let definitions = self.definitions.as_ref();
        let no_headers = std::collections::BTreeMap::new();
        let (names, headers): (Vec<&str>, _) = match action {
            ToolAction::Http(http) => (http::secret_names(http).collect(), &http.headers),
            ToolAction::Code(CodeCall { secrets, .. }) => {
                (secrets.iter().map(String::as_str).collect(), &no_headers)
            }
            ToolAction::Mcp(McpCall { headers, .. })
            | ToolAction::A2a(ExternalAgent { headers, .. }) => {
                let names = headers.values().flat_map(|value| template::secrets(value));
                (names.collect(), headers)
            }
            ToolAction::Process(ProcessCall { process, .. }) => {
                let names = process
                    .env
                    .values()
                    .flat_map(|value| template::secrets(value));
                (names.collect(), &no_headers)
            }
            ToolAction::Plugin(_) | ToolAction::Shipped(_) => (Vec::new(), &no_headers),
        };
        let mut secrets = Secrets::read(definitions, workspace, names.into_iter()).await?;
        secrets.hide_headers(headers);
        Ok(secrets)
    }

    /// All tools of an MCP server, their names prefixed with its own; the failure is in words for a model.
    pub(crate) async fn expose_server(
        &self,
        workspace: &Arc<str>,
        server: &PluginServer,
        place: (usize, &Budget),
    ) -> Result<Vec<ServerTool>, String> {
        let definition = server.tool("");
        let secrets = self.secrets(workspace, &definition.action).await?;
        let (endpoint, _) = self::server(&definition, &secrets)?;
        let wanted = (server.name.as_str(), server.tools.as_deref());
        let found = self.mcp.expose(workspace, &endpoint, wanted, place).await;
        let tools = found.map_err(|why| secrets.redact_failure(why))?;
        let shown = tools.into_iter().map(|tool| secrets.redact_tool(tool));
        Ok(shown.collect())
    }

    /// Asks the MCP server for the schema that the definition leaves out.
    async fn describe(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        tool: &mut ServerTool,
        budget: &Budget,
    ) {
        let described = async {
            let secrets = self.secrets(workspace, &definition.action).await?;
            let (server, name) = server(definition, &secrets)?;
            let found = self.mcp.describe(workspace, &server, &name, budget).await;
            let found = found.map_err(|why| secrets.redact_failure(why));
            found.map(|found| secrets.redact_tool(found))
        };
        match described.await {
            Ok(found) => {
                tool.parameters = found.parameters;
                tool.output_schema = tool.output_schema.take().or(found.output_schema);
                if definition.description.is_empty() {
                    tool.description = found.description;
                }
                if definition.effect.is_none() {
                    tool.effect = found.effect;
                }
            }
            Err(why) => {
                tracing::info!(tool = definition.name, why, "an MCP server is unavailable");
                tool.description = format!(
                    "{}\nThe MCP server of this tool is unavailable; a call will say why.",
                    definition.description
                );
            }
        }
    }
}

/// The schema of arguments as providers want it: they refuse a root that does not say that it is an object's. An empty one takes any
/// object.
fn of_an_object(schema: &Object) -> Value {
    let mut typed = Object::new();
    typed.insert("type".to_owned(), "object".into());
    typed.extend(schema.clone());
    Value::Object(typed)
}

/// Where the MCP server of a definition is, and its own name for the tool.
fn server(definition: &ToolDefinition, secrets: &Secrets) -> Result<(Endpoint, String), String> {
    match &definition.action {
        ToolAction::Mcp(mcp) => {
            let endpoint = Endpoint::Http {
                url: mcp.url.clone(),
                headers: secrets.fill_headers(&mcp.headers)?,
            };
            let tool = mcp.tool.as_ref().unwrap_or(&definition.name);
            Ok((endpoint, tool.clone()))
        }
        ToolAction::Process(call) => {
            let clear = secrets.iter().map(|(_, clear)| Secret::new(clear));
            let launch = Launch {
                spec: ProcessSpec {
                    env: secrets.fill_headers(&call.process.env)?,
                    ..call.process.clone()
                },
                secrets: clear.collect(),
            };
            Ok((Endpoint::Process(launch), call.tool.clone()))
        }
        _ => Err("it is not a tool of an MCP server".to_owned()),
    }
}

fn remote(
    definition: &ToolDefinition,
    agent: &ExternalAgent,
    secrets: &Secrets,
) -> Result<A2aTool, String> {
    Ok(A2aTool {
        name: definition.name.clone(),
        agent_card_url: agent.agent_card_url.clone(),
        headers: secrets.fill_headers(&agent.headers)?,
        context_id: None,
        description: None,
    })
}
