//! Tools that a workspace or a plugin defines: what the model is shown of a definition, and how a call of it is carried out.
//!
//! [`Actions`] is the one door for every kind whose refs lead to a [`ToolDefinition`].

mod secrets;

use std::sync::Arc;
use std::time::Duration;

use runloom_core::error::{Error, Result};
use runloom_core::ports::tools::{Invocation, Outcome, ServerTool, ToolDefinitions};
use runloom_core::toolbox::Effect;
use runloom_protocol::definition::{
    CodeCall, ExternalAgent, McpCall, ToolAction, ToolDefinition, template,
};
use runloom_protocol::tools::{A2aTool, McpTool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::a2a::A2a;
use crate::code::{self, Sandbox, Script};
use crate::content;
use crate::http::{self, Http};
use crate::mcp::Mcp;
use crate::outbound::{Outbound, spec_headers};

pub(crate) use secrets::Secrets;

/// Executes definitions. Every call ends within its definition's time.
pub(crate) struct Actions {
    pub(crate) definitions: Arc<dyn ToolDefinitions>,
    pub(crate) outbound: Outbound,
    pub(crate) http: Http,
    pub(crate) code: Sandbox,
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) a2a: Arc<A2a>,
}

impl Actions {
    /// Refuses a definition that can never work; `path` is the place in the spec that led to it. Makes no connection.
    ///
    /// # Errors
    /// [`Error::Invalid`] with what is wrong.
    pub(crate) fn check(&self, path: &str, definition: &ToolDefinition) -> Result<()> {
        let (url, headers) = match &definition.action {
            ToolAction::Http(http) => (http.url.as_str(), &http.headers),
            ToolAction::Mcp(mcp) => (mcp.url.as_str(), &mcp.headers),
            ToolAction::A2a(agent) => (agent.agent_card_url.as_str(), &agent.headers),
            ToolAction::Code(_) | ToolAction::Plugin(_) => return Ok(()),
        };
        let refused = |error: String| {
            let message = format!("the tool \"{}\" cannot be used: {error}", definition.name);
            Error::invalid(path, message)
        };
        // Arguments stand behind the host, so that what the guard judges is known without them.
        let bare = url.split("{{").next().unwrap_or_default();
        self.outbound
            .check(bare)
            .map_err(|error| refused(error.to_string()))?;
        spec_headers(headers).map_err(|error| refused(error.to_string()))?;
        Ok(())
    }

    /// The definition as the model sees it. `target` must lead back to it.
    pub(crate) async fn expose(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        (from, target): (usize, Value),
    ) -> ServerTool {
        let mut tool = ServerTool {
            name: definition.name.clone(),
            description: definition.description.clone(),
            parameters: Value::Object(definition.parameters.clone()),
            output_schema: definition.output_schema.clone().map(Value::Object),
            effect: Effect::from(definition.effect()),
            from,
            target,
        };
        match &definition.action {
            ToolAction::Http(http) if definition.parameters.is_empty() => {
                tool.parameters = http::inferred_parameters(http);
            }
            ToolAction::Code(_) if definition.parameters.is_empty() => {
                tool.parameters = json!({"type": "object"});
            }
            ToolAction::Mcp(mcp) if definition.parameters.is_empty() => {
                self.describe(workspace, definition, mcp, &mut tool).await;
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
        let within = Duration::from_millis(definition.timeout_ms);
        let mut secrets = Secrets::default();
        let working = self.work(workspace, definition, call, (&mut secrets, &cancel));
        let (grace, says_goodbye) = match &definition.action {
            // Code has a clock of its own, which knows what the code wrote until then.
            ToolAction::Code(_) => (code::GRACE, false),
            // These tell their peer that nobody waits any more.
            ToolAction::Mcp(_) | ToolAction::A2a(_) => (Duration::ZERO, true),
            ToolAction::Http(_) | ToolAction::Plugin(_) => (Duration::ZERO, false),
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
        let mut outcome = done.unwrap_or_else(|why| {
            content::failure(format!("The tool \"{}\" failed: {why}.", definition.name))
        });
        outcome.content = secrets.redact(outcome.content);
        outcome
    }

    async fn work(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        call: Invocation,
        (secrets, cancel): (&mut Secrets, &CancellationToken),
    ) -> Result<Outcome, String> {
        let within = Duration::from_millis(definition.timeout_ms);
        *secrets = self.secrets(workspace, &definition.action).await?;
        match &definition.action {
            ToolAction::Http(http) => {
                let effect = definition.effect();
                self.http.call(http, effect, within, &call, secrets).await
            }
            ToolAction::Code(code) => {
                let script = Script {
                    code,
                    within,
                    call: &call,
                    secrets,
                };
                self.code.run(workspace, script).await
            }
            ToolAction::Mcp(mcp) => {
                let server = server(definition, mcp, secrets)?;
                let tool = mcp.tool.as_deref().unwrap_or(&definition.name);
                let called = self.mcp.call_tool(workspace, &server, tool, call, cancel);
                called.await
            }
            ToolAction::A2a(agent) => {
                let agent = remote(definition, agent, secrets)?;
                self.a2a.delegate(&agent, &call, cancel).await
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
            ToolAction::Plugin(_) => (Vec::new(), &no_headers),
        };
        let mut secrets = Secrets::read(definitions, workspace, names.into_iter()).await?;
        secrets.hide_headers(headers);
        Ok(secrets)
    }

    /// Asks the MCP server for the schema that the definition leaves out.
    async fn describe(
        &self,
        workspace: &Arc<str>,
        definition: &ToolDefinition,
        mcp: &McpCall,
        tool: &mut ServerTool,
    ) {
        let described = async {
            let secrets = self.secrets(workspace, &definition.action).await?;
            let server = server(definition, mcp, &secrets)?;
            let name = mcp.tool.as_deref().unwrap_or(&definition.name);
            let found = self.mcp.describe(workspace, &server, name).await;
            let redacted = |text| secrets.redact(text);
            found.map_err(redacted).map(|mut found| {
                found.description = secrets.redact(found.description);
                found.parameters = secrets.redact_json(found.parameters);
                found.output_schema = found.output_schema.map(|s| secrets.redact_json(s));
                found
            })
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

fn server(
    definition: &ToolDefinition,
    mcp: &McpCall,
    secrets: &Secrets,
) -> Result<McpTool, String> {
    Ok(McpTool {
        name: definition.name.clone(),
        url: mcp.url.clone(),
        headers: secrets.fill_headers(&mcp.headers)?,
        tool_filter: None,
    })
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
