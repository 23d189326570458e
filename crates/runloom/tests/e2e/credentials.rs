//! Credentials: each way to be wrong has its own answer, and none of them has an effect.

use serde_json::json;

use crate::http::{Answer, request};
use crate::server::Server;

fn models(server: &Server, slug: &str, headers: &[(&str, &str)]) -> Answer {
    let path = format!("/api/v1/workspaces/{slug}/models");
    request(&server.address, "GET", &path, headers, b"").unwrap()
}

#[test]
fn refuses_missing_and_unknown_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let key = server.api().key;
    for headers in [
        &[][..],
        &[("Authorization", "Basic dXNlcjpwYXNz")],
        &[("Authorization", "Bearer")],
        &[("Authorization", &key)],
    ] {
        let answer = models(&server, "demo", headers);
        assert_eq!(
            answer.refusal(),
            (401, "unauthorized".to_owned()),
            "{headers:?}"
        );
        assert_eq!(answer.json()["error"], "Unauthorized");
        assert!(
            answer.json()["message"]
                .as_str()
                .unwrap()
                .starts_with("API key or OAuth access token required")
        );
        assert!(
            answer
                .header("www-authenticate")
                .is_some_and(|value| value.starts_with("Bearer"))
        );
    }
    let (shorter, longer) = (&key[..key.len() - 1], format!("{key}0"));
    let upper = key.to_uppercase();
    for wrong in [
        shorter,
        &longer,
        &upper,
        "mantyx_",
        "mantyx_at_0123",
        "x",
        "\u{e9}\u{e9}",
        &"k".repeat(8000),
    ] {
        let bearer = format!("Bearer {wrong}");
        for headers in [[("Authorization", bearer.as_str())], [("X-API-Key", wrong)]] {
            let answer = models(&server, "demo", &headers);
            assert_eq!(
                answer.refusal(),
                (401, "unauthorized".to_owned()),
                "{wrong}"
            );
            assert_eq!(
                answer.json()["error"],
                "Invalid API key or OAuth access token"
            );
        }
    }
    // A key in the URL is ignored.
    let path = format!("/api/v1/workspaces/demo/models?api_key={key}&access_token={key}");
    assert_eq!(
        request(&server.address, "GET", &path, &[], b"")
            .unwrap()
            .status,
        401
    );
}

#[test]
fn reads_keys_from_either_header() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let key = server.api().key;
    let bearer = format!("Bearer {key}");
    assert_eq!(
        models(&server, "demo", &[("Authorization", &bearer)]).status,
        200
    );
    assert_eq!(models(&server, "demo", &[("X-API-Key", &key)]).status, 200);
    assert_eq!(
        models(
            &server,
            "demo",
            &[("X-API-Key", "mantyx_wrong"), ("Authorization", &bearer)]
        )
        .status,
        200
    );
    assert_eq!(
        models(
            &server,
            "demo",
            &[
                ("X-API-Key", &key),
                ("Authorization", "Bearer mantyx_wrong")
            ]
        )
        .status,
        401
    );
}

#[test]
fn revoked_key_stays_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::dev(folder.path(), &[]);
    let api = server.tenant("acme");
    assert_eq!(api.get("/models").status, 200);
    let keys = server
        .admin("GET", "/api/admin/v1/workspaces/acme/keys", &json!({}))
        .json();
    assert!(!keys.to_string().contains(&api.key), "a key is shown once");
    let id = keys["keys"][0]["id"].as_str().unwrap().to_owned();
    let revoke = || {
        server.admin(
            "DELETE",
            &format!("/api/admin/v1/workspaces/acme/keys/{id}"),
            &json!({}),
        )
    };
    assert_eq!(revoke().status, 200);
    assert_eq!(
        api.get("/models").refusal(),
        (401, "unauthorized".to_owned())
    );
    server.kill();
    let server = Server::dev(folder.path(), &[]);
    let api = crate::http::Api {
        address: server.address.clone(),
        ..api
    };
    assert_eq!(
        api.get("/models").refusal(),
        (401, "unauthorized".to_owned())
    );
}

#[test]
fn refuses_other_usages_and_plans() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    server.tenant("acme");
    for usage in ["a2a", "mcp"] {
        let key = server.key("acme", &json!({"usage": usage}));
        let answer = models(&server, "acme", &[("X-API-Key", &key)]);
        assert_eq!(answer.refusal(), (403, "forbidden".to_owned()));
        assert_eq!(
            answer.json()["error"],
            "This API key is not for the Developer API"
        );
        assert!(answer.json()["hint"].is_string());
    }
    let api = server.tenant("plain");
    assert_eq!(api.get("/models").status, 200);
    let put = server.admin(
        "PUT",
        "/api/admin/v1/workspaces/plain",
        &json!({"without": ["apiKeys"]}),
    );
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(
        api.get("/models").refusal(),
        (403, "api_keys_plan".to_owned())
    );
    let put = server.admin(
        "PUT",
        "/api/admin/v1/workspaces/plain",
        &json!({"without": []}),
    );
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(api.get("/models").status, 200);
}

#[test]
fn admin_api_takes_only_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let key = format!("Bearer {}", server.api().key);
    for headers in [
        &[][..],
        &[("Authorization", "Bearer wrong")],
        &[("Authorization", &key)],
    ] {
        for (method, path) in [
            ("GET", "/api/admin/v1/workspaces"),
            ("PUT", "/api/admin/v1/workspaces/evil"),
            ("POST", "/api/admin/v1/workspaces/demo/keys"),
            ("DELETE", "/api/admin/v1/workspaces/demo/keys/key_1"),
        ] {
            let answer = request(&server.address, method, path, headers, b"").unwrap();
            assert_eq!(
                answer.refusal(),
                (401, "unauthorized".to_owned()),
                "{method} {path}"
            );
        }
    }
    let known = server
        .admin("GET", "/api/admin/v1/workspaces", &json!({}))
        .json();
    assert_eq!(known["workspaces"].as_array().unwrap().len(), 1, "{known}");
    for slug in ["UPPER", "a%2Fb", "-a", "a%00", &"a".repeat(100)] {
        let put = server.admin(
            "PUT",
            &format!("/api/admin/v1/workspaces/{slug}"),
            &json!({}),
        );
        assert_eq!(put.refusal().0, 400, "{slug}: {put:?}");
    }
}

#[test]
fn refuses_unknown_agents() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let answer = server.api().post(
        "/agent-runs",
        &json!({"agentId": "agent_0123456789", "prompt": "hi"}),
    );
    assert_eq!(answer.refusal(), (403, "forbidden".to_owned()));
}
