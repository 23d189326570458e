//! MCP servers of the official packages.

use runloom_ports::effect::Effect;
use runloom_ports::tools::{Outcome, ServerTool, ToolContext};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peer::{Peer, TestBed};

struct Server {
    bed: TestBed,
    context: ToolContext,
    tools: Vec<ServerTool>,
}

impl Server {
    async fn of(peer: &Peer) -> Self {
        let bed = TestBed::new();
        let url = format!("{}/mcp", peer.url);
        let refs = json!([{"kind": "mcp", "name": "real", "url": url}]);
        let (context, tools) = bed.resolve(&refs).await;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert!(names.len() > 1, "{:?}", tools);
        Self {
            bed,
            context,
            tools,
        }
    }

    fn tool(&self, name: &str) -> &ServerTool {
        let found = self.tools.iter().find(|tool| tool.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.tools))
    }

    async fn call(&self, name: &str, input: Value) -> Outcome {
        let cancel = CancellationToken::new();
        self.bed
            .call(&self.context, self.tool(name), input, cancel)
            .await
    }
}

async fn check_python_server(environment: &str, mode: &str) {
    let peer = Peer::python(environment, "mcp_server.py", mode);
    let server = Server::of(&peer).await;
    assert_eq!(server.tool("real_add").effect, Effect::Read);
    assert_eq!(server.tool("real_fail").effect, Effect::Once);
    let sum = server.call("real_add", json!({"a": 2, "b": 3})).await;
    assert!(!sum.is_error, "{sum:?}");
    let value: Value = serde_json::from_str(&sum.content).unwrap();
    assert_eq!(value["sum"], 5, "{sum:?}");
    let picture = server.call("real_picture", json!({})).await;
    assert_eq!(picture.content, "a pixel");
    assert_eq!(picture.files[0].mime_type, "image/png");
    let fail = server.call("real_fail", json!({})).await;
    assert!(
        fail.is_error && fail.content.contains("executing tool fail"),
        "{fail:?}"
    );
    let work = server.call("real_work", json!({"steps": 3})).await;
    assert!(work.content.contains("worked"), "{work:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_python_sdk_with_sessions() {
    check_python_server("mcp-newest", "sessions").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_python_sdk_without_sessions() {
    check_python_server("mcp-newest", "stateless").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_python_sdk_with_plain_json() {
    check_python_server("mcp-newest", "json").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_python_sdk_with_sessions() {
    check_python_server("mcp-1", "sessions").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_python_sdk_with_plain_json() {
    check_python_server("mcp-1", "json").await;
}

async fn check_python_server_after_a_restart(environment: &str) {
    let peer = Peer::python(environment, "mcp_server.py", "sessions");
    let server = Server::of(&peer).await;
    let port = peer.url.rsplit(':').next().unwrap().to_owned();
    drop(peer);
    let _peer = Peer::python_at(&port, environment, "mcp_server.py", "sessions");
    let sum = server.call("real_add", json!({"a": 2, "b": 3})).await;
    assert!(!sum.is_error && sum.content.contains('5'), "{sum:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_python_sdk_after_a_restart() {
    check_python_server_after_a_restart("mcp-newest").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_python_sdk_after_a_restart() {
    check_python_server_after_a_restart("mcp-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_reference_server() {
    let peer = Peer::node("mcp-server-everything", "streamableHttp");
    let server = Server::of(&peer).await;
    let echo = server.call("real_echo", json!({"message": "hi"})).await;
    assert!(!echo.is_error && echo.content.contains("hi"), "{echo:?}");
    let image = server.call("real_get_tiny_image", json!({})).await;
    assert_eq!(image.files.len(), 1, "{image:?}");
    let sum = server.call("real_get_sum", json!({"a": 2, "b": 3})).await;
    assert!(sum.content.contains('5'), "{sum:?}");
    let long = json!({"duration": 2, "steps": 4});
    let long = server
        .call("real_trigger_long_running_operation", long)
        .await;
    assert!(!long.is_error, "{long:?}");
}
