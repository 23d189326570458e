//! Every way in which a user of the server can name a place that the server then connects to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use runloom_ports::error::Result;
use runloom_ports::secret::Secret;
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{
    Invocation, PluginManifest, ToolContext, ToolDefinition, ToolDefinitions, ToolHost as _,
    Toolset,
};
use runloom_protocol::id::RunId;
use runloom_protocol::tools::ToolRef;
use runloom_tools::outbound::{Outbound, OutboundPolicy};
use runloom_tools::{Host, HostParts, PluginSet, SandboxProgram, ToolLimits};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::corpus::PUBLIC;

/// One entry: what a request says, given the URL.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    tool: fn(&str) -> Value,
    /// What the model says; other entries have the URL in their definition.
    input: fn(&str) -> Value,
}

impl Entry {
    /// Its first request is a GET; servers of MCP and an HTTP tool that posts are sent something at once.
    pub(crate) fn asks_without_a_body(&self) -> bool {
        !self.name.contains("MCP") && !self.name.contains("posts")
    }
}

const MESSAGE: fn(&str) -> Value = |_| json!({"message": "hi"});

/// An entry that is a tool of the workspace.
const fn workspace(name: &'static str, tool: fn(&str) -> Value) -> Entry {
    Entry {
        name,
        tool,
        input: MESSAGE,
    }
}

/// The entries that take any URL.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "MCP server of the request",
        tool: |url| json!({"kind": "mcp", "name": "m", "url": url}),
        input: MESSAGE,
    },
    Entry {
        name: "A2A agent of the request",
        tool: |url| json!({"kind": "a2a", "name": "a", "agentCardUrl": url}),
        input: MESSAGE,
    },
    workspace("HTTP tool", |_| json!({"kind": "mantyx", "id": "http"})),
    workspace(
        "HTTP tool that posts",
        |_| json!({"kind": "mantyx", "id": "post"}),
    ),
    workspace("MCP tool", |_| json!({"kind": "mantyx", "id": "mcp"})),
    workspace(
        "MCP tool with its schema",
        |_| json!({"kind": "mantyx", "id": "mcp_schema"}),
    ),
    workspace(
        "external agent",
        |_| json!({"kind": "mantyx", "id": "agent"}),
    ),
    workspace(
        "plugin tool of the workspace",
        |_| json!({"kind": "mantyx", "id": "plugged"}),
    ),
    workspace(
        "HTTP tool of a plugin",
        |_| json!({"kind": "mantyx_plugin", "name": "@p/http"}),
    ),
    workspace(
        "MCP server of a plugin",
        |_| json!({"kind": "mantyx_plugin", "name": "@p/server"}),
    ),
    workspace(
        "tool of a plugin's MCP server",
        |_| json!({"kind": "mantyx_plugin", "name": "@p/echo"}),
    ),
    Entry {
        name: "fetch in a code tool",
        tool: |_| json!({"kind": "mantyx", "id": "code"}),
        input: |url| json!({"url": url}),
    },
    Entry {
        name: "fetch in a code tool of a plugin",
        tool: |_| json!({"kind": "mantyx_plugin", "name": "@p/code"}),
        input: |url| json!({"url": url}),
    },
    Entry {
        name: "@web/fetch",
        tool: |_| json!({"kind": "mantyx_plugin", "name": "@web/fetch"}),
        input: |url| json!({"url": url}),
    },
];

/// HTTP tools with arguments where they could change the place, and what a model would say there.
pub(crate) const TEMPLATES: &[Entry] = &[
    Entry {
        name: "argument as the host",
        tool: |_| json!({"kind": "mantyx", "id": "host"}),
        input: |url| json!({"host": authority(url)}),
    },
    Entry {
        name: "argument as the whole URL",
        tool: |_| json!({"kind": "mantyx", "id": "whole"}),
        input: |url| json!({"url": url}),
    },
    Entry {
        name: "argument behind the host",
        tool: |_| json!({"kind": "mantyx", "id": "behind"}),
        input: |url| json!({"rest": format!("@{}/", authority(url))}),
    },
    Entry {
        name: "argument behind the host, as its port",
        tool: |_| json!({"kind": "mantyx", "id": "behind"}),
        input: |url| json!({"rest": format!(":80@{}/", authority(url))}),
    },
];

fn authority(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// What the workspace defines; all of it leads to one URL. Read without validation, as if that had been fooled.
#[derive(Default)]
struct Trap {
    url: Mutex<String>,
}

impl Trap {
    fn definition(&self, name: &str) -> Option<Value> {
        const CODE: &str = "
            const answer = await fetch(args.url);
            if (!answer.ok) throw new Error(`status ${answer.status}`);
            return await answer.text()";
        let url = self.url.lock().unwrap().clone();
        let schema = json!({"type": "object", "properties": {}});
        Some(match name {
            "http" => json!({"type": "http", "url": url}),
            "post" => {
                json!({"type": "http", "method": "POST", "url": url, "body": {"a": "{{message}}"}})
            }
            "host" => json!({"type": "http", "url": "http://{{host}}/"}),
            "whole" => json!({"type": "http", "url": "{{url}}"}),
            "behind" => json!({"type": "http", "url": format!("http://{PUBLIC}{{{{rest}}}}")}),
            "mcp" => json!({"type": "mcp", "url": url, "tool": "echo"}),
            "mcp_schema" => {
                json!({"type": "mcp", "url": url, "tool": "echo", "parameters": schema})
            }
            "agent" => json!({"type": "a2a", "agentCardUrl": url}),
            "plugged" => json!({"type": "plugin", "plugin": "@p/http"}),
            "code" => json!({"type": "code", "source": CODE, "allowFetch": true}),
            _ => return None,
        })
    }
}

fn named(name: &str, mut definition: Value) -> Value {
    definition["name"] = name.into();
    definition
}

#[async_trait]
impl ToolDefinitions for Trap {
    async fn tool(&self, _: &str, id: &str) -> Result<Option<ToolDefinition>> {
        let definition = self.definition(id).map(|definition| named(id, definition));
        Ok(definition.map(|definition| serde_json::from_value(definition).unwrap()))
    }

    async fn plugins(&self, _: &str) -> Result<Vec<PluginManifest>> {
        let tool = |name: &str| named(name, self.definition(name).unwrap());
        let url = self.url.lock().unwrap().clone();
        let manifest = json!({
            "name": "@p",
            "tools": [tool("http"), tool("code")],
            "servers": [{"name": "server", "url": url, "tools": ["echo"]}],
        });
        Ok(vec![serde_json::from_value(manifest).unwrap()])
    }

    async fn toolset(&self, _: &str, _: &str) -> Result<Option<Toolset>> {
        Ok(None)
    }

    async fn secret(&self, _: &str, _: &str) -> Result<Option<Secret>> {
        Ok(None)
    }
}

/// A host as the server has it.
pub(crate) struct Attacker {
    host: Host,
    trap: Arc<Trap>,
    tasks: Tasks,
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.tasks.shutdown.drain();
    }
}

impl Attacker {
    /// With this of the operator's permissions and no other.
    pub(crate) fn allowed(allow_hosts: Vec<String>) -> Self {
        let (trap, tasks) = (Arc::<Trap>::default(), Tasks::default());
        let policy = OutboundPolicy {
            allow_hosts,
            ..OutboundPolicy::default()
        };
        let parts = HostParts {
            project: None,
            outbound: Outbound::new(policy).unwrap(),
            definitions: Arc::clone(&trap) as _,
            plugins: PluginSet::default(),
            memory: None,
            sandbox: Some(SandboxProgram {
                program: env!("CARGO_BIN_EXE_runloom").into(),
                arguments: vec!["sandbox".to_owned()],
            }),
            limits: ToolLimits::default(),
        };
        Self {
            host: Host::new(parts, &tasks),
            trap,
            tasks,
        }
    }

    /// Resolves and calls, whatever the check says; the check's word and the answers that are no errors come back.
    pub(crate) async fn attack(&self, entry: &Entry, url: &str) -> (Result<()>, Vec<String>) {
        url.clone_into(&mut self.trap.url.lock().unwrap());
        let tool: ToolRef = serde_json::from_value((entry.tool)(url)).unwrap();
        let context = ToolContext {
            session: None,
            project: None,
            workspace: "acme".into(),
            run: RunId::from_suffix(1),
            refs: Arc::new(vec![tool]),
        };
        let attack = async {
            let checked = self.host.check("acme", &context.refs).await;
            let mut got = Vec::new();
            for tool in self.host.resolve(&context, &context.refs).await {
                let call = Invocation {
                    tool_use_id: "tu_1".to_owned(),
                    input: (entry.input)(url),
                    trace: None,
                };
                let calling = self
                    .host
                    .call(&context, &tool, call, CancellationToken::new());
                let outcome = calling.await;
                if !outcome.is_error {
                    got.push(outcome.content);
                }
            }
            (checked, got)
        };
        let attacked = tokio::time::timeout(Duration::from_secs(60), attack).await;
        attacked.unwrap_or_else(|_| panic!("{} does not end: {url}", entry.name))
    }
}
