//! `runloom models test`: one call, and when it fails, what was sent and what came back, for every kind of provider.

use std::process::Output;

use serde_json::{Value, json};

use crate::command_line::{err, one_object, out};
use crate::peer::{Peer, Reply, says};
use crate::server::{Server, runloom};

const KEY: &str = "key-that-nobody-may-see";

/// Every kind that has a wire, what it needs beside an address, and the end of the address that it calls.
const KINDS: [(&str, &str, &str); 7] = [
    ("openai", "", "/responses"),
    (
        "azure-openai",
        "api_version = \"2025-04-01-preview\"",
        "/openai/responses?api-version=2025-04-01-preview",
    ),
    ("anthropic", "", "/v1/messages"),
    (
        "bedrock",
        "region = \"eu-central-1\"",
        "/model/m-1/invoke-with-response-stream",
    ),
    (
        "google",
        "",
        "/v1beta/models/m-1:streamGenerateContent?alt=sse",
    ),
    ("xai", "", "/chat/completions"),
    ("openai-compatible", "", "/chat/completions"),
];

fn tried(kind: &str, extra: &str, url: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[[workspaces]]\nslug = \"acme\"\n[[workspaces.providers]]\nid = \"p\"\nkind = \"{kind}\"\nbase_url = \"{url}\"\n\
         api_key_env = \"TRIAL_KEY\"\n{extra}\nheaders = {{ \"x-team\" = \"{KEY}-of-the-team\" }}\nmodels = [{{ id = \"m-1\" }}]\n"
    );
    std::fs::write(folder.path().join("runloom.toml"), config).unwrap();
    let mut command = runloom(&["models", "test"]);
    command
        .args(more)
        .current_dir(folder.path())
        .env("TRIAL_KEY", KEY)
        .output()
        .unwrap()
}

#[test]
fn shows_request_and_response_of_a_failure() {
    for (kind, extra, address) in KINDS {
        let peer = Peer::start(|_, _| {
            let body = json!({"error": {"message": format!("no such key: {KEY}"), "type": "authentication_error"}});
            Reply::Plain(
                401,
                vec![("x-request-id", "req_7".to_owned())],
                body.to_string(),
            )
        });
        let output = tried(kind, extra, &peer.url, &[]);
        assert_eq!(output.status.code(), Some(5), "{kind}: {}", err(&output));
        let (shown, why) = (out(&output), err(&output));
        let asked = peer.asked().pop().unwrap();
        assert_eq!(asked.path, address, "what is shown is what was sent");
        let sent = asked.headers.iter().any(|(_, value)| value.contains(KEY));
        assert!(sent, "{kind}: the credential was not sent");
        for part in [
            format!("POST {}{address}\n", peer.url),
            "x-team: ***\n".to_owned(),
            "Say hello.".to_owned(),
            "HTTP 401\n".to_owned(),
            "x-request-id: req_7\n".to_owned(),
            "no such key: ***".to_owned(),
        ] {
            assert!(shown.contains(&part), "{kind}: {part:?} is not in\n{shown}");
        }
        assert!(why.contains("(auth, HTTP 401)"), "{kind}: {why}");
        assert!(
            why.contains("hint: the provider refuses the credential"),
            "{kind}: {why}"
        );
        assert!(
            !format!("{shown}{why}").contains(KEY),
            "{kind}: {shown}{why}"
        );
    }
}

#[test]
fn shows_answers_and_broken_streams() {
    let peer = Peer::start(|_, number| match number {
        1 => says("Hello there."),
        2 => Reply::Events(vec![
            json!({"choices": [{"delta": {"content": "Hel"}}]}),
            json!("{"),
        ]),
        _ => Reply::Plain(404, vec![], "not here".to_owned()),
    });
    let output = tried("openai-compatible", "", &peer.url, &["m-1"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "Hello there.\n");
    let output = tried("openai-compatible", "", &peer.url, &[]);
    assert_eq!(output.status.code(), Some(5));
    assert!(out(&output).contains("HTTP 200\n"), "{}", out(&output));
    assert!(out(&output).contains("data: {\n"), "{}", out(&output));
    let told = one_object(&out(&tried(
        "openai-compatible",
        "",
        &peer.url,
        &["--json"],
    )));
    assert_eq!(told["ok"], false, "{told}");
    assert_eq!(told["exchange"]["received"]["status"], 404, "{told}");
    assert!(
        told["hint"].as_str().unwrap().contains("base_url"),
        "{told}"
    );
}

#[test]
fn distinguishes_unreachable_provider_and_unknown_model() {
    let output = tried("openai", "", "http://127.0.0.1:1", &[]);
    assert_eq!(output.status.code(), Some(5));
    assert!(
        out(&output).contains("--- nothing came back"),
        "{}",
        out(&output)
    );
    assert!(
        err(&output).contains("hint: look at `base_url`"),
        "{}",
        err(&output)
    );
    let output = tried("openai", "", "http://127.0.0.1:1", &["m-2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("known: provider:p:m-1"),
        "{}",
        err(&output)
    );
}

#[test]
fn tests_a_model_through_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let mut command = runloom(&["models", "test", "--json"]);
    command
        .current_dir(folder.path())
        .env("RUNLOOM_DATA_DIR", folder.path().join("data"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let end: Value = one_object(&out(&output));
    assert_eq!(end["type"], "result", "{end}");
    drop(server);
}
