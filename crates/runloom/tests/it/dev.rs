//! `runloom dev`, and the client commands beside it.

use std::path::Path;

use serde_json::Value;

use crate::program::{Server, ended, runloom, stderr, stdout};

fn dev(folder: &Path) -> (Server, Value) {
    let mut server = Server::start(runloom(
        folder,
        &["dev", "--listen", "127.0.0.1:0", "--json"],
    ));
    let line = server.line();
    (server, serde_json::from_str(&line).unwrap())
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = ended(folder, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        stderr(&output)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn run_uses_the_dev_server_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, _) = dev(folder.path());

    let run = ended(folder.path(), &["run", "say hello there"]);
    assert_eq!(
        (stdout(&run).as_str(), run.status.code()),
        ("hello there\n", Some(0))
    );
    assert!(
        stderr(&run).contains("1 turn · platform:demo"),
        "{}",
        stderr(&run)
    );

    let failed = ended(folder.path(), &["run", "fail 401"]);
    assert_eq!(
        (stdout(&failed).as_str(), failed.status.code()),
        ("", Some(5))
    );

    let lines = stdout(&ended(folder.path(), &["run", "say hi", "--json"]));
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let id = events[0]["runId"].as_str().unwrap();
    assert_eq!(events.last().unwrap()["data"]["text"], "hi");

    let listed = json(
        folder.path(),
        &["runs", "list", "--status", "failed", "--json"],
    );
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    let exported = stdout(&ended(folder.path(), &["runs", "export", id]));
    let exported: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(exported[0]["run"]["id"], id);
    assert_eq!(exported[1..], events[1..]);
}

#[test]
fn creates_and_revokes_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, ready) = dev(folder.path());
    let examined = stdout(&ended(folder.path(), &["doctor"]));
    assert!(examined.contains("`dev` has an admin API"), "{examined}");
    let made = json(
        folder.path(),
        &["admin", "workspace", "create", "acme", "--json"],
    );
    assert_eq!(made, serde_json::json!({ "slug": "acme" }));
    let made = json(
        folder.path(),
        &["admin", "key", "create", "--workspace", "acme", "--json"],
    );
    let key = made["key"].as_str().unwrap();

    let with_key = || {
        let mut command = runloom(folder.path(), &["models", "list"]);
        command.env("MANTYX_BASE_URL", ready["url"].as_str().unwrap());
        command
            .env("MANTYX_API_KEY", key)
            .env("MANTYX_WORKSPACE_SLUG", "acme");
        command.output().unwrap()
    };
    assert!(stdout(&with_key()).contains("platform:demo"));
    json(
        folder.path(),
        &[
            "admin",
            "key",
            "revoke",
            "--workspace",
            "acme",
            key,
            "--json",
        ],
    );
    let refused = with_key();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("unauthorized"),
        "{}",
        stderr(&refused)
    );
}

#[cfg(unix)]
#[test]
fn keys_and_runs_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (server, first) = dev(folder.path());
    assert!(ended(folder.path(), &["run", "say kept"]).status.success());
    assert_eq!(server.stop(), (String::new(), Some(0)));
    assert_eq!(
        ended(folder.path(), &["runs", "list"]).status.code(),
        Some(4),
        "the server is away"
    );

    let (_server, second) = dev(folder.path());
    assert_eq!(first["apiKey"], second["apiKey"]);
    let listed = json(folder.path(), &["runs", "list", "--json"]);
    assert_eq!(listed["runs"][0]["outputPreview"], "kept");
}

#[test]
fn a_conversation_remembers() {
    use std::io::Write;
    use std::process::Stdio;
    let folder = tempfile::tempdir().unwrap();
    let (_server, _) = dev(folder.path());
    let mut chat = runloom(folder.path(), &["chat"]);
    let chat = chat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut chat = chat.spawn().unwrap();
    chat.stdin
        .take()
        .unwrap()
        .write_all(b"say one\nhistory\n/exit\n")
        .unwrap();
    let output = chat.wait_with_output().unwrap();
    let said = r#"[{"role":"user","content":"say one"},{"role":"assistant","content":"one"}]"#;
    assert_eq!(stdout(&output), format!("one\n{said}\n"));
    assert!(stderr(&output).contains("runloom chat --session ses_"));
}

#[test]
fn dev_ignores_shared_variables() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("runloom.toml"), "nonsense").unwrap();
    let log = folder.path().join("log");
    let mut command = runloom(folder.path(), &["dev", "--listen", "127.0.0.1:0", "--json"]);
    // Nobody answers at these; a server that heard of them would not start.
    command
        .env("DATABASE_URL", "postgres://u:sekret@127.0.0.1:1/x")
        .env("REDIS_URL", "redis://127.0.0.1:1")
        .env("AMQP_URL", "amqp://127.0.0.1:1");
    let mut server = Server::start_logging(command, &log);
    let ready = server.line();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(ready.contains("\"apiKey\""), "{ready:?} {said}");
    assert!(folder.path().join(".runloom/runloom.db").exists());
    assert!(
        said.contains("`dev` ignores DATABASE_URL, AMQP_URL, REDIS_URL"),
        "{said}"
    );
    assert!(
        said.contains("`dev` does not read ./runloom.toml"),
        "{said}"
    );
    assert!(!said.contains("sekret"), "{said}");
    assert!(ended(folder.path(), &["run", "say hi"]).status.success());
}

/// What `dev` prints for people.
fn printed(folder: &Path, variables: &[(&str, &str)]) -> (Server, Vec<String>) {
    let mut command = runloom(folder, &["dev", "--listen", "127.0.0.1:0"]);
    command.envs(variables.iter().copied());
    let mut server = Server::start(command);
    let mut lines = vec![server.line()];
    while !lines.last().unwrap().contains("Ctrl-C stops") {
        lines.push(server.line());
    }
    (server, lines)
}

#[test]
fn dev_puts_the_key_into_the_fragment() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, lines) = printed(folder.path(), &[]);
    let url = lines[0].strip_prefix("listening on ").unwrap();
    let key = lines.iter().find_map(|line| line.split_once("key     "));
    let key = key.unwrap().1.trim();
    let link = format!("{url}/#workspace=demo&key={key}");
    let open = lines.iter().find_map(|line| line.split_once("open    "));
    assert_eq!(open.unwrap().1, link);
    assert!(lines.len() <= 12, "{lines:?}");
    assert!(lines.iter().all(|line| line.len() <= 100), "{lines:?}");
}

#[test]
fn the_first_screen_has_colours_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    // `script` runs the command on a terminal of its own.
    let dev = runloom(folder.path(), &[]);
    let program = dev.get_program().to_str().unwrap().to_owned();
    let mut terminal = std::process::Command::new("script");
    let command = format!("{program} dev --listen 127.0.0.1:0");
    terminal
        .args(["-qefc", &command, "/dev/null"])
        .current_dir(folder.path())
        .env_remove("NO_COLOR")
        .stdin(std::process::Stdio::null());
    let mut server = Server::start(terminal);
    assert!(server.line().starts_with("listening on "));
    let link = server.line();
    let styled = link.strip_prefix("\u{1b}[36m  open    \u{1b}[0m\u{1b}[1mhttp://");
    assert!(
        styled.is_some_and(|rest| rest.ends_with("\u{1b}[0m")),
        "{link:?}"
    );
}

#[test]
fn dev_without_dashboard_prints_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let off = [("RUNLOOM_DASHBOARD__ENABLED", "false")];
    let (_server, lines) = printed(folder.path(), &off);
    assert!(lines.iter().all(|line| !line.contains('#')), "{lines:?}");
}

#[test]
fn dev_uses_its_own_store_variable() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = runloom(folder.path(), &["dev", "--listen", "127.0.0.1:0", "--json"]);
    command.env("RUNLOOM_STORE__URL", "mysql://127.0.0.1/x");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

/// A server with OpenAI's list of models.
fn model_server(models: &'static str) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
            let _ = write!(stream, "{head} {}\r\n\r\n{models}", models.len());
        }
    });
    format!("http://{address}")
}

#[test]
fn dev_lists_the_models_of_a_compatible_server() {
    let folder = tempfile::tempdir().unwrap();
    let url = model_server(r#"{"data":[{"id":"llama4"},{"id":"nomic-embed"}]}"#) + "/v1";
    let arguments = ["dev", "--port", "0", "--json", "--base-url", &url];
    let mut server = Server::start(runloom(folder.path(), &arguments));
    assert!(server.line().contains("local/llama4"));
    let catalog = json(folder.path(), &["models", "list", "--json"]);
    let ids: Vec<&str> = catalog["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        [
            "provider:local:llama4",
            "platform:demo",
            "platform:demo-spare"
        ]
    );
    assert_eq!(catalog["defaultModelId"], "provider:local:llama4");
}

#[cfg(unix)]
#[test]
fn an_added_provider_does_not_change_the_default_model() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = dev(folder.path());
    server.stop();
    let host = model_server(r#"{"data":[{"id":"llama4"}]}"#);
    let host = [("OLLAMA_HOST", host.as_str())];
    let (server, lines) = printed(folder.path(), &host);
    let said = lines.join("\n");
    assert!(said.contains("ollama (OLLAMA_HOST): 1 models"), "{said}");
    assert!(
        said.contains("platform:demo (change it: runloom dev --model ollama/llama4)"),
        "{said}"
    );
    let catalog = json(folder.path(), &["models", "list", "--json"]);
    assert_eq!(catalog["defaultModelId"], "platform:demo");
    server.stop();

    let mut command = runloom(
        folder.path(),
        &["dev", "--port", "0", "--json", "--model", "ollama/llama4"],
    );
    let mut server = Server::start({
        command.envs(host);
        command
    });
    assert!(server.line().contains("ollama/llama4"));
    let catalog = json(folder.path(), &["models", "list", "--json"]);
    assert_eq!(catalog["defaultModelId"], "provider:ollama:llama4");
    let other = ended(folder.path(), &["dev", "--model", "gpt-9"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(
        stderr(&other).contains("no model `gpt-9`; there are: platform:demo"),
        "{}",
        stderr(&other)
    );
}

#[test]
fn a_second_dev_says_where_the_first_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, ready) = dev(folder.path());
    let url = ready["url"].as_str().unwrap();
    let port = url.rsplit(':').next().unwrap();
    for port in [port, "0"] {
        let second = ended(folder.path(), &["dev", "--port", port]);
        let told = stderr(&second);
        assert_eq!(second.status.code(), Some(1), "{told}");
        assert!(
            told.contains(&format!("runs in this folder already, at {url}")),
            "{told}"
        );
        assert!(told.contains("--data-dir OTHER"), "{told}");
    }
    let other = tempfile::tempdir().unwrap();
    let told = stderr(&ended(other.path(), &["dev", "--port", port]));
    assert!(
        told.contains("a Runloom server of another folder"),
        "{told}"
    );
    assert!(told.contains("--port 8788"), "{told}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_does_not_wait_for_a_model_call() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = dev(folder.path());
    let mut run = Server::start(runloom(folder.path(), &["run", "hang", "--json"]));
    assert!(run.line().contains("runId"));
    let started = std::time::Instant::now();
    assert_eq!(server.stop().1, Some(0));
    // The drain of a server is twenty seconds.
    assert!(started.elapsed().as_secs() < 10);
}

#[cfg(unix)]
#[test]
fn dev_opens_the_browser() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let opened = folder.path().join("opened");
    let fifo = std::process::Command::new("mkfifo").arg(&opened).status();
    assert!(fifo.unwrap().success());
    let program = folder.path().join("xdg-open");
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = runloom(folder.path(), &["dev", "--port", "0", "--json", "--open"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let mut server = Server::start(command);
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    let link = std::fs::read_to_string(&opened).unwrap();
    assert!(
        link.starts_with(&format!(
            "{}/#workspace=demo&key=mantyx_",
            ready["url"].as_str().unwrap()
        )),
        "{link}"
    );
}

#[test]
fn a_failed_run_is_one_short_warning() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let arguments = ["dev", "--port", "0", "--json"];
    let mut server = Server::start_logging(runloom(folder.path(), &arguments), &log);
    server.line();
    let failed = ended(folder.path(), &["run", "fail", "401"]);
    assert_eq!(failed.status.code(), Some(5), "{}", stderr(&failed));
    let said = std::fs::read_to_string(&log).unwrap();
    let line = said.lines().find(|line| line.contains("run failed"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    for part in [
        "WARN",
        "class=\"auth\"",
        "provider=",
        "model=\"platform:demo\"",
        "error=",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(said.lines().all(|line| line.len() <= 200), "{said}");
}
