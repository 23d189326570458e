//! Tools that a workspace or a plugin defines: the tool that the model sees, and the execution of its calls.
//!
//! [`DefinitionExecutor`] serves every kind whose refs lead to a [`ToolDefinition`].

use std::sync::Arc;
use std::time::Duration;

use runloom_ports::effect::Effect;
use runloom_ports::error::{Error, Result};
use runloom_ports::secret::Secret;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext, ToolDefinitions};
use runloom_protocol::definition::{
    CodeCall, ExternalAgent, McpCall, PluginServer, ProcessCall, ProcessSpec, ToolAction,
    ToolDefinition, template,
};
use runloom_protocol::id::RunId;
use runloom_protocol::tools::{A2aTool, Object};
use runloom_schema::{SchemaCache, SchemaErrorKind, compile_off_thread};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::a2a::A2a;
use crate::call_secrets::CallSecrets;
use crate::code::{self, CodeRun, Sandbox};
use crate::content;
use crate::http::{self, HttpRun, HttpTools};
use crate::listing_budget::ListingBudget;
use crate::mcp::{
    Launch, Mcp, McpConnection, McpEndpoint, McpRequest, ResultForm, SessionOwner, ToolSelection,
    override_effect,
};
use crate::outbound::{Outbound, spec_headers};
use crate::shipped::ShippedTools;
use crate::tool_kind::ToolOrigin;

/// Reason given for code tools that the operator disabled.
const CODE_DISABLED: &str = "code tools are disabled on this server";

/// Executes definitions. Every call ends within its definition's timeout.
pub(crate) struct DefinitionExecutor {
    pub(crate) definitions: Arc<dyn ToolDefinitions>,
    pub(crate) outbound: Outbound,
    pub(crate) http: HttpTools,
    /// `None` when code tools are disabled.
    pub(crate) code: Option<Sandbox>,
    pub(crate) shipped: ShippedTools,
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) a2a: Arc<A2a>,
    pub(crate) schemas: Arc<SchemaCache>,
}

/// The MCP server of a definition, and the server's name for the tool.
struct McpTarget {
    endpoint: McpEndpoint,
    owner: SessionOwner,
    tool: String,
}

impl McpTarget {
    fn connection<'a>(&'a self, workspace: &'a Arc<str>) -> McpConnection<'a> {
        McpConnection {
            workspace,
            endpoint: &self.endpoint,
            owner: &self.owner,
            idle_close: None,
        }
    }
}

/// What a cancelled call needs before its future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnCancel {
    /// Nothing: dropping the future ends the call.
    Drop,
    /// The call itself handles the cancellation, because it notifies its peer.
    Notify,
}

impl DefinitionExecutor {
    /// Refuses a definition that can never work, without connecting. `path` is the ref's position in the spec.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the reason.
    pub(crate) async fn check(&self, path: &str, definition: &ToolDefinition) -> Result<()> {
        let refused = |reason: String| {
            let message = format!("the tool \"{}\" cannot be used: {reason}", definition.name);
            Error::invalid(path, message)
        };
        if let Some(reason) = self.unusable_schema(definition).await {
            return Err(refused(reason));
        }
        if matches!(definition.action, ToolAction::Code(_)) && self.code.is_none() {
            return Err(refused(CODE_DISABLED.to_owned()));
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
        // Templates may only follow the host, so the policy can be checked without arguments.
        let prefix = url.split("{{").next().unwrap_or_default();
        self.outbound
            .check(prefix)
            .map_err(|error| refused(error.to_string()))?;
        spec_headers(headers).map_err(|error| refused(error.to_string()))?;
        Ok(())
    }

    /// Why the definition's argument schema cannot be used. Schemas that a peer lists are not checked here: the peer
    /// validates its own arguments.
    async fn unusable_schema(&self, definition: &ToolDefinition) -> Option<String> {
        // A remote agent always has one argument, whatever its definition declares.
        if definition.parameters.is_empty() || matches!(definition.action, ToolAction::A2a(_)) {
            return None;
        }
        let schema = Arc::new(object_schema(&definition.parameters));
        let compiled = compile_off_thread(Arc::clone(&self.schemas), schema).await;
        let error = compiled.err()?;
        // `Busy` means that this server is overloaded, not that the definition is wrong.
        (error.kind != SchemaErrorKind::Busy).then(|| format!("parameters: {error}"))
    }

    /// The tool that the model sees. `origin.target` must lead back to the definition. `None` when its argument schema
    /// cannot be used, because arguments would not be validated. New runs with such a tool are refused.
    pub(crate) async fn expose(
        &self,
        context: &ToolContext,
        definition: &ToolDefinition,
        origin: ToolOrigin,
        budget: &ListingBudget,
    ) -> Option<ServerTool> {
        if let Some(reason) = self.unusable_schema(definition).await {
            tracing::warn!(tool = definition.name, reason, "tool omitted from a run");
            return None;
        }
        let mut tool = ServerTool {
            action_effects: None,
            name: definition.name.clone(),
            description: definition.description.clone(),
            parameters: object_schema(&definition.parameters),
            output_schema: definition.output_schema.clone().map(Value::Object),
            effect: Effect::from(definition.effect()),
            annotations: None,
            policy: None,
            from: origin.index,
            target: origin.target,
        };
        match &definition.action {
            ToolAction::Http(http) => {
                if definition.parameters.is_empty() {
                    tool.parameters = http::inferred_parameters(http);
                }
            }
            ToolAction::Mcp(_) | ToolAction::Process(_) => {
                if definition.parameters.is_empty() {
                    Box::pin(self.describe(context, definition, &mut tool, budget)).await;
                }
            }
            ToolAction::A2a(_) => {
                tool.parameters = crate::a2a::parameters();
                if tool.description.trim().is_empty() {
                    tool.description = crate::a2a::description(&definition.name);
                }
            }
            ToolAction::Code(_) | ToolAction::Plugin(_) | ToolAction::Shipped(_) => {}
        }
        Some(tool)
    }

    /// Executes a call. `cancel` ends it at once.
    pub(crate) async fn call(
        &self,
        context: &ToolContext,
        definition: &ToolDefinition,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let timeout = Duration::from_millis(definition.timeout_ms());
        let (grace, on_cancel) = match &definition.action {
            // The sandbox enforces the timeout itself and returns what the code wrote until then.
            ToolAction::Code(_) => (code::GRACE, OnCancel::Drop),
            ToolAction::Mcp(_) | ToolAction::Process(_) | ToolAction::A2a(_) => {
                (Duration::ZERO, OnCancel::Notify)
            }
            ToolAction::Http(_) | ToolAction::Plugin(_) | ToolAction::Shipped(_) => {
                (Duration::ZERO, OnCancel::Drop)
            }
        };
        // The secrets outlive a call that timed out, to redact its failure.
        let mut secrets = CallSecrets::default();
        let executing = async {
            secrets = self.secrets(&context.workspace, &definition.action).await?;
            let executing = self.execute(context, definition, call, &secrets, &cancel);
            if on_cancel == OnCancel::Notify {
                return executing.await;
            }
            let ended = cancel.run_until_cancelled(executing).await;
            ended.unwrap_or_else(|| Err("the call was cancelled".to_owned()))
        };
        let result = match tokio::time::timeout(timeout + grace, executing).await {
            Ok(result) => result,
            Err(_) => Err(format!("it did not end within {timeout:?}")),
        };
        let outcome = result.unwrap_or_else(|reason| {
            content::failure(format!(
                "The tool \"{}\" failed: {reason}.",
                definition.name
            ))
        });
        secrets.redact_outcome(outcome)
    }

    async fn execute(
        &self,
        context: &ToolContext,
        definition: &ToolDefinition,
        call: Invocation,
        secrets: &CallSecrets,
        cancel: &CancellationToken,
    ) -> Result<Outcome, String> {
        let workspace = &context.workspace;
        let timeout = Duration::from_millis(definition.timeout_ms());
        // Each future is boxed on its own: unboxed, every call would be as large as the largest of them.
        match &definition.action {
            ToolAction::Http(http) => {
                let run = HttpRun {
                    http,
                    effect: definition.effect(),
                    timeout,
                    call: &call,
                    secrets,
                };
                Box::pin(self.http.call(run)).await
            }
            ToolAction::Code(code) => {
                let run = CodeRun {
                    code,
                    timeout,
                    call: &call,
                    secrets,
                };
                let sandbox = self.code.as_ref().ok_or(CODE_DISABLED)?;
                Box::pin(sandbox.run(workspace, run)).await
            }
            ToolAction::Mcp(_) | ToolAction::Process(_) => {
                let target = mcp_target(definition, secrets, &context.run)?;
                let connection = target.connection(workspace);
                let request = McpRequest {
                    tool: &target.tool,
                    invocation: call,
                    timeout: Some(timeout),
                    form: ResultForm::Text,
                };
                Box::pin(self.mcp.call_tool(&connection, request, cancel)).await
            }
            ToolAction::Shipped(tool) => {
                Box::pin(self.shipped.call(*tool, workspace, &call.input)).await
            }
            ToolAction::A2a(agent) => {
                let agent = remote_agent(definition, agent, secrets)?;
                Box::pin(self.a2a.delegate(&agent, &call, cancel)).await
            }
            ToolAction::Plugin(_) => Err("it renames a plugin's tool".to_owned()),
        }
    }

    /// Reads the secrets that an action names.
    async fn secrets(&self, workspace: &str, action: &ToolAction) -> Result<CallSecrets, String> {
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
        let mut secrets = CallSecrets::read(definitions, workspace, names.into_iter()).await?;
        secrets.hide_headers(headers);
        Ok(secrets)
    }

    /// The tools of a plugin's MCP server, their names prefixed with the server's. `index` is the ref's index.
    ///
    /// # Errors
    /// A message for the model.
    pub(crate) async fn expose_server(
        &self,
        context: &ToolContext,
        server: &PluginServer,
        index: usize,
        budget: &ListingBudget,
    ) -> Result<Vec<ServerTool>, String> {
        let workspace = &context.workspace;
        let definition = server.tool("");
        let secrets = self.secrets(workspace, &definition.action).await?;
        let target = mcp_target(&definition, &secrets, &context.run)?;
        let selection = ToolSelection {
            prefix: &server.name,
            filter: server.tools.as_deref(),
            index,
        };
        let connection = target.connection(workspace);
        let exposing = self.mcp.expose(&connection, selection, budget);
        let tools = exposing
            .await
            .map_err(|reason| secrets.redact_failure(reason))?;
        let redacted = tools.into_iter().map(|tool| secrets.redact_tool(tool));
        Ok(redacted.collect())
    }

    /// Fills in the schema that the definition omits from the MCP server's own listing.
    async fn describe(
        &self,
        context: &ToolContext,
        definition: &ToolDefinition,
        tool: &mut ServerTool,
        budget: &ListingBudget,
    ) {
        let described = async {
            let workspace = &context.workspace;
            let secrets = self.secrets(workspace, &definition.action).await?;
            let target = mcp_target(definition, &secrets, &context.run)?;
            let connection = target.connection(workspace);
            let describing = self.mcp.describe(&connection, &target.tool, budget);
            let listed = describing
                .await
                .map_err(|reason| secrets.redact_failure(reason));
            listed.map(|listed| secrets.redact_tool(listed))
        };
        match described.await {
            Ok(listed) => {
                tool.parameters = listed.parameters;
                tool.output_schema = tool.output_schema.take().or(listed.output_schema);
                if definition.description.is_empty() {
                    tool.description = listed.description;
                }
                tool.annotations = listed.annotations;
                match definition.effect {
                    None => tool.effect = listed.effect,
                    Some(declared) => override_effect(tool, Effect::from(declared)),
                }
            }
            Err(reason) => {
                tracing::info!(tool = definition.name, reason, "MCP server unavailable");
                tool.description = format!(
                    "{}\nThe MCP server of this tool is unavailable; a call returns the reason.",
                    definition.description
                );
            }
        }
    }
}

/// The argument schema with `"type": "object"`, which providers require at the root. An empty schema accepts any
/// object.
fn object_schema(schema: &Object) -> Value {
    let mut typed = Object::new();
    typed.insert("type".to_owned(), "object".into());
    typed.extend(schema.clone());
    Value::Object(typed)
}

fn mcp_target(
    definition: &ToolDefinition,
    secrets: &CallSecrets,
    run: &RunId,
) -> Result<McpTarget, String> {
    match &definition.action {
        ToolAction::Mcp(mcp) => {
            let endpoint = McpEndpoint::Http {
                url: mcp.url.clone(),
                headers: secrets.fill_headers(&mcp.headers)?,
            };
            let tool = mcp.tool.as_ref().unwrap_or(&definition.name).clone();
            Ok(McpTarget {
                endpoint,
                owner: SessionOwner::of(mcp.session, run),
                tool,
            })
        }
        ToolAction::Process(call) => Ok(McpTarget {
            endpoint: McpEndpoint::Process(launch(&call.process, secrets)?),
            owner: SessionOwner::Workspace,
            tool: call.tool.clone(),
        }),
        ToolAction::Http(_)
        | ToolAction::Code(_)
        | ToolAction::Plugin(_)
        | ToolAction::A2a(_)
        | ToolAction::Shipped(_) => Err("it is not a tool of an MCP server".to_owned()),
    }
}

/// A process with secrets filled into its environment.
///
/// # Errors
/// A message for the model when a secret does not exist.
pub(crate) fn launch(process: &ProcessSpec, secrets: &CallSecrets) -> Result<Launch, String> {
    let clear = secrets.iter().map(|(_, clear)| Secret::new(clear));
    Ok(Launch {
        spec: ProcessSpec {
            env: secrets.fill_headers(&process.env)?,
            ..process.clone()
        },
        secrets: clear.collect(),
    })
}

/// The agent of a definition as a ref, with its secrets filled in.
fn remote_agent(
    definition: &ToolDefinition,
    agent: &ExternalAgent,
    secrets: &CallSecrets,
) -> Result<A2aTool, String> {
    Ok(A2aTool {
        name: definition.name.clone(),
        agent_card_url: agent.agent_card_url.clone(),
        headers: secrets.fill_headers(&agent.headers)?,
        context_id: None,
        description: None,
    })
}
