//! Agents, tools and secrets: declared in the file, put from the command line, used by runs; and a change of the
//! master key.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{Server, runloom, stderr, stdout};

const CANARY: &str = "canary-51d0-do-not-show";
const KEY: &str = "mantyx_0123456789abcdefghijklmnop";

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
[log]
level = "trace"
[platform]
demo = true
[[workspaces]]
slug = "acme"
[[workspaces.api_keys]]
name = "ci"
key_env = "ACME_KEY"
[[workspaces.secrets]]
name = "DECLARED"
value_env = "DECLARED_SECRET"
[[workspaces.agents]]
slug = "declared"
system_prompt = "You were declared."
model = "platform:demo"
tools = [ { kind = "local", name = "look", read_only = true } ]
[[workspaces.tools]]
slug = "weather"
type = "http"
url = "https://weather.example/{{city}}"
headers = { Authorization = "Bearer {{secret:DECLARED}}" }
"#;

struct House {
    folder: tempfile::TempDir,
    url: String,
}

impl House {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server with a master key, and the one before when it is given.
    fn serve(&mut self, master: &str, previous: Option<&str>) -> Server {
        let previous = previous.map(|key| ("RUNLOOM_MASTER_KEY_PREVIOUS", key));
        self.serve_with(master, previous.as_slice())
    }

    /// Starts the server with a master key and variables of its own.
    fn serve_with(&mut self, master: &str, variables: &[(&str, &str)]) -> Server {
        let mut command = runloom(self.path(), &["serve", "--config", "runloom.toml"]);
        command
            .env("RUNLOOM_MASTER_KEY", master)
            .env("RUNLOOM_ADMIN_TOKEN", "the-admin-token-of-tests")
            .env("ACME_KEY", KEY)
            .env("DECLARED_SECRET", format!("{CANARY}-declared"));
        command.envs(variables.iter().copied());
        let mut server = Server::start_logging(command, &self.path().join("server.log"));
        let line = server.line();
        self.url = line.strip_prefix("listening on ").unwrap().to_owned();
        server
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = runloom(self.path(), arguments);
        command
            .env("RUNLOOM_URL", &self.url)
            .env("RUNLOOM_ADMIN_TOKEN", "the-admin-token-of-tests")
            .env("MANTYX_BASE_URL", &self.url)
            .env("MANTYX_API_KEY", KEY)
            .env("MANTYX_WORKSPACE_SLUG", "acme");
        command
    }

    /// Runs a command that must succeed; gives what it printed.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        stdout(&output)
    }

    fn admin(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["admin", "--json"];
        all.extend(arguments);
        serde_json::from_str(&self.run(&all)).unwrap()
    }

    fn put_secret(&self, name: &str, value: &str) {
        let arguments = ["admin", "secret", "put", "--workspace", "acme", name];
        let mut command = self.command(&arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("{value}\n").as_bytes()).unwrap();
        drop(stdin);
        assert!(child.wait().unwrap().success());
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path().join(name), text).unwrap();
        name.to_owned()
    }
}

fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("runloom.toml"), CONFIG).unwrap();
    House {
        folder,
        url: String::new(),
    }
}

#[test]
fn manages_agents_and_tools() {
    let mut house = house();
    let _server = house.serve("first master key", None);
    let file = house.file(
        "agent.json",
        r#"{"slug": "poet", "systemPrompt": "You rhyme.", "modelId": "platform:demo"}"#,
    );
    let put = ["agent", "put", "--workspace", "acme", "--file", &file];
    let made = house.admin(&put);
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("agent_"), "{made}");
    assert_eq!(made["slug"], "poet");
    assert_eq!(house.admin(&put), made);
    let shown = house.admin(&["agent", "show", "--workspace", "acme", "poet"]);
    assert_eq!(shown["version"], 1);
    assert_eq!(shown["definition"]["systemPrompt"], "You rhyme.");
    let listed = house.run(&["admin", "agent", "list", "--workspace", "acme"]);
    assert!(
        listed.contains("declared") && listed.contains("poet"),
        "{listed}"
    );
    let told = house.run(&["run", "--agent", id, "--json", "Hi"]);
    assert!(told.contains("\"result\""), "{told}");

    let tool = house.file(
        "tool.json",
        r#"{"slug": "t", "type": "code", "source": "return 1"}"#,
    );
    let made = house.admin(&["tool", "put", "--workspace", "acme", "--file", &tool]);
    assert!(made["id"].as_str().unwrap().starts_with("tool_"));
    let again = [
        "admin",
        "tool",
        "put",
        "--workspace",
        "acme",
        "--file",
        &tool,
        "--create-only",
    ];
    let refused = house.command(&again).output().unwrap();
    assert!(!refused.status.success());
    house.admin(&["tool", "delete", "--workspace", "acme", "t"]);
    let gone = house
        .command(&["admin", "tool", "show", "--workspace", "acme", "t"])
        .output();
    assert!(!gone.unwrap().status.success());
}

#[test]
fn runs_an_agent_by_slug_with_tools() {
    let mut house = house();
    let _server = house.serve("first master key", None);
    let tool = house.file(
        "tool.json",
        r#"{"slug": "sum", "type": "code", "source": "return args.a + args.b"}"#,
    );
    house.admin(&["tool", "put", "--workspace", "acme", "--file", &tool]);
    let prompt = "call sum {\"a\": 2, \"b\": 3}\ncall now {}\nsay done";
    let asked = [
        "run",
        prompt,
        "--agent",
        "declared",
        "--json",
        "--tool",
        "sum",
        "--plugin",
        "@time/now",
    ];
    let told = house.run(&asked);
    let results: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] == "tool_result")
        .collect();
    assert_eq!(results.len(), 2, "{told}");
    assert!(results.iter().all(|result| result["ok"] == true), "{told}");
    let sum = results.iter().find(|result| result["name"] == "sum");
    assert_eq!(sum.unwrap()["result"], "5");
    let unknown = house
        .command(&["run", "Hi", "--agent", "nobody"])
        .output()
        .unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        stderr(&unknown).contains("there are: declared"),
        "{}",
        stderr(&unknown)
    );
    // Cancelling an ended run changes nothing and says so.
    let first: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    let id = first["runId"].as_str().unwrap();
    let said = house.run(&["runs", "cancel", id]);
    assert!(said.contains("had ended before: succeeded"), "{said}");
    let said: Value = serde_json::from_str(&house.run(&["runs", "cancel", id, "--json"])).unwrap();
    assert_eq!(said["alreadyEnded"], true);
}

#[test]
fn reports_warnings_and_invalid_json() {
    let mut house = house();
    let _server = house.serve("first master key", None);
    let agent = house.file(
        "agent.json",
        r#"{"slug": "early", "systemPrompt": "x", "tools": [{"kind": "mantyx", "id": "later"}]}"#,
    );
    let put = ["admin", "agent", "put", "--workspace", "acme", "--file"];
    let early = house
        .command(&[&put[..], &[&agent]].concat())
        .output()
        .unwrap();
    assert!(early.status.success(), "{}", stderr(&early));
    assert!(
        stderr(&early).contains("no tool `later`"),
        "{}",
        stderr(&early)
    );
    let nothing = house
        .command(&[&put[..], &["-"]].concat())
        .output()
        .unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(
        stderr(&nothing).contains("standard input is not JSON"),
        "{}",
        stderr(&nothing)
    );
}

#[test]
fn refuses_code_tools_when_disabled() {
    let mut house = house();
    let server = house.serve("first master key", None);
    let tool = house.file(
        "tool.json",
        r#"{"slug": "sum", "type": "code", "source": "return 5"}"#,
    );
    let put = [
        "admin",
        "tool",
        "put",
        "--workspace",
        "acme",
        "--file",
        &tool,
    ];
    house.run(&put);
    server.stop();
    let off = [("RUNLOOM_CODE__ENABLED", "false")];
    let _server = house.serve_with("first master key", &off);
    for refused in [&put[..], &["run", "call sum {}", "--tool", "sum"]] {
        let output = house.command(refused).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{refused:?}");
        let said = stderr(&output);
        assert!(said.contains("code tools are disabled"), "{said}");
    }
    let declared = "[[workspaces]]\nslug = \"a\"\n[[workspaces.tools]]\nslug = \"t\"\ntype = \"code\"\nsource = \"return 1\"\n[code]\nenabled = false\n";
    let file = house.file("code.toml", declared);
    let check = runloom(house.path(), &["config", "check", "--config", &file]).output();
    let check = check.unwrap();
    assert_eq!(check.status.code(), Some(3));
    assert!(
        stderr(&check).contains("`t` of workspace `a`"),
        "{}",
        stderr(&check)
    );
}

#[test]
fn rotates_the_master_key() {
    let mut house = house();
    let server = house.serve("first master key", None);
    house.put_secret("KEY", CANARY);
    let provider = house.file(
        "provider.json",
        r#"{"id": "mine", "kind": "demo", "apiKey": "{{secret:KEY}}", "models": [{"id": "m"}]}"#,
    );
    house.admin(&[
        "provider",
        "put",
        "--workspace",
        "acme",
        "--file",
        &provider,
    ]);
    let mut said = house.run(&["models", "list"]);
    assert!(said.contains("provider:mine:m"), "{said}");
    said += &house.run(&["run", "--model", "mine/m", "--json", "Hi"]);
    for kind in ["secret", "tool", "provider", "agent"] {
        said += &house.run(&["admin", "--json", kind, "list", "--workspace", "acme"]);
    }
    server.stop();

    let server = house.serve("second master key", Some("first master key"));
    let rotation = house.admin(&["secret", "rotate"]);
    assert_eq!(rotation["unreadable"], 0, "{rotation}");
    assert!(rotation["resealed"].as_u64().unwrap() >= 2, "{rotation}");
    server.stop();

    let server = house.serve("second master key", None);
    let models = house.run(&["models", "list"]);
    assert!(models.contains("provider:mine:m"), "{models}");
    said += &house.run(&["runs", "list", "--json"]);
    server.stop();

    assert!(!said.contains(CANARY), "{said}");
    for place in [house.path().to_owned(), house.path().join(".runloom")] {
        for entry in fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let found = bytes
                .windows(CANARY.len())
                .any(|part| part == CANARY.as_bytes());
            assert!(!found, "a secret is in {}", path.display());
        }
    }
    let log = fs::read_to_string(house.path().join("server.log")).unwrap();
    assert!(log.contains("schema migrated"), "{log}");
}

#[test]
fn stored_model_becomes_the_default() {
    let mut house = house();
    let _server = house.serve("first master key", None);
    let default =
        |house: &House| house.admin(&["workspace", "show", "acme"])["defaultModelId"].clone();
    assert_eq!(default(&house), "platform:demo");
    let put = |text: &str| {
        let file = house.file("provider.json", text);
        let arguments = ["provider", "put", "--workspace", "acme", "--file", &file];
        let mut all = vec!["admin"];
        all.extend(arguments);
        house.command(&all).output().unwrap()
    };
    let made = put(
        r#"{"id": "mine", "kind": "demo", "models": [{"id": "a"}, {"id": "m", "default": true}]}"#,
    );
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(default(&house), "provider:mine:m");
    let twice = put(
        r#"{"id": "mine", "kind": "demo", "models": [{"id": "a", "default": true}, {"id": "m", "default": true}]}"#,
    );
    assert!(
        stderr(&twice).contains("only one model can be the default"),
        "{}",
        stderr(&twice)
    );
    assert_eq!(default(&house), "provider:mine:m");
    let missing = house
        .command(&["admin", "workspace", "show", "nobody"])
        .output()
        .unwrap();
    assert!(!missing.status.success());
}

#[test]
fn refuses_a_wrong_master_key_at_start() {
    let mut house = house();
    house.serve("first master key", None).stop();
    let mut command = runloom(house.path(), &["serve", "--config", "runloom.toml"]);
    command
        .env("RUNLOOM_MASTER_KEY", "another master key")
        .env("ACME_KEY", KEY)
        .env("DECLARED_SECRET", CANARY);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(
        stderr(&output).contains("master key"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn rotates_the_master_key_process_by_process() {
    let (old, new) = ("first master key", "second master key");
    let mut house = house();
    let mut kept = Vec::new();
    // As processes of a cluster do: without the new key, knowing it, using it, and knowing the old one.
    for (turn, (master, previous)) in [
        (old, None),
        (old, Some(new)),
        (new, Some(old)),
        (old, Some(new)),
    ]
    .into_iter()
    .enumerate()
    {
        let server = house.serve(master, previous);
        let id = format!("mine{turn}");
        let text = format!(
            r#"{{"id": "{id}", "kind": "demo", "apiKey": "{CANARY}", "models": [{{"id": "m"}}]}}"#
        );
        let file = house.file("provider.json", &text);
        house.admin(&["provider", "put", "--workspace", "acme", "--file", &file]);
        kept.push(format!("provider:{id}:m"));
        // API keys hold as well, or this would be refused.
        let models = house.run(&["models", "list"]);
        for model in &kept {
            assert!(models.contains(model), "{turn}: {model} in {models}");
        }
        server.stop();
    }
    let server = house.serve(new, Some(old));
    let rotation = house.admin(&["secret", "rotate"]);
    assert_eq!(rotation["unreadable"], 0, "{rotation}");
    server.stop();
    let _server = house.serve(new, None);
    let models = house.run(&["models", "list"]);
    assert!(kept.iter().all(|model| models.contains(model)), "{models}");
}
