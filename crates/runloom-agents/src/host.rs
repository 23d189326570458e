//! Tools of the caller's process behind the engine's tool port.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join_all;
use runloom_ports::effect::Effect;
use runloom_ports::error::Result;
use runloom_ports::file::FileReader;
use runloom_ports::sealer::{SealError, Sealer};
use runloom_ports::tools::{
    FetchedFile, Invocation, NoTools, Outcome, ServerTool, ToolContext, ToolHost,
};
use runloom_protocol::attachment::Attachment;
use runloom_protocol::resource::{InstalledPlugin, ToolsetTool};
use runloom_protocol::tools::ToolRef;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::assembly::{Assembly, Source};
use crate::toolset::ToolInfo;

/// Time that a toolset has to list its tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest model-facing name.
const NAME_MAX: usize = 64;

/// Executes the tools of an assembly.
#[derive(Debug)]
pub(crate) struct InProcessHost(pub(crate) Arc<Assembly>);

impl InProcessHost {
    async fn listed(&self, name: &str, index: usize) -> Vec<ServerTool> {
        let Some(source) = self.0.get(name) else {
            return Vec::new();
        };
        let listing = AssertUnwindSafe(source.toolset.list_tools()).catch_unwind();
        let reason = match tokio::time::timeout(LIST_TIMEOUT, listing).await {
            Ok(Ok(Ok(tools))) => {
                let tools = tools.into_iter();
                return tools
                    .map(|tool| exposed(source, name, index, tool))
                    .collect();
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "it panicked while it listed its tools".to_owned(),
            Err(_) => format!("it did not list its tools within {LIST_TIMEOUT:?}"),
        };
        let shown = source.toolset.name();
        let info = ToolInfo {
            name: "unavailable".to_owned(),
            description: format!(
                "The toolset {shown} is unavailable. Calling this tool returns the reason."
            ),
            input_schema: json!({"type": "object", "properties": {}}),
            output_schema: None,
            annotations: None,
            effect: Effect::Read,
        };
        let mut tool = exposed(source, name, index, info);
        tool.target =
            json!({"unavailable": format!("The toolset {shown} is unavailable: {reason}")});
        vec![tool]
    }
}

fn exposed(source: &Source, from: &str, index: usize, tool: ToolInfo) -> ServerTool {
    let shown = match source.is_own {
        true => tool.name.clone(),
        false => format!("{}_{}", source.toolset.name(), tool.name),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    ServerTool {
        name: shown.chars().map(plain).take(NAME_MAX).collect(),
        description: tool.description,
        parameters: tool.input_schema,
        output_schema: tool.output_schema,
        effect: tool.effect,
        annotations: tool.annotations,
        policy: None,
        from: index,
        target: json!({"source": from, "tool": tool.name}),
        action_effects: None,
    }
}

/// Gives each of several tools of one name a name of its own.
fn make_unique(tools: &mut [ServerTool]) {
    let mut taken = HashSet::new();
    for tool in tools {
        let stem: String = tool.name.chars().take(NAME_MAX - 4).collect();
        let mut number = 2;
        while !taken.insert(tool.name.clone()) {
            tool.name = format!("{stem}_{number}");
            number += 1;
        }
    }
}

fn failure(message: impl Into<String>) -> Outcome {
    Outcome {
        content: message.into(),
        is_error: true,
        ..Outcome::default()
    }
}

#[async_trait]
impl ToolHost for InProcessHost {
    async fn check(&self, _workspace: &str, _refs: &[ToolRef]) -> Result<()> {
        Ok(())
    }

    async fn resolve(&self, _context: &ToolContext, refs: &[ToolRef]) -> Vec<ServerTool> {
        let listing = refs.iter().enumerate().map(|(index, tool)| async move {
            match tool {
                ToolRef::Toolset(toolset) => self.listed(&toolset.name, index).await,
                _ => Vec::new(),
            }
        });
        let mut tools: Vec<ServerTool> = join_all(listing).await.into_iter().flatten().collect();
        make_unique(&mut tools);
        tools
    }

    async fn call(
        &self,
        _context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let text = |key: &str| tool.target.get(key).and_then(Value::as_str);
        if let Some(reason) = text("unavailable") {
            return failure(reason);
        }
        let source = text("source").and_then(|name| self.0.get(name));
        let (Some(source), Some(own)) = (source, text("tool")) else {
            return failure("The agent has no such tool any more.");
        };
        // The token is also cancelled when the run is dropped.
        let token = cancel.child_token();
        let _guard = token.clone().drop_guard();
        let calling = source.toolset.invoke(own, call.input, token.clone());
        let calling = AssertUnwindSafe(calling).catch_unwind();
        let called = tokio::select! {
            called = calling => called,
            () = cancel.cancelled() => return failure("The call was cancelled."),
        };
        match called {
            Ok(Ok(output)) => Outcome {
                content: output.text().to_owned(),
                ..Outcome::default()
            },
            Ok(Err(error)) => failure(error.to_string()),
            Err(_) => failure("The tool panicked. Its outcome is unknown."),
        }
    }

    async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        NoTools.installed(workspace).await
    }

    async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Option<Vec<ToolsetTool>>> {
        NoTools.toolset_tools(workspace, name).await
    }

    fn check_address(&self, url: &str) -> std::result::Result<(), String> {
        NoTools.check_address(url)
    }

    async fn fetch(
        &self,
        url: &str,
        max_bytes: usize,
        timeout: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        NoTools.fetch(url, max_bytes, timeout).await
    }
}

/// Files stay as they are: tools of the process return none.
#[derive(Debug)]
pub(crate) struct PlainFiles;

#[async_trait]
impl FileReader for PlainFiles {
    async fn read_leniently(&self, files: Vec<Attachment>, _max_bytes: usize) -> Vec<Attachment> {
        files
    }
}

/// Specs of the process have no secrets to seal.
#[derive(Debug)]
pub(crate) struct NothingSealed;

impl Sealer for NothingSealed {
    fn seal(&self, _place: &str, clear: &str) -> std::result::Result<String, SealError> {
        Ok(clear.to_owned())
    }

    fn open(&self, _place: &str, sealed: &str) -> std::result::Result<String, SealError> {
        Ok(sealed.to_owned())
    }
}
