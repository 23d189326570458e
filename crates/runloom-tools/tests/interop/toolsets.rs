//! Toolsets whose servers nobody here wrote: the reference servers over stdio, FastMCP over Streamable HTTP and SSE.

use runloom_ports::effect::Effect;
use runloom_ports::tools::{Outcome, ServerTool, ToolContext};
use runloom_protocol::validate::{DefinitionSource, toolset_definition};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peer::{Peer, TestBed, node_program};

/// A run that uses a toolset `real`.
struct ToolsetRun {
    bed: TestBed,
    context: ToolContext,
    tools: Vec<ServerTool>,
}

impl ToolsetRun {
    async fn start(body: &Value) -> Self {
        let definition = toolset_definition(body, "real", DefinitionSource::Operator).unwrap();
        let bed = TestBed::with_toolset("real", definition);
        let refs = json!([{"kind": "toolset", "name": "real"}]);
        let (context, tools) = bed.resolve(&refs).await;
        assert!(tools.len() > 1, "{tools:?}");
        Self {
            bed,
            context,
            tools,
        }
    }

    async fn stdio(program: &str, args: &[&str]) -> Self {
        let command = node_program(program);
        let body =
            json!({"transport": "stdio", "command": command, "args": args, "timeoutMs": 60_000});
        Self::start(&body).await
    }

    fn tool(&self, name: &str) -> &ServerTool {
        let found = self.tools.iter().find(|tool| tool.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.tools))
    }

    async fn call(&self, name: &str, input: Value) -> Outcome {
        let tool = self.tool(name);
        let cancel = CancellationToken::new();
        self.bed.call(&self.context, tool, input, cancel).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_system_server_as_a_toolset() {
    let folder = std::env::temp_dir().join(format!("runloom-toolset-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    std::fs::write(folder.join("note.txt"), "written outside").unwrap();
    let run = ToolsetRun::stdio("mcp-server-filesystem", &[folder.to_str().unwrap()]).await;
    assert_eq!(run.tool("real_read_text_file").effect, Effect::Read);
    let hints = run.tool("real_write_file").annotations.unwrap();
    assert_eq!(hints.destructive_hint, Some(true));
    let note = json!({"path": folder.join("note.txt")});
    let read = run.call("real_read_text_file", note).await;
    assert!(read.content.contains("written outside"), "{read:?}");
    let new = json!({"path": folder.join("new.txt"), "content": "by a tool"});
    let wrote = run.call("real_write_file", new).await;
    assert!(!wrote.is_error, "{wrote:?}");
    let text = std::fs::read_to_string(folder.join("new.txt")).unwrap();
    assert_eq!(text, "by a tool");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reference_server_as_a_toolset() {
    let run = ToolsetRun::stdio("mcp-server-everything", &["stdio"]).await;
    let echo = run.call("real_echo", json!({"message": "hi"})).await;
    assert!(!echo.is_error && echo.content.contains("hi"), "{echo:?}");
    let image = run.call("real_get_tiny_image", json!({})).await;
    assert_eq!(image.files.len(), 1, "{image:?}");
    let data = &image.files[0].data;
    assert!(!image.content.contains(&data[..40]), "{}", image.content);
}

async fn check_fastmcp(transport: &str, argument: &str, path: &str) {
    let peer = Peer::python("fastmcp", "fastmcp_server.py", argument);
    let body = json!({"transport": transport, "serverUrl": format!("{}{path}", peer.url)});
    let run = ToolsetRun::start(&body).await;
    assert_eq!(run.tool("real_greet").effect, Effect::Read);
    let greeting = run.call("real_greet", json!({"name": "Ada"})).await;
    assert_eq!(
        greeting.content, "Hello, Ada!",
        "a wrapped text is unwrapped"
    );
    let weather = run.call("real_weather", json!({"city": "Oslo"})).await;
    let weather: Value = serde_json::from_str(&weather.content).unwrap();
    assert_eq!(weather, json!({"city": "Oslo", "celsius": 12}));
    let picture = run.call("real_picture", json!({})).await;
    assert_eq!(picture.files.len(), 1, "{picture:?}");
    assert!(!picture.content.contains("iVBORw0"), "{picture:?}");
    let failed = run.call("real_fail", json!({})).await;
    assert!(
        failed.is_error && failed.content.contains("it broke"),
        "{failed:?}"
    );
    let cancel = CancellationToken::new();
    let tool = run.tool("real_wait");
    let waiting = run.bed.call(&run.context, tool, json!({}), cancel.clone());
    let cancelling = async {
        tokio::task::block_in_place(|| peer.line_with("waiting"));
        cancel.cancel();
    };
    let (cancelled, ()) = tokio::join!(waiting, cancelling);
    assert!(cancelled.is_error, "{cancelled:?}");
    peer.line_with("cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_over_streamable_http() {
    check_fastmcp("streamable_http", "http", "/mcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_over_server_sent_events() {
    check_fastmcp("sse", "sse", "/sse").await;
}
