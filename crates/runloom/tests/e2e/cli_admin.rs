//! `runloom admin`: one object with `--json`, and a clear word when it does not work.

use std::path::Path;

use serde_json::json;

use crate::command_line::{CommandLine, err, keys, one_object, out};
use crate::server::runloom;

#[test]
fn administration_prints_exactly_one_object() {
    let command_line = CommandLine::new();
    let slug = json!({"slug": "acme"});
    assert_eq!(
        command_line.json(&[
            "admin",
            "workspace",
            "create",
            "acme",
            "--name",
            "Acme",
            "--json"
        ]),
        slug
    );
    assert_eq!(
        command_line.json(&["admin", "workspace", "create", "acme", "--json"]),
        slug,
        "created again is the same"
    );
    let made = command_line.json(&[
        "admin",
        "key",
        "create",
        "--workspace",
        "acme",
        "--runs-per-minute",
        "2",
        "--json",
    ]);
    assert_eq!(keys(&made), ["id", "key"]);
    let key = made["key"].as_str().unwrap();
    assert!(
        key.starts_with("mantyx_") && made["id"].as_str().unwrap().starts_with("key_"),
        "{made}"
    );
    let api = crate::http::Api {
        address: command_line.server.address.clone(),
        workspace: "acme".to_owned(),
        key: key.to_owned(),
    };
    assert_eq!(
        api.get("/models").header("x-ratelimit-bucket"),
        Some("reads")
    );
    let listed = command_line.json(&["admin", "key", "list", "--workspace", "acme", "--json"]);
    assert_eq!(
        (
            &listed["keys"][0]["id"],
            &listed["keys"][0]["runsPerMinute"]
        ),
        (&made["id"], &json!(2))
    );
    assert!(!listed.to_string().contains(key));
    assert_eq!(
        command_line.json(&[
            "admin",
            "key",
            "revoke",
            "--workspace",
            "acme",
            key,
            "--json"
        ]),
        json!({"ok": true})
    );
    assert_eq!(api.get("/models").status, 401);
}

#[test]
fn revokes_keys_by_id() {
    let command_line = CommandLine::new();
    command_line.json(&["admin", "workspace", "create", "acme", "--json"]);
    let other = command_line.json(&[
        "admin",
        "key",
        "create",
        "--workspace",
        "acme",
        "--usage",
        "a2a",
        "--json",
    ]);
    let id = other["id"].as_str().unwrap();
    assert_eq!(
        command_line.json(&[
            "admin",
            "key",
            "revoke",
            "--workspace",
            "acme",
            id,
            "--json"
        ]),
        json!({"ok": true})
    );
    let bare = command_line.json(&[
        "admin",
        "workspace",
        "create",
        "bare",
        "--without",
        "apiKeys",
        "--json",
    ]);
    assert_eq!(bare, json!({"slug": "bare"}));
    let known = command_line.json(&["admin", "workspace", "list", "--json"]);
    let bare = known["workspaces"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["slug"] == "bare")
        .unwrap();
    assert_eq!(bare["without"], json!(["apiKeys"]));
}

#[test]
fn admin_commands_need_the_token() {
    let command_line = CommandLine::new();
    // With an address and a token of its own, as a script elsewhere would.
    let url = format!("http://{}", command_line.server.address);
    let mut remote = runloom(&[
        "admin",
        "workspace",
        "create",
        "far",
        "--url",
        &url,
        "--json",
    ]);
    remote.env(
        "RUNLOOM_ADMIN_TOKEN",
        command_line.server.ready["adminToken"].as_str().unwrap(),
    );
    assert_eq!(
        one_object(&out(&remote.output().unwrap())),
        json!({"slug": "far"})
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], token: Option<&str>, folder: &Path| {
        let mut command = runloom(arguments);
        command.current_dir(folder);
        if let Some(token) = token {
            command.env("RUNLOOM_ADMIN_TOKEN", token);
        }
        let output = command.output().unwrap();
        (output.status.code().unwrap(), err(&output))
    };
    let list = ["admin", "workspace", "list", "--url", &url];
    assert_eq!(refused(&list, None, elsewhere.path()).0, 2);
    assert_eq!(refused(&list, Some("wrong"), elsewhere.path()).0, 1);
    let away = ["admin", "workspace", "list", "--url", "http://127.0.0.1:1"];
    assert_eq!(refused(&away, Some("token"), elsewhere.path()).0, 4);
    for (arguments, told) in [
        (&["admin", "workspace", "create", "Not A Slug"][..], "slug"),
        (
            &["admin", "key", "create", "--workspace", "nobody"],
            "not_found",
        ),
        (
            &[
                "admin",
                "key",
                "revoke",
                "--workspace",
                "demo",
                "key_0123456789",
            ],
            "not_found",
        ),
    ] {
        let output = command_line.ended(arguments);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {}",
            err(&output)
        );
        assert!(
            err(&output).contains(told),
            "{arguments:?}: {}",
            err(&output)
        );
    }
}
