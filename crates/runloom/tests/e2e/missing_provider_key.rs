//! A server that comes back without the key of a provider: what was accepted is a promise, and waits.

use std::time::Instant;

use serde_json::{Value, json};

use crate::http::Api;
use crate::peer::{Peer, Reply, says};
use crate::server::{PATIENCE, Server};
use crate::sse::replay;

const KEY: &str = "mantyx_a_0123456789abcdef0123456789abcdef";

/// A server of the workspace `acme`, whose provider `kept` needs no key and `p` one that may be missing.
fn serve(folder: &std::path::Path, url: &str, has_key: bool) -> (Server, Api) {
    let provider = |id: &str, more: &str| {
        format!(
            "[[workspaces.providers]]\nid = \"{id}\"\nkind = \"openai-compatible\"\nbase_url = \"{url}\"\n\
             models = [{{ id = \"m\" }}]\n{more}\n"
        )
    };
    let config = format!(
        "[[workspaces]]\nslug = \"acme\"\n[[workspaces.api_keys]]\nname = \"a\"\nkey_env = \"KEY\"\n{}{}",
        provider("kept", ""),
        provider("p", "api_key_env = \"P_KEY\"")
    );
    let mut variables = vec![
        ("RUNLOOM_MASTER_KEY".to_owned(), "ab".repeat(32)),
        ("KEY".to_owned(), KEY.to_owned()),
    ];
    if has_key {
        variables.push(("P_KEY".to_owned(), "sk-1".to_owned()));
    }
    let server = Server::serve(folder, &config, &variables);
    let api = Api {
        address: server.address.clone(),
        workspace: "acme".to_owned(),
        key: KEY.to_owned(),
    };
    (server, api)
}

fn body(model: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": model, "prompt": "hi"})
}

/// Waits until the server has said this of a run.
fn until_said(server: &Server, run: &str, words: &str) {
    let began = Instant::now();
    let said = |line: &str| line.contains(run) && line.contains(words);
    while !server.said().lines().any(said) {
        assert!(began.elapsed() < PATIENCE, "{}", server.said());
        std::thread::yield_now();
    }
}

fn last(api: &Api, run: &str) -> String {
    replay(api, run).unwrap().pop().unwrap().kind().to_owned()
}

#[test]
fn defers_a_run_without_provider_key() {
    let folder = tempfile::tempdir().unwrap();
    // The first two are not answered.
    let peer = Peer::start(|_, number| match number {
        1 | 2 => Reply::EventsThenSilence(Vec::new()),
        _ => says("Hello."),
    });
    let (mut server, api) = serve(folder.path(), &peer.url, true);
    let runs = [api.run(&body("p/m")), api.run(&body("p/m"))];
    peer.until(2, |_| true);
    server.kill();

    let (mut server, api) = serve(folder.path(), &peer.url, false);
    for run in &runs {
        until_said(&server, run, "run deferred");
        let snapshot = api.get(&format!("/agent-runs/{run}")).json();
        assert_eq!(snapshot["status"], "running", "{snapshot}");
    }
    let cancelled = api.post(&format!("/agent-runs/{}/cancel", runs[0]), &json!({}));
    assert!(cancelled.status < 300, "{cancelled:?}");
    assert_eq!(last(&api, &runs[0]), "cancelled");
    let beside = api.run(&body("kept/m"));
    assert_eq!(last(&api, &beside), "result");
    server.kill();

    let (_server, api) = serve(folder.path(), &peer.url, true);
    assert_eq!(last(&api, &runs[1]), "result");
}
