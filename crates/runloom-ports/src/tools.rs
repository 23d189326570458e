//! The tools port: tools that the server executes itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_protocol::attachment::{essence, is_text_type};
use runloom_protocol::error::Issue;
use runloom_protocol::id::RunId;
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
use crate::secret::Secret;
use crate::trace::TraceParent;

use runloom_protocol::definition::template;
pub use runloom_protocol::definition::{PluginManifest, ToolDefinition, ToolsetDefinition};

/// Resolves and executes server-resolved tools.
///
/// Contract:
/// - Every call ends: the host has its own deadlines, and `cancel` ends a call at once (telling the remote side where its protocol
///   can).
/// - One slow or dead peer delays a run by at most its deadline, and no other run at all.
/// - A failure of a peer is data for the model, never an error of the run.
/// - Nothing is repeated by the host: whether a call may be repeated is decided by its [`Effect`], outside.
/// - Secrets of the spec (header values) arrive in clear here and leave only towards their peer.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// Refuses refs that can never work: an unknown workspace tool, a plugin that is not installed. Makes no connection.
    async fn check(&self, workspace: &str, refs: &[ToolRef]) -> Result<()>;

    /// What the server-resolved refs expose, in the order of the refs; client-resolved refs are passed over. Peers are asked
    /// concurrently, each with a deadline; one that cannot be reached gives a stub tool that says so.
    async fn resolve(&self, context: &ToolContext, refs: &[ToolRef]) -> Vec<ServerTool>;

    /// Executes one call.
    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome;

    /// The plugins that the workspace has without keeping them: of the operator's configuration, and those that come with the
    /// server. One whose name a plugin of the workspace itself has taken is not among them.
    ///
    /// # Errors
    /// When the store fails.
    async fn installed(&self, _workspace: &str) -> Result<Vec<InstalledPlugin>> {
        Ok(Vec::new())
    }

    /// The tools of a toolset as its server lists them now, those of its allow-list only; `None` without the toolset.
    /// Opens the connection.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason when the toolset cannot be opened; when the store fails.
    async fn toolset_tools(
        &self,
        _workspace: &str,
        _name: &str,
    ) -> Result<Option<Vec<ToolsetTool>>> {
        Ok(None)
    }

    /// Whether the guard lets an address through that somebody else is going to fetch, as far as it can be told without asking anybody.
    ///
    /// # Errors
    /// Why not, in words for the client.
    fn check_address(&self, _url: &str) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Fetches a file that a client gave the address of, through the same guard as tools: at most so many bytes, within this time. The
    /// failure is in words for the client.
    async fn fetch(
        &self,
        _url: &str,
        _most: usize,
        _within: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        Err("this server fetches nothing".to_owned())
    }
}

/// A file that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedFile {
    /// The media type that its server named, in lower case and without parameters.
    pub mime_type: Option<String>,
    /// All of it.
    pub bytes: Bytes,
}

/// What a workspace keeps for its tools, for a [`ToolHost`].
///
/// A secret is read at the moment of the call and leaves only towards the peer: not into a [`ServerTool::target`], an
/// [`Outcome`], an error or a log line. What a peer repeats of it is taken out with [`Secret::redact`].
#[async_trait]
pub trait ToolDefinitions: Send + Sync {
    /// What `{"kind": "mantyx", "id": …}` leads to: a tool or an external agent, by its id or slug.
    ///
    /// # Errors
    /// When the store fails.
    async fn tool(&self, workspace: &str, id_or_slug: &str) -> Result<Option<ToolDefinition>>;

    /// What `{"kind": "mantyx_plugin", "name": …}` leads to.
    ///
    /// # Errors
    /// When the store fails.
    async fn plugin_tool(&self, workspace: &str, name: &str) -> Result<Option<ToolDefinition>> {
        let plugins = self.plugins(workspace).await?;
        Ok(plugins.iter().find_map(|plugin| plugin.tool(name)))
    }

    /// The installed plugins, by name.
    ///
    /// # Errors
    /// When the store fails.
    async fn plugins(&self, workspace: &str) -> Result<Vec<PluginManifest>>;

    /// What `{"kind": "toolset", "name": …}` leads to, by its id or slug.
    ///
    /// # Errors
    /// When the store fails.
    async fn toolset(&self, workspace: &str, id_or_slug: &str) -> Result<Option<Toolset>>;

    /// A secret in clear.
    ///
    /// # Errors
    /// When the store fails, or the secret was sealed with another master key.
    async fn secret(&self, workspace: &str, name: &str) -> Result<Option<Secret>>;

    /// A text with every `{{secret:NAME}}` in it replaced. Only for texts that the workspace's administrator wrote: whoever may
    /// write such a text may read the secret.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the name of a secret that there is not.
    async fn fill(&self, workspace: &str, text: &str) -> Result<Secret> {
        let mut known = Vec::new();
        for name in template::secrets(text) {
            let secret = self.secret(workspace, name).await?;
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
}

/// A toolset of a workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct Toolset {
    /// Its name in the workspace.
    pub slug: String,
    /// What it says.
    pub definition: ToolsetDefinition,
}

/// On whose behalf tools run.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Slug of the workspace.
    pub workspace: Arc<str>,
    /// Which run.
    pub run: RunId,
    /// The spec's refs. Header values are as they were written: those of a persisted agent may name secrets, to be filled in at the
    /// moment of the call ([`ToolDefinitions::fill`]); those of a client cannot.
    pub refs: Arc<Vec<ToolRef>>,
}

/// One resolved tool. Stored with the run, so that a run keeps its tools (and a provider its prompt cache) over restarts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTool {
    /// Model-facing name, valid and unique in the run.
    pub name: String,
    /// What the model is told.
    pub description: String,
    /// JSON Schema of the arguments, object root.
    pub parameters: Value,
    /// JSON Schema of the output, object root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether a call may be repeated, and run beside others.
    pub effect: Effect,
    /// Hints of the tool's MCP server; `None` when the tool is not one of MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// The administrator's policy for the tool, which applies in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Which ref of the spec it came from.
    pub from: usize,
    /// The host's own words on what to call; no secrets.
    pub target: Value,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// `tu_…`: also the idempotency key towards the peer.
    pub tool_use_id: String,
    /// Arguments, already checked against the tool's schema.
    pub input: Value,
    /// The span of the call, which the peer is told where its protocol has a place for it; `None` when the run is not traced.
    pub trace: Option<TraceParent>,
}

/// How a call ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// What the model reads; bounded by the host, with a note when it was cut.
    pub content: String,
    /// The tool failed.
    pub is_error: bool,
    /// Files beside the text.
    pub files: Vec<ToolFile>,
}

impl Outcome {
    /// The same without what `redact` takes out of texts: peers like to repeat what they were sent. A file that is no text and holds such a
    /// thing is left out, and the model is told.
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

/// Takes something out of a text; false when it is in what is no text.
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
            files: Vec::new(),
        }
    }
}
