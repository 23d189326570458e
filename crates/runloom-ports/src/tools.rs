//! The tools port: tools that the server executes itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_protocol::attachment::{essence, is_text_type};
use runloom_protocol::error::Issue;
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::policy::Policy;
use runloom_protocol::resource::{InstalledPlugin, ToolsetTool};
use runloom_protocol::spec::ToolFile;
use runloom_protocol::tools::{ToolAnnotations, ToolRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use bytes::Bytes;

use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::project::RunProject;
use crate::secret::Secret;
use crate::trace::TraceParent;

use runloom_protocol::definition::template;
pub use runloom_protocol::definition::{PluginManifest, ToolDefinition, ToolsetDefinition};

/// Resolves and executes server tools.
///
/// Contract:
/// - Every call ends: the host has deadlines, and `cancel` ends a call at once (and cancels it at the peer, if the
///   protocol allows).
/// - A slow or dead peer delays a run by at most its deadline, and no other run.
/// - A failure of a peer is an outcome for the model, never an error of the run.
/// - The host repeats nothing: the engine decides by the [`Effect`] of a tool.
/// - Header values of the spec arrive in clear and are sent to their peer only.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// Refuses refs that cannot work: an unknown workspace tool, a plugin that is not installed. Makes no connection.
    async fn check(&self, workspace: &str, refs: &[ToolRef]) -> Result<()>;

    /// The tools of the server-resolved refs, in the order of the refs. Peers are asked concurrently, each with a
    /// deadline; an unreachable peer yields a stub tool that says so.
    async fn resolve(&self, context: &ToolContext, refs: &[ToolRef]) -> Vec<ServerTool>;

    /// Executes one call.
    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome;

    /// The plugins of the operator's configuration and those that ship with the server, without those that a plugin
    /// of the workspace replaces.
    ///
    /// # Errors
    /// When the store fails.
    async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>>;

    /// The tools of a toolset as its server lists them now, those of its allow-list only; `None` without the toolset.
    /// Opens the connection.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason when the toolset cannot be opened; when the store fails.
    async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Option<Vec<ToolsetTool>>>;

    /// Checks an address that a provider will fetch against the outbound policy, without a name lookup.
    ///
    /// # Errors
    /// The reason of the refusal, for the client.
    fn check_address(&self, url: &str) -> std::result::Result<(), String>;

    /// Fetches an attachment under the outbound policy.
    ///
    /// # Errors
    /// The reason of the failure, for the client.
    async fn fetch(
        &self,
        url: &str,
        max_bytes: usize,
        timeout: Duration,
    ) -> std::result::Result<FetchedFile, String>;
}

/// A file that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedFile {
    /// The media type that its server named, in lower case and without parameters.
    pub mime_type: Option<String>,
    /// All of it.
    pub bytes: Bytes,
}

/// The tools, plugins, toolsets and secrets of workspaces, for a [`ToolHost`].
///
/// A secret is read for the call and sent to the peer only: not into a [`ServerTool::target`], an [`Outcome`], an
/// error or a log line. [`Secret::redact`] removes it from what a peer returns.
#[async_trait]
pub trait ToolDefinitions: Send + Sync {
    /// The definition behind `{"kind": "mantyx", "id": …}`, by id or slug.
    ///
    /// # Errors
    /// When the store fails.
    async fn tool(&self, workspace: &str, id_or_slug: &str) -> Result<Option<ToolDefinition>>;

    /// The installed plugins, by name.
    ///
    /// # Errors
    /// When the store fails.
    async fn plugins(&self, workspace: &str) -> Result<Vec<PluginManifest>>;

    /// The toolset behind `{"kind": "toolset", "name": …}`, by id or slug.
    ///
    /// # Errors
    /// When the store fails.
    async fn toolset(&self, workspace: &str, id_or_slug: &str) -> Result<Option<Toolset>>;

    /// A secret in clear.
    ///
    /// # Errors
    /// When the store fails, or the secret was sealed with another master key.
    async fn secret(&self, workspace: &str, name: &str) -> Result<Option<Secret>>;
}

/// The definition behind `{"kind": "mantyx_plugin", "name": …}`.
///
/// # Errors
/// When the store fails.
pub async fn plugin_tool(
    definitions: &dyn ToolDefinitions,
    workspace: &str,
    name: &str,
) -> Result<Option<ToolDefinition>> {
    let plugins = definitions.plugins(workspace).await?;
    Ok(plugins.iter().find_map(|plugin| plugin.tool(name)))
}

/// A text with every `{{secret:NAME}}` replaced. Only for texts of the workspace's administrator, because the author of
/// such a text can read the secret.
///
/// # Errors
/// [`Error::Invalid`] with the name of an unknown secret.
pub async fn fill_secrets(
    definitions: &dyn ToolDefinitions,
    workspace: &str,
    text: &str,
) -> Result<Secret> {
    let mut known = Vec::new();
    for name in template::secrets(text) {
        let secret = definitions.secret(workspace, name).await?;
        known.extend(secret.map(|secret| (name, secret)));
    }
    let lookup = |name: &str| {
        let found = known.iter().find(|(known, _)| *known == name);
        found.map(|(_, secret)| secret.expose().to_owned())
    };
    template::fill_secrets(text, lookup)
        .map(Secret::new)
        .map_err(|name| Error::invalid("", format!("there is no secret `{name}`")))
}

/// A toolset of a workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct Toolset {
    /// Its name in the workspace.
    pub slug: String,
    /// Its definition.
    pub definition: ToolsetDefinition,
}

/// The run that tools are called for.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Slug of the workspace.
    pub workspace: Arc<str>,
    /// The run.
    pub run: RunId,
    /// The refs of the spec. Header values are as written: those of a persisted agent may name secrets, which are
    /// filled in for the call ([`fill_secrets`]); those of a client cannot.
    pub refs: Arc<Vec<ToolRef>>,
    /// Its session.
    pub session: Option<SessionId>,
    /// Permissions of the project tool.
    pub project: Option<Arc<RunProject>>,
}

/// One resolved tool, stored with the run, so that it keeps its tools (and the provider's prompt cache) over restarts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTool {
    /// Model-facing name, valid and unique in the run.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, object root.
    pub parameters: Value,
    /// JSON Schema of the output, object root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether a call may be repeated, and run concurrently with others.
    pub effect: Effect,
    /// Hints of the tool's MCP server; `None` when the tool is not one of MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// The administrator's policy for the tool, which applies in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Index of its ref in the spec.
    pub from: usize,
    /// The target of a call, in the format of the host; without secrets.
    pub target: Value,
    /// For a tool whose arguments name an action (`module`, `method`): the effect of each action `module.method`. The
    /// host checks the arguments of such a tool itself, and a call of another action has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_effects: Option<BTreeMap<String, Effect>>,
}

impl ServerTool {
    /// The effect of a call with these arguments.
    #[must_use]
    pub fn effect_of(&self, input: &Value) -> Effect {
        let Some(effects) = &self.action_effects else {
            return self.effect;
        };
        let name = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
        let action = format!("{}.{}", name("module"), name("method"));
        effects.get(&action).copied().unwrap_or(Effect::Read)
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// `tu_…`: also the idempotency key towards the peer.
    pub tool_use_id: String,
    /// Arguments, already checked against the tool's schema.
    pub input: Value,
    /// The span of the call, for peers whose protocol has a field for it; `None` when the run is not traced.
    pub trace: Option<TraceParent>,
}

/// Outcome of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The text for the model, bounded by the host, with a note when it was cut.
    pub content: String,
    /// The tool failed.
    pub is_error: bool,
    /// Files beside the text.
    pub files: Vec<ToolFile>,
    /// For the project tool: the part for front ends.
    pub report: Option<Box<ToolReport>>,
}

/// The part of a project tool's outcome that is not text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReport {
    /// `metadata` of the `tool_result` event.
    pub metadata: Value,
    /// The source of `metadata`; stored and never sent.
    pub ui_hints: Value,
    /// `summary` of the event.
    pub summary: String,
}

impl Outcome {
    /// The outcome without what `redact` removes, because peers may repeat a secret. A binary file with a secret is
    /// left out, with a note for the model.
    #[must_use]
    pub fn redacted(mut self, redact: &dyn Fn(&str) -> String) -> Self {
        self.content = redact(&self.content);
        for mut file in std::mem::take(&mut self.files) {
            file.filename = redact(&file.filename);
            if redact_file(&mut file, redact) {
                self.files.push(file);
            } else {
                let note = format!("\n[file {} left out: it holds a secret]", file.filename);
                self.content.push_str(&note);
            }
        }
        self
    }
}

/// Redacts a file; false when it is binary and has a secret.
fn redact_file(file: &mut ToolFile, redact: &dyn Fn(&str) -> String) -> bool {
    let Ok(bytes) = STANDARD.decode(&file.data) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes);
    let plain = redact(&text);
    if plain == text {
        return true;
    }
    file.data = STANDARD.encode(&plain);
    is_text_type(&essence(&file.mime_type))
}

/// A host without tools: refuses every ref that the server would have to resolve.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

#[async_trait]
impl ToolHost for NoTools {
    async fn check(&self, _workspace: &str, refs: &[ToolRef]) -> Result<()> {
        let refused = refs
            .iter()
            .enumerate()
            .filter(|(_, tool)| tool.is_server_resolved());
        let issues: Vec<Issue> = refused
            .map(|(index, _)| Issue {
                path: format!("tools[{index}].kind"),
                message: "this server executes no tools itself; it knows `local`, `a2a_local` and `mcp_local`".to_owned(),
            })
            .collect();
        if issues.is_empty() {
            Ok(())
        } else {
            Err(Error::Invalid(issues))
        }
    }

    async fn resolve(&self, _context: &ToolContext, _refs: &[ToolRef]) -> Vec<ServerTool> {
        Vec::new()
    }

    async fn call(
        &self,
        _: &ToolContext,
        tool: &ServerTool,
        _: Invocation,
        _: CancellationToken,
    ) -> Outcome {
        let content = format!(
            "{} cannot be executed: this server executes no tools itself",
            tool.name
        );
        Outcome {
            content,
            is_error: true,
            ..Outcome::default()
        }
    }

    async fn installed(&self, _: &str) -> Result<Vec<InstalledPlugin>> {
        Ok(Vec::new())
    }

    async fn toolset_tools(&self, _: &str, _: &str) -> Result<Option<Vec<ToolsetTool>>> {
        Ok(None)
    }

    fn check_address(&self, _: &str) -> std::result::Result<(), String> {
        Ok(())
    }

    async fn fetch(
        &self,
        _: &str,
        _: usize,
        _: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        Err("this server fetches nothing".to_owned())
    }
}
