//! Toolsets of the configuration and of the admin API, in runs of the real program.

use std::path::Path;

use serde_json::{Value, json};

use crate::command_line::CommandLine;
use crate::http::Api;
use crate::server::{Server, runloom};
use crate::sse::{Frame, replay};

const KEY: &str = "mantyx_0123456789abcdefghijklmnop";

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
[platform]
demo = true
[[workspaces]]
slug = "acme"
[[workspaces.api_keys]]
name = "ci"
key_env = "ACME_KEY"
[[workspaces.secrets]]
name = "TOKEN"
value_env = "TOKEN_VALUE"
[[workspaces.toolsets]]
slug = "my-desk"
description = "Says who it is."
transport = "stdio"
command = "python3"
args = ["server.py"]
env = { TOKEN = "{{secret:TOKEN}}" }
tools = ["whoami"]
tool_settings = { whoami = { effect = "read" } }
[[workspaces.toolsets]]
slug = "away"
transport = "streamable_http"
server_url = "http://127.0.0.1:1/mcp"
[outbound]
allow_hosts = ["127.0.0.1"]
"#;

/// A server that listens on its standard streams.
const STDIO: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "desk", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("whoami", "hidden")]}
    else:
        text = f"pid {os.getpid()} token {os.environ['TOKEN']}"
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

fn serve(folder: &Path) -> Server {
    std::fs::write(folder.join("runloom.toml"), CONFIG).unwrap();
    std::fs::write(folder.join("server.py"), STDIO).unwrap();
    let mut command = runloom(&["serve", "--config", "runloom.toml"]);
    command
        .env("RUNLOOM_MASTER_KEY", "0123456789abcdef0123456789abcdef")
        .env("RUNLOOM_ADMIN_TOKEN", "the-admin-token-of-tests")
        .env("ACME_KEY", KEY)
        .env("TOKEN_VALUE", "canary-4711");
    let mut server = Server::spawn(command, folder);
    let line = server.line();
    let address = line.strip_prefix("listening on http://");
    server.address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    server.ready = json!({"adminToken": "the-admin-token-of-tests"});
    server
}

fn body(toolset: &str, prompt: &str) -> Value {
    json!({"systemPrompt": "Help.", "modelId": "platform:demo", "prompt": prompt,
           "tools": [{"kind": "toolset", "name": toolset}]})
}

/// The result of the one tool call of a run.
fn result(api: &Api, toolset: &str, prompt: &str) -> Value {
    let run = api.run(&body(toolset, prompt));
    let frames = replay(api, &run).unwrap();
    let mut results = frames.iter().filter(|frame| frame.kind() == "tool_result");
    results.next().map(Frame::data).unwrap_or_default()
}

#[test]
fn a_process_toolset_serves_runs_and_belongs_to_the_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serve(folder.path());
    let api = Api {
        address: server.address.clone(),
        workspace: "acme".to_owned(),
        key: KEY.to_owned(),
    };
    let said = result(&api, "my-desk", "call my_desk_whoami {}");
    let text = said["result"].as_str().unwrap();
    assert!(text.ends_with("token ***"), "{said}");
    let again = result(&api, "my-desk", "call my_desk_whoami {}");
    assert_eq!(again["result"], text, "one process for all runs");
    let hidden = result(&api, "my-desk", "call my_desk_hidden {}");
    assert_eq!(hidden["ok"], false, "{hidden}");
    let away = result(&api, "away", "call away_unavailable {}");
    assert_eq!(away["ok"], false, "{away}");
    let refused = api.post("/agent-runs", &body("nowhere", "hi"));
    assert_eq!(refused.refusal(), (400, "invalid_request".to_owned()));
    assert_eq!(refused.json()["issues"][0]["path"], "tools[0].name");

    let base = "/api/admin/v1/workspaces/acme/toolsets";
    let admin = |method: &str, path: &str, body: &Value| {
        server.admin(method, &format!("{base}{path}"), body)
    };
    let listed = admin("GET", "", &Value::Null).json();
    let installed = json!([{"name": "my-desk", "transport": "stdio", "source": "operator",
                            "description": "Says who it is.", "tools": ["whoami"]}]);
    assert_eq!(listed["installed"], installed);
    assert_eq!(listed["toolsets"][0]["slug"], "away");
    let http = json!({"transport": "sse", "serverUrl": "https://a.example/sse"});
    for (method, body) in [("PUT", &http), ("DELETE", &Value::Null)] {
        let reply = admin(method, "/my-desk", body);
        assert_eq!(reply.refusal(), (409, "conflict".to_owned()), "{method}");
    }
    let tools = admin("GET", "/my-desk/tools", &Value::Null).json();
    let schema = json!({"type": "object"});
    let whoami = json!({"name": "whoami", "modelName": "my_desk_whoami", "description": "whoami",
                        "inputSchema": schema, "effect": "read",
                        "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true}});
    assert_eq!(tools, json!({"tools": [whoami]}));
    let away = admin("GET", "/away/tools", &Value::Null);
    assert_eq!(away.refusal(), (503, "unavailable".to_owned()));

    let pid = text.split(' ').nth(1).unwrap().to_owned();
    assert!(Path::new("/proc").join(&pid).exists());
    assert!(server.stop().success());
    assert!(
        !Path::new("/proc").join(&pid).exists(),
        "process {pid} was left behind"
    );
    assert!(!server.said().contains("canary-4711"));
}

#[test]
fn toolsets_are_managed_from_the_command_line() {
    let command_line = CommandLine::new();
    let toolset = json!({"slug": "docs", "transport": "streamable_http", "serverUrl": "https://docs.example/mcp",
                         "headers": {"Authorization": "Bearer canary-4711"}});
    std::fs::write(
        command_line.folder.path().join("docs.json"),
        toolset.to_string(),
    )
    .unwrap();
    let command = |arguments: &[&str]| {
        let mut all = vec!["admin", "--json", "toolset"];
        all.extend(arguments);
        all.extend(["--workspace", "demo"]);
        command_line.json(&all)
    };
    let put = command(&["put", "--file", "docs.json"]);
    assert_eq!(put["slug"], "docs");
    let shown = command(&["show", "docs"]);
    assert_eq!(shown["definition"]["headers"]["Authorization"], "***");
    let listed = command(&["list"]);
    assert_eq!(listed["documents"][0]["slug"], "docs");
    assert_eq!(listed["installed"], json!([]));
    assert_eq!(command(&["delete", "docs"]), json!({"ok": true}));
    assert_eq!(command(&["list"])["documents"], json!([]));
}
