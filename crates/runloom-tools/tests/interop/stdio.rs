//! MCP servers of the official packages as processes of a plugin.

use runloom_ports::tools::{Outcome, ServerTool, ToolContext};
use runloom_protocol::validate::{DefinitionSource, plugin_manifest};
use runloom_tools::{ConfiguredPlugin, PluginSet};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peer::{TestBed, node_program};

/// A plugin `@p` with one server `real`, and all of its tools.
async fn all_tools(program: &str, args: &[&str]) -> (TestBed, ToolContext, Vec<ServerTool>) {
    let command = node_program(program);
    let body = json!({"servers": [{"name": "real", "command": command, "args": args}]});
    let manifest = plugin_manifest(&body, "p", DefinitionSource::Operator).unwrap();
    let bed = TestBed::with(PluginSet {
        installed: vec![ConfiguredPlugin {
            manifest,
            workspaces: None,
        }],
        without: Vec::new(),
    });
    let refs = json!([{"kind": "mantyx_plugin", "name": "@p/real"}]);
    let (context, tools) = bed.resolve(&refs).await;
    assert!(tools.len() > 1, "{tools:?}");
    (bed, context, tools)
}

async fn call(
    (bed, context, tools): &(TestBed, ToolContext, Vec<ServerTool>),
    name: &str,
    input: Value,
) -> Outcome {
    let found = tools.iter().find(|tool| tool.name == name);
    let tool = found.unwrap_or_else(|| panic!("no {name} in {tools:?}"));
    bed.call(context, tool, input, CancellationToken::new())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn reference_server_as_a_process() {
    let server = all_tools("mcp-server-everything", &["stdio"]).await;
    let echo = call(&server, "real_echo", json!({"message": "hi"})).await;
    assert!(!echo.is_error && echo.content.contains("hi"), "{echo:?}");
    let image = call(&server, "real_get_tiny_image", json!({})).await;
    assert_eq!(image.files.len(), 1, "{image:?}");
    let long = json!({"duration": 2, "steps": 4});
    let long = call(&server, "real_trigger_long_running_operation", long).await;
    assert!(!long.is_error, "{long:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_system_server_as_a_process() {
    let folder = std::env::temp_dir().join(format!("runloom-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    std::fs::write(folder.join("note.txt"), "written outside").unwrap();
    let allowed = folder.to_str().unwrap();
    let server = all_tools("mcp-server-filesystem", &[allowed]).await;
    let note = json!({"path": folder.join("note.txt")});
    let read = call(&server, "real_read_text_file", note).await;
    assert!(read.content.contains("written outside"), "{read:?}");
    let new = json!({"path": folder.join("new.txt"), "content": "by a tool"});
    let wrote = call(&server, "real_write_file", new).await;
    assert!(!wrote.is_error, "{wrote:?}");
    let text = std::fs::read_to_string(folder.join("new.txt")).unwrap();
    assert_eq!(text, "by a tool");
    let outside = call(
        &server,
        "real_read_text_file",
        json!({"path": "/etc/hostname"}),
    )
    .await;
    assert!(outside.is_error, "{outside:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
