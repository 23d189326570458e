//! What the administrator changes at one process holds at all of them.

use serde_json::json;

use crate::http::{Api, request};
use crate::processes::{Processes, agent, at, finished, metrics, service, soon};
use crate::server::Server;

fn changes_are_seen_everywhere(processes: &Processes) {
    let (first, second) = (processes.api(), processes.api());
    let _worker = processes.worker();
    let here = first.tenant("acme");
    let there = at(&second, &here);
    // Known to the second process before the change.
    let models = || {
        let listed = there.get("/models").json();
        listed["models"].as_array().unwrap().len()
    };
    let before = models();
    let house = json!({"kind": "demo", "models": [{"id": "house-model"}]});
    let path = "/api/admin/v1/workspaces/acme/providers/house";
    let made = first.admin("PUT", path, &house);
    assert!(made.status < 300, "{made:?}");
    // At once, although nobody may have told the second process and the worker yet.
    let mut body = agent("say hello");
    body["modelId"] = json!("house/house-model");
    let run = there.run(&body);
    assert_eq!(finished(&there, &run), "hello");
    soon("the second process lists the model", || {
        models() == before + 1
    });
    let gone = first.admin("DELETE", path, &json!({}));
    assert!(gone.status < 300, "{gone:?}");
    soon("the second process lists it no more", || models() == before);
    // A key that is revoked here is refused there.
    let mut guest = there.clone();
    guest.key = first.key("acme", &json!({}));
    assert_eq!(guest.get("/models").status, 200);
    let keys = first
        .admin("GET", "/api/admin/v1/workspaces/acme/keys", &json!({}))
        .json();
    let id = keys["keys"].as_array().unwrap().last().unwrap()["id"].clone();
    let path = format!(
        "/api/admin/v1/workspaces/acme/keys/{}",
        id.as_str().unwrap()
    );
    assert!(first.admin("DELETE", &path, &json!({})).status < 300);
    soon("the key is refused", || guest.get("/models").status == 401);
    tokens_are_revoked_everywhere(&first, &there);
}

/// A token that one process gives is good at another, and no longer when it is revoked.
fn tokens_are_revoked_everywhere(first: &Server, there: &Api) {
    let app = json!({"scopes": ["models:read"], "clientCredentials": true});
    let app = first.admin("POST", "/api/admin/v1/workspaces/acme/oauth-apps", &app);
    let app = app.json();
    let client = ["clientId", "clientSecret"].map(|name| app[name].as_str().unwrap().to_owned());
    let form = |path: &str, fields: &str| {
        let body = format!(
            "client_id={}&client_secret={}&{fields}",
            client[0], client[1]
        );
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        let path = format!("/api/oauth/{path}");
        request(&first.address, "POST", &path, &headers, body.as_bytes()).unwrap()
    };
    let issued = form("token", "grant_type=client_credentials").json();
    let mut guest = there.clone();
    guest.key = issued["access_token"].as_str().unwrap().to_owned();
    assert_eq!(guest.get("/models").status, 200);
    assert_eq!(guest.get("/agents").status, 403);
    assert_eq!(form("revoke", &format!("token={}", guest.key)).status, 200);
    soon("the token is refused", || {
        guest.get("/models").status == 401
    });
}

#[test]
fn database_announces_changes() {
    changes_are_seen_everywhere(&Processes::new([]));
}

#[test]
fn valkey_announces_changes() {
    let bus = service("RUNLOOM_TEST_REDIS_URL", "redis://127.0.0.1:6379");
    changes_are_seen_everywhere(&Processes::new([("RUNLOOM_FABRIC__BUS", &bus)]));
}

#[test]
fn processes_share_rate_limits() {
    let bus = service("RUNLOOM_TEST_REDIS_URL", "redis://127.0.0.1:6379");
    let processes = Processes::new([("RUNLOOM_FABRIC__BUS", &bus)]);
    let (first, second) = (processes.api(), processes.api());
    let here = first.tenant("acme");
    // Both have reached the bus before it counts.
    for server in [&first, &second] {
        let api = at(server, &here);
        let session = json!({"systemPrompt": "s", "modelId": "platform:demo"});
        soon("the windows are shared", || {
            let before = missed(server);
            assert_eq!(api.post("/agent-sessions", &session).status, 201);
            missed(server) == before
        });
    }
    let mut limited = here;
    limited.key = first.key("acme", &json!({"runsPerMinute": 4}));
    let there = at(&second, &limited);
    let statuses: Vec<u16> = [&limited, &there, &limited, &there, &limited, &there]
        .map(|api| api.post("/agent-runs", &agent("say hello")).status)
        .into();
    assert_eq!(statuses, [202, 202, 202, 202, 429, 429]);
}

/// How often a process had to count by itself.
fn missed(server: &Server) -> String {
    let page = metrics(server);
    let line = page
        .lines()
        .find(|line| line.starts_with("runloom_shared_windows_missed_total "));
    line.unwrap().to_owned()
}
