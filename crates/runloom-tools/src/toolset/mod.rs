//! `kind: "toolset"`: tools of the workspace's toolsets, by slug or id.
//!
//! The definition is read at each call, so that a deleted toolset stops working at once. Connections are opened by the
//! first caller that needs them and shared by the runs of the workspace; `mcp` keeps them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runloom_ports::effect::Effect;
use runloom_ports::error::{Chain, Error, Result};
use runloom_ports::tools::{
    Invocation, Outcome, ServerTool, ToolContext, ToolDefinitions, Toolset,
};
use runloom_protocol::definition::{ToolsetConnection, ToolsetDefinition, template};
use runloom_protocol::resource::ToolsetTool;
use runloom_protocol::tools::{ToolRef, ToolsetRef};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::call_secrets::CallSecrets;
use crate::content;
use crate::definition::launch;
use crate::listing_budget::ListingBudget;
use crate::mcp::{
    Mcp, McpConnection, McpEndpoint, McpRequest, ResultForm, SessionOwner, ToolSelection,
    override_effect,
};
use crate::names;
use crate::outbound::{Outbound, spec_headers};
use crate::tool_kind::{IndexedRef, ToolKind, ToolOrigin};
use crate::unavailable_tool;

const KIND: &str = "toolset";

/// When a client may ask again for the tools of a toolset that could not be opened.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Tools of toolsets.
pub(crate) struct ToolsetTools {
    definitions: Arc<dyn ToolDefinitions>,
    outbound: Outbound,
    mcp: Arc<Mcp>,
}

/// A toolset with its secrets filled in.
struct ReadyToolset {
    /// Prefix of the model-facing names.
    prefix: String,
    definition: ToolsetDefinition,
    endpoint: McpEndpoint,
    owner: SessionOwner,
    secrets: CallSecrets,
}

impl ReadyToolset {
    fn connection<'a>(&'a self, workspace: &'a Arc<str>) -> McpConnection<'a> {
        McpConnection {
            workspace,
            endpoint: &self.endpoint,
            owner: &self.owner,
            idle_close: Some(Duration::from_millis(self.definition.idle_close_ms())),
        }
    }
}

impl ToolsetTools {
    pub(crate) fn new(
        definitions: Arc<dyn ToolDefinitions>,
        outbound: Outbound,
        mcp: Arc<Mcp>,
    ) -> Self {
        Self {
            definitions,
            outbound,
            mcp,
        }
    }

    /// The tools of a toolset as its server lists them; `None` without the toolset.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason when it cannot be opened.
    pub(crate) async fn listed(
        &self,
        workspace: &str,
        name: &str,
    ) -> Result<Option<Vec<ToolsetTool>>> {
        let Some(toolset) = self.definitions.toolset(workspace, name).await? else {
            return Ok(None);
        };
        let slug = toolset.slug.clone();
        let workspace = Arc::from(workspace);
        let listing = async {
            let ready = self.ready(&workspace, toolset).await?;
            let budget = ListingBudget::full();
            let everything = ToolsetRef {
                name: slug.clone(),
                tool_filter: None,
            };
            let origin = IndexedToolset {
                index: 0,
                reference: &everything,
            };
            self.expose(&workspace, &ready, origin, &budget).await
        };
        let mut tools = listing.await.map_err(|reason| Error::Unavailable {
            message: format!("The toolset `{slug}` is unavailable: {reason}."),
            retry_after: RETRY_AFTER,
        })?;
        names::make_unique(&[], &mut tools);
        Ok(Some(tools.into_iter().map(describe).collect()))
    }

    /// Fills in the secrets of a toolset.
    ///
    /// # Errors
    /// A message for the model.
    async fn ready(&self, workspace: &str, toolset: Toolset) -> Result<ReadyToolset, String> {
        let Toolset { slug, definition } = toolset;
        let (texts, headers) = match &definition.connection {
            ToolsetConnection::Stdio(process) => (&process.env, None),
            ToolsetConnection::Sse(server) | ToolsetConnection::StreamableHttp(server) => {
                (&server.headers, Some(&server.headers))
            }
        };
        let names = texts.values().flat_map(|text| template::secrets(text));
        let definitions = self.definitions.as_ref();
        let mut secrets = CallSecrets::read(definitions, workspace, names).await?;
        if let Some(headers) = headers {
            secrets.hide_headers(headers);
        }
        let endpoint = match &definition.connection {
            ToolsetConnection::Stdio(process) => McpEndpoint::Process(launch(process, &secrets)?),
            ToolsetConnection::Sse(server) => McpEndpoint::Sse {
                url: server.server_url.clone(),
                headers: secrets.fill_headers(&server.headers)?,
            },
            ToolsetConnection::StreamableHttp(server) => McpEndpoint::Http {
                url: server.server_url.clone(),
                headers: secrets.fill_headers(&server.headers)?,
            },
        };
        Ok(ReadyToolset {
            prefix: slug.replace('-', "_"),
            definition,
            endpoint,
            owner: SessionOwner::Toolset(slug),
            secrets,
        })
    }

    /// The tools that a ref exposes, under names that need not be valid or unique yet.
    ///
    /// # Errors
    /// A message for the model.
    async fn expose(
        &self,
        workspace: &Arc<str>,
        toolset: &ReadyToolset,
        origin: IndexedToolset<'_>,
        budget: &ListingBudget,
    ) -> Result<Vec<ServerTool>, String> {
        let filter = filter(&toolset.definition, origin.reference);
        let selection = ToolSelection {
            prefix: &toolset.prefix,
            filter: filter.as_deref(),
            index: origin.index,
        };
        let connection = toolset.connection(workspace);
        let exposing = self.mcp.expose(&connection, selection, budget);
        let tools = exposing
            .await
            .map_err(|reason| toolset.secrets.redact_failure(reason))?;
        let finished = tools.into_iter().map(|tool| {
            let mut tool = toolset.secrets.redact_tool(tool);
            let own = tool.target.get("tool").cloned().unwrap_or_default();
            let settings = own
                .as_str()
                .and_then(|own| toolset.definition.tool_settings.get(own));
            if let Some(effect) = settings.and_then(|settings| settings.effect) {
                override_effect(&mut tool, Effect::from(effect));
            }
            tool.policy.clone_from(&toolset.definition.policy);
            tool.target = json!({"kind": KIND, "name": origin.reference.name, "tool": own});
            tool
        });
        Ok(finished.collect())
    }

    /// Executes a call of a tool by the server's own name.
    async fn execute(
        &self,
        workspace: &Arc<str>,
        toolset: Toolset,
        call: ToolsetCall<'_>,
    ) -> Outcome {
        let slug = toolset.slug.clone();
        let timeout = Duration::from_millis(toolset.definition.timeout_ms);
        // The secrets outlive a call that timed out, to redact its failure.
        let mut secrets = CallSecrets::default();
        let executing = async {
            let mut ready = self.ready(workspace, toolset).await?;
            secrets = std::mem::take(&mut ready.secrets);
            let request = McpRequest {
                tool: call.own_name,
                invocation: call.invocation,
                timeout: Some(timeout),
                form: ResultForm::Structured {
                    schema: call.output_schema,
                },
            };
            let connection = ready.connection(workspace);
            self.mcp.call_tool(&connection, request, call.cancel).await
        };
        let result = match tokio::time::timeout(timeout, executing).await {
            Ok(result) => result,
            Err(_) => Err(format!("it did not end within {timeout:?}")),
        };
        let outcome = result.unwrap_or_else(|reason| {
            let reason = secrets.redact_failure(reason);
            content::failure(format!(
                "The call to the toolset \"{slug}\" failed: {reason}."
            ))
        });
        secrets.redact_outcome(outcome)
    }
}

/// One call of a tool of a toolset.
struct ToolsetCall<'a> {
    /// The server's own name of the tool.
    own_name: &'a str,
    output_schema: Option<&'a Value>,
    invocation: Invocation,
    cancel: &'a CancellationToken,
}

/// A ref and its index in the spec's `tools`.
#[derive(Clone, Copy)]
struct IndexedToolset<'a> {
    index: usize,
    reference: &'a ToolsetRef,
}

/// The server's own names of the tools that a ref selects; `None` selects all.
fn filter(definition: &ToolsetDefinition, reference: &ToolsetRef) -> Option<Vec<String>> {
    let Some(wanted) = &reference.tool_filter else {
        return definition.tools.clone();
    };
    let allowed = wanted.iter().filter(|name| definition.allows(name));
    Some(allowed.cloned().collect())
}

fn describe(tool: ServerTool) -> ToolsetTool {
    let own = tool.target.get("tool").and_then(Value::as_str);
    ToolsetTool {
        name: own.unwrap_or_default().to_owned(),
        model_name: tool.name,
        description: tool.description,
        input_schema: tool.parameters,
        output_schema: tool.output_schema,
        annotations: tool.annotations.filter(|hints| !hints.is_empty()),
        effect: tool.effect.into(),
    }
}

/// A placeholder for the tools of a toolset that cannot be opened.
fn placeholder(name: &str, origin: ToolOrigin, reason: &str) -> ServerTool {
    let description = format!(
        "The toolset \"{name}\" is unavailable, so none of its tools can be used. Calling this tool returns the reason."
    );
    unavailable_tool::placeholder(&name.replace('-', "_"), description, origin, reason)
}

#[async_trait]
impl ToolKind for ToolsetTools {
    fn name(&self) -> &'static str {
        KIND
    }

    async fn check(&self, workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>> {
        let ToolRef::Toolset(reference) = tool else {
            return Ok(None);
        };
        let path = format!("{path}.name");
        let name = &reference.name;
        let Some(toolset) = self.definitions.toolset(workspace, name).await? else {
            let message = format!("there is no toolset `{name}` in this workspace");
            return Err(Error::invalid(path, message));
        };
        let (ToolsetConnection::Sse(server) | ToolsetConnection::StreamableHttp(server)) =
            &toolset.definition.connection
        else {
            return Ok(None);
        };
        let checked = self.outbound.check(&server.server_url).map(drop);
        let checked = checked.and_then(|()| spec_headers(&server.headers).map(drop));
        let refused = |error| {
            let message = format!("the toolset `{name}` cannot be used: {error}");
            Error::invalid(path, message)
        };
        checked.map(|()| None).map_err(refused)
    }

    async fn resolve(
        &self,
        context: &ToolContext,
        reference: IndexedRef<'_>,
        budget: &ListingBudget,
    ) -> Vec<ServerTool> {
        let ToolRef::Toolset(toolset) = reference.tool else {
            return Vec::new();
        };
        let workspace = &context.workspace;
        let find = || self.definitions.toolset(workspace, &toolset.name);
        let found = unavailable_tool::retry_while_unavailable(find).await;
        let (name, reason) = match found {
            Ok(Some(found)) => {
                let slug = found.slug.clone();
                let origin = IndexedToolset {
                    index: reference.index,
                    reference: toolset,
                };
                let exposing = async {
                    let ready = self.ready(workspace, found).await?;
                    self.expose(workspace, &ready, origin, budget).await
                };
                match exposing.await {
                    Ok(tools) => return tools,
                    Err(reason) => (slug, reason),
                }
            }
            Ok(None) => {
                let reason = "it is no longer in this workspace";
                (toolset.name.clone(), reason.to_owned())
            }
            Err(error) => {
                tracing::warn!(toolset = toolset.name, error = %Chain(&error), "toolset definition cannot be read");
                let reason = "its definition could not be read";
                (toolset.name.clone(), reason.to_owned())
            }
        };
        tracing::info!(toolset = name, reason, "toolset unavailable");
        let origin = ToolOrigin {
            index: reference.index,
            target: json!({"kind": KIND, "name": toolset.name}),
        };
        vec![placeholder(&name, origin, &reason)]
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let text = |key: &str| tool.target.get(key).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        if let Some(reason) = text("unavailable") {
            return content::failure(format!(
                "The toolset \"{name}\" was unavailable when the run began: {reason}."
            ));
        }
        let own = text("tool").unwrap_or_default();
        match self.definitions.toolset(&context.workspace, name).await {
            Ok(Some(toolset)) if !toolset.definition.allows(own) => {
                content::failure("The tool is no longer in the toolset's list of tools.")
            }
            Ok(Some(toolset)) => {
                let call = ToolsetCall {
                    own_name: own,
                    output_schema: tool.output_schema.as_ref(),
                    invocation: call,
                    cancel: &cancel,
                };
                Box::pin(self.execute(&context.workspace, toolset, call)).await
            }
            Ok(None) => content::failure("The toolset is no longer in this workspace."),
            Err(error) => {
                tracing::warn!(toolset = name, error = %Chain(&error), "toolset definition cannot be read");
                content::failure("The toolset's definition cannot be read.")
            }
        }
    }
}
