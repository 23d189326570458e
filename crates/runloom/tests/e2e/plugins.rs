//! Plugins of the configuration, of the admin API and of the server itself, in runs of the real program.

use std::path::Path;

use serde_json::{Value, json};

use crate::command_line::{CommandLine, err};
use crate::http::Api;
use crate::server::{Server, runloom};
use crate::sse::{Frame, replay};

const KEY: &str = "mantyx_0123456789abcdefghijklmnop";

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
[platform]
demo = true
[[plugins]]
path = "plugins/greet"
[[plugins]]
path = "plugins/local"
workspaces = ["acme"]
[[plugins]]
slug = "time"
enabled = false
[[workspaces]]
slug = "acme"
[[workspaces.api_keys]]
name = "ci"
key_env = "ACME_KEY"
[[workspaces.secrets]]
name = "TOKEN"
value_env = "TOKEN_VALUE"
[[workspaces.plugins]]
path = "plugins/own"
"#;

const GREET: &str = r#"
name = "@greet"
version = "1.0.0"
description = "Greets people."
global = true

[[tools]]
name = "hello"
type = "code"
file = "hello.js"
parameters = { type = "object", properties = { name = { type = "string" } }, required = ["name"] }
"#;

const HELLO: &str = "export default function ({ name }) { return `Hello ${name}!`; }";

const LOCAL: &str = r#"
name = "local"
[[servers]]
name = "command_line"
command = "python3"
args = ["server.py"]
env = { TOKEN = "{{secret:TOKEN}}" }
"#;

const OWN: &str = r#"{"name": "@own", "tools": [{"name": "twice", "type": "code", "source": "return args.n * 2"}]}"#;

/// A server that listens on its standard streams, small enough to be read here.
const STDIO: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "command_line", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "whoami", "description": "says who", "inputSchema": {"type": "object"}}]}
    else:
        text = f"pid {os.getpid()} token {os.environ['TOKEN']} admin {os.environ.get('RUNLOOM_ADMIN_TOKEN')}"
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn house() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "runloom.toml", CONFIG);
    write(folder.path(), "plugins/greet/plugin.toml", GREET);
    write(folder.path(), "plugins/greet/hello.js", HELLO);
    write(folder.path(), "plugins/local/plugin.toml", LOCAL);
    write(folder.path(), "plugins/local/server.py", STDIO);
    write(folder.path(), "plugins/own/plugin.json", OWN);
    folder
}

fn serve(folder: &Path) -> Server {
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

fn acme(server: &Server) -> Api {
    Api {
        address: server.address.clone(),
        workspace: "acme".to_owned(),
        key: KEY.to_owned(),
    }
}

fn body(tools: &[&str], prompt: &str) -> Value {
    let named = |name: &&str| json!({"kind": "mantyx_plugin", "name": name});
    let tools: Vec<Value> = tools.iter().map(named).collect();
    json!({"systemPrompt": "Help.", "modelId": "platform:demo", "tools": tools, "prompt": prompt})
}

/// The frames of a run with these plugin tools, to its end.
fn frames(api: &Api, tools: &[&str], prompt: &str) -> Vec<Frame> {
    let run = api.run(&body(tools, prompt));
    replay(api, &run).unwrap()
}

/// The result of the one tool call of a run.
fn result(api: &Api, tool: &str, prompt: &str) -> Value {
    let frames = frames(api, &[tool], prompt);
    let of_kind = |kind: &str| -> Vec<Value> {
        let found = frames.iter().filter(|frame| frame.kind() == kind);
        found.map(Frame::data).collect()
    };
    let (calls, mut results) = (of_kind("tool_call"), of_kind("tool_result"));
    assert_eq!((calls.len(), results.len()), (1, 1), "{results:?}");
    assert_eq!(calls[0]["toolUseId"], results[0]["toolUseId"]);
    assert_eq!(frames.last().unwrap().kind(), "result");
    results.remove(0)
}

fn refused(api: &Api, tool: &str) -> (u16, String) {
    api.post("/agent-runs", &body(&[tool], "hi")).refusal()
}

#[test]
fn configured_plugins_run_and_end_with_the_server() {
    let folder = house();
    let mut server = serve(folder.path());
    let api = acme(&server);
    let said = result(&api, "@greet/hello", r#"call hello {"name": "Ada"}"#);
    assert_eq!(
        (&said["ok"], &said["result"]),
        (&json!(true), &json!("Hello Ada!"))
    );
    let said = result(&api, "hello", r#"call hello {"name": "Bob"}"#);
    assert_eq!(
        said["result"], "Hello Bob!",
        "a global plugin's tool by its bare name"
    );
    let said = result(&api, "@own/twice", r#"call twice {"n": 21}"#);
    assert_eq!(said["result"], "42");
    let said = result(&api, "@local/whoami", "call whoami {}");
    let text = said["result"].as_str().unwrap();
    assert!(text.ends_with("token *** admin None"), "{text}");
    let pid = text.split(' ').nth(1).unwrap().to_owned();
    let again = result(&api, "@local/command_line", "call command_line_whoami {}");
    assert_eq!(again["result"], text, "one process for all runs");
    assert_eq!(
        refused(&api, "@time/now"),
        (400, "invalid_plugin".to_owned())
    );
    assert_eq!(
        refused(&api, "@greet/goodbye"),
        (400, "invalid_plugin".to_owned())
    );
    let rival = server.tenant("rival");
    assert_eq!(
        refused(&rival, "@local/whoami"),
        (400, "invalid_plugin".to_owned())
    );
    assert_eq!(
        refused(&rival, "@own/twice"),
        (400, "invalid_plugin".to_owned())
    );
    let said = result(&rival, "@greet/hello", r#"call hello {"name": "Eve"}"#);
    assert_eq!(said["result"], "Hello Eve!");
    assert!(Path::new("/proc").join(&pid).exists());
    assert!(server.stop().success());
    assert!(
        !Path::new("/proc").join(&pid).exists(),
        "process {pid} was left behind"
    );
    assert!(!server.said().contains("canary-4711"));
}

#[test]
fn installs_a_plugin_with_files() {
    let command_line = CommandLine::new();
    let api = command_line.server.api();
    let path = "/api/admin/v1/workspaces/demo/plugins/greet";
    let tool = json!({"type": "code", "name": "hello", "file": "hello.js"});
    let manifest = json!({"name": "@greet", "tools": [tool], "files": {"hello.js": HELLO}});
    let put = command_line.server.admin("PUT", path, &manifest);
    assert_eq!(put.status, 201, "{put:?}");
    assert_eq!(put.json()["definition"]["tools"][0]["source"], HELLO);
    let said = result(&api, "@greet/hello", r#"call hello {"name": "Ada"}"#);
    assert_eq!(said["result"], "Hello Ada!");
    assert_eq!(
        refused(&api, "hello"),
        (400, "invalid_plugin".to_owned()),
        "it is not global"
    );
}

#[test]
fn admin_api_refuses_processes() {
    let command_line = CommandLine::new();
    let path = "/api/admin/v1/workspaces/demo/plugins/greet";
    let process = json!({"servers": [{"name": "x", "command": "sh"}]});
    let put = command_line.server.admin("PUT", path, &process);
    assert_eq!(put.status, 400);
    assert_eq!(put.json()["issues"][0]["path"], "servers[0].command");
    let bad = json!({"name": "@other", "tools": [{"type": "soap"}], "files": {"a.js": "x"}});
    let put = command_line.server.admin("PUT", path, &bad).json();
    let paths: Vec<&str> = put["issues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["files.a.js", "name", "tools[0].type", "tools[0].name"]
    );
}

#[test]
fn manages_plugin_folders() {
    let command_line = CommandLine::new();
    let api = command_line.server.api();
    write(command_line.folder.path(), "greet/plugin.toml", GREET);
    write(
        command_line.folder.path(),
        "greet/hello.js",
        &HELLO.replace("Hello", "Hei"),
    );
    let install = [
        "admin",
        "plugin",
        "install",
        "--workspace",
        "demo",
        "greet",
        "--json",
    ];
    assert_eq!(command_line.json(&install)["slug"], "greet");
    let said = result(&api, "hello", r#"call hello {"name": "Ada"}"#);
    assert_eq!(said["result"], "Hei Ada!");
    let listed = command_line.json(&["admin", "plugins", "list", "--workspace", "demo", "--json"]);
    assert_eq!(listed["documents"][0]["slug"], "greet");
    assert_eq!(listed["installed"][0]["name"], "@web");
    assert_eq!(listed["installed"][0]["source"], "shipped");
    let shown = command_line.json(&[
        "admin",
        "plugins",
        "show",
        "--workspace",
        "demo",
        "greet",
        "--json",
    ]);
    assert_eq!(shown["definition"]["version"], "1.0.0");
    let once = [
        "admin",
        "plugin",
        "install",
        "--workspace",
        "demo",
        "greet",
        "--create-only",
    ];
    assert!(!command_line.ended(&once).status.success());
    command_line.json(&[
        "admin",
        "plugins",
        "remove",
        "--workspace",
        "demo",
        "greet",
        "--json",
    ]);
    assert_eq!(
        refused(&api, "@greet/hello"),
        (400, "invalid_plugin".to_owned())
    );

    let empty = command_line.ended(&["admin", "plugin", "install", "--workspace", "demo", "."]);
    assert!(
        err(&empty).contains("neither plugin.toml nor plugin.json"),
        "{}",
        err(&empty)
    );
}

#[test]
fn memories_belong_to_a_workspace() {
    let command_line = CommandLine::new();
    let api = command_line.server.api();
    let remember =
        |input: &Value| result(&api, "@memory/remember", &format!("call remember {input}"));
    let said = remember(&json!({"key": "ada", "text": "Ada leads the harbour project"}));
    assert_eq!(said["ok"], true, "{said}");
    remember(
        &json!({"key": "budget", "text": "Three million", "links": [{"relation": "pays", "to": "ada"}]}),
    );
    let again = remember(&json!({"key": "budget", "text": "Four million"}));
    let kept: Value = serde_json::from_str(again["result"].as_str().unwrap()).unwrap();
    assert_eq!(kept, json!({"key": "budget", "created": false}));
    let lost = remember(&json!({"text": "x", "links": [{"relation": "r", "to": "nobody"}]}));
    assert_eq!(lost["ok"], false, "{lost}");
    let said = lost["result"].as_str().unwrap();
    assert!(said.contains("links: there are no memories"), "{said}");

    let recall = |api: &Api, query: &str| -> Value {
        let said = result(
            api,
            "recall",
            &format!("call recall {}", json!({"query": query})),
        );
        serde_json::from_str(said["result"].as_str().unwrap()).unwrap()
    };
    let found = recall(&api, "who leads the harbour project?");
    assert_eq!(found["memories"][0]["key"], "ada", "{found}");
    assert_eq!(found["memories"][1]["text"], "Four million", "{found}");
    assert_eq!(
        found["links"][0],
        json!({"from": "budget", "relation": "pays", "to": "ada"})
    );
    let walked = result(
        &api,
        "@memory/traverse",
        r#"call traverse {"key": "ada", "hops": 1}"#,
    );
    assert!(
        walked["result"].as_str().unwrap().contains("Four million"),
        "{walked}"
    );
    let rival = command_line.server.tenant("rival");
    assert_eq!(recall(&rival, "harbour project")["memories"], json!([]));

    let listed = command_line.json(&["admin", "memory", "list", "--workspace", "demo", "--json"]);
    assert_eq!(listed["memories"].as_array().unwrap().len(), 2, "{listed}");
    let forget = [
        "admin",
        "memory",
        "forget",
        "--workspace",
        "demo",
        "ada",
        "--json",
    ];
    assert_eq!(command_line.json(&forget), json!({"forgotten": 1}));
    assert_eq!(recall(&api, "harbour")["memories"], json!([]));
    let base = "/api/admin/v1/workspaces/demo/memories";
    let refused = command_line.server.admin("DELETE", base, &json!({}));
    assert_eq!(
        refused.status, 400,
        "without a word on how old, nothing is deleted"
    );
    let all = command_line
        .server
        .admin("DELETE", &format!("{base}?olderThanDays=0"), &json!({}));
    assert_eq!(all.json(), json!({"forgotten": 1}));
    let page = command_line
        .server
        .admin("GET", &format!("{base}?limit=1"), &json!({}));
    assert_eq!(page.json(), json!({"memories": [], "nextCursor": null}));
    assert_eq!(
        command_line
            .server
            .admin("DELETE", &format!("{base}/ada"), &json!({}))
            .status,
        404
    );
}

#[test]
fn recall_keeps_its_tool_budget() {
    let command_line = CommandLine::new();
    let calls: Vec<String> = (1..=5)
        .map(|n| format!("call recall {}", json!({"query": format!("q{n}")})))
        .collect();
    let frames = frames(
        &command_line.server.api(),
        &["@memory/recall"],
        &calls.join("\n"),
    );
    let exceeded: Vec<Value> = frames
        .iter()
        .filter(|f| f.kind() == "tool_budget_exceeded")
        .map(Frame::data)
        .collect();
    assert_eq!(
        exceeded,
        [json!({"tool": "recall", "maxCalls": 4, "callIndex": 5})]
    );
}

#[test]
fn reports_invalid_configured_plugins() {
    let folder = house();
    let more = "\n[[plugins]]\nslug = \"bad\"\ncolour = 1\n[[plugins.servers]]\nname = \"a b\"\n[[plugins]]\npath = \"nowhere\"\n";
    write(folder.path(), "runloom.toml", &format!("{CONFIG}{more}"));
    write(
        folder.path(),
        "plugins/own/plugin.json",
        r#"{"name": "@own", "servers": [{"name": "x", "command": "sh"}]}"#,
    );
    let mut command = runloom(&["config", "check"]);
    command
        .current_dir(folder.path())
        .env("ACME_KEY", KEY)
        .env("TOKEN_VALUE", "x");
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let told = crate::command_line::out(&output) + &err(&output);
    for part in [
        "plugins[3].colour: unknown field",
        "plugins[3].servers[0].name",
        "plugins[3].servers[0].url: is required, unless there is a `command`",
        "plugins[4].path",
        "servers[0].command a process can be started only by",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
}
