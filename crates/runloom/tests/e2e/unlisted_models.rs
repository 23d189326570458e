//! Models that the catalog does not list, through the real server.

use serde_json::json;

use crate::http::Api;
use crate::peer::{Peer, says};
use crate::server::Server;
use crate::sse::replay;

const KEY: &str = "mantyx_a_0123456789abcdef0123456789abcdef";

/// A server of the workspace `acme`: its provider `open` runs every model, `closed` only those that it lists.
fn serve(folder: &std::path::Path, url: &str) -> (Server, Api) {
    let provider = |id: &str, more: &str| {
        format!(
            "[[workspaces.providers]]\nid = \"{id}\"\nkind = \"openai-compatible\"\nbase_url = \"{url}\"\n\
             models = [{{ id = \"m\" }}]\n{more}\n"
        )
    };
    let config = format!(
        "[[workspaces]]\nslug = \"acme\"\n[[workspaces.api_keys]]\nname = \"a\"\nkey_env = \"KEY\"\n{}{}",
        provider("open", ""),
        provider("closed", "allow_unlisted_models = false")
    );
    let variables = [
        ("RUNLOOM_MASTER_KEY".to_owned(), "ab".repeat(32)),
        ("KEY".to_owned(), KEY.to_owned()),
    ];
    let server = Server::serve(folder, &config, &variables);
    let api = Api {
        address: server.address.clone(),
        workspace: "acme".to_owned(),
        key: KEY.to_owned(),
    };
    (server, api)
}

#[test]
fn runs_an_unlisted_model_of_a_provider_that_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::start(|asked, _| says(asked.body["model"].as_str().unwrap()));
    let (_server, api) = serve(folder.path(), &peer.url);
    let body = |model: &str| json!({"systemPrompt": "s", "modelId": model, "prompt": "hi"});

    let run = api.run(&body("provider:open:vendor/next-1:free"));
    let end = replay(&api, &run).unwrap().pop().unwrap();
    assert_eq!(end.kind(), "result");
    assert_eq!(end.data()["text"], "vendor/next-1:free");

    for refused in [
        "provider:closed:next-1",
        "provider:unknown:next-1",
        "provider:open:",
        "provider:open:a b",
        "provider:open:../files",
        "provider:open:m?key=1",
    ] {
        let answer = api.post("/agent-runs", &body(refused));
        assert_eq!(
            answer.refusal(),
            (400, "invalid_model".to_owned()),
            "{refused}"
        );
    }
}
