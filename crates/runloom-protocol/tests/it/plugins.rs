//! Manifests of plugins: accepted as written, or refused with every slip.

use runloom_protocol::definition::{McpEndpoint, PluginManifest, ToolAction};
use runloom_protocol::error::Issue;
use runloom_protocol::validate::{DefinitionSource, plugin_manifest};
use serde_json::{Value, json};

use crate::paths;

fn by_operator(body: &Value) -> Result<PluginManifest, Vec<Issue>> {
    plugin_manifest(body, "math", DefinitionSource::Operator)
}

fn by_administrator(body: &Value) -> Result<PluginManifest, Vec<Issue>> {
    plugin_manifest(body, "math", DefinitionSource::Administrator)
}

#[test]
fn a_plugin_has_tools_of_its_own_and_none_of_others() {
    let tool = json!({"type": "code", "name": "add", "source": "return 1"});
    let manifest = by_administrator(&json!({"version": "1.0", "tools": [tool]})).unwrap();
    assert_eq!(manifest.name, "@math");
    assert!(manifest.tool("@math/add").is_some());
    let bad = json!({"name": "@other", "tools": [tool, tool, {"type": "plugin", "name": "x", "plugin": "@a/b"}]});
    let expected = ["name", "tools[1].name", "tools[2].type"];
    assert_eq!(paths(by_administrator(&bad)), expected);
}

#[test]
fn every_slip_of_a_manifest_is_named() {
    let tool = json!({"type": "code", "name": "add", "source": "return 1"});
    let cases = [
        (json!({}), vec!["tools"]),
        (json!([]), vec![""]),
        (json!({"tools": []}), vec!["tools"]),
        (json!({"servers": []}), vec!["servers"]),
        (
            json!({"tools": "x", "servers": 1}),
            vec!["tools", "servers"],
        ),
        (
            json!({"tools": [tool], "colour": 1, "version": 2}),
            vec!["version", "colour"],
        ),
        (
            json!({"tools": [1, {"name": "a"}]}),
            vec!["tools[0]", "tools[1].type"],
        ),
        (
            json!({"tools": [{"type": "http", "name": "a b"}]}),
            vec!["tools[0].url", "tools[0].name"],
        ),
        (
            json!({"tools": [tool], "servers": [{"name": "add", "url": "https://x.example/"}]}),
            vec!["servers[0].name"],
        ),
        (
            json!({"servers": [{"url": "ftp://x"}, {"name": "a-b", "url": "https://x.example/", "args": []}, {"name": "c"}]}),
            vec![
                "servers[0].name",
                "servers[0].url",
                "servers[1].name",
                "servers[1].args",
                "servers[2].url",
            ],
        ),
        (
            json!({"servers": [{"name": "x", "url": "https://x.example/", "tools": "all", "timeoutMs": 0}]}),
            vec!["servers[0].tools", "servers[0].timeoutMs"],
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(paths(by_operator(&body)), expected, "{body}");
    }
}

#[test]
fn only_the_operator_may_name_processes() {
    let body = json!({"servers": [{"name": "files", "command": "npx", "args": ["-y", "server"],
        "env": {"TOKEN": "{{secret:T}}", "my_var": "x"}, "timeout_ms": 5}]});
    let manifest = by_operator(&body).unwrap();
    let McpEndpoint::Process(process) = &manifest.servers[0].endpoint else {
        panic!("{manifest:?}");
    };
    assert_eq!(process.command, "npx");
    assert_eq!(process.args, ["-y", "server"]);
    assert_eq!(process.env["my_var"], "x");
    assert_eq!(manifest.servers[0].timeout_ms, 5);
    let refused = by_administrator(&body).unwrap_err();
    assert_eq!(refused[0].path, "servers[0].command");
    assert!(
        refused[0].message.contains("configuration file"),
        "{refused:?}"
    );
    let bad = json!({"servers": [
        {"name": "a", "command": "", "env": {"1X": "a", "OK": "{{argument}}", "N": 1, "U": "{{x"}, "args": [1, "nul\u{0}"], "headers": {}},
        {"name": "b", "command": "x", "url": "https://x.example/"},
    ]});
    assert_eq!(
        paths(by_operator(&bad)),
        [
            "servers[0].headers",
            "servers[0].command",
            "servers[0].args[0]",
            "servers[0].args[1]",
            "servers[0].env.1X",
            "servers[0].env.OK",
            "servers[0].env.N",
            "servers[0].env.U",
            "servers[1].command",
        ]
    );
}

#[test]
fn a_code_tool_takes_its_source_from_a_file() {
    let body = json!({
        "tools": [{"type": "code", "name": "add", "file": "lib/add_two.js"}],
        "files": {"lib/add_two.js": "return 2"},
    });
    let manifest = by_administrator(&body).unwrap();
    let ToolAction::Code(code) = &manifest.tools[0].action else {
        panic!("{manifest:?}");
    };
    assert_eq!(code.source, "return 2");
    let stored = serde_json::to_value(&manifest).unwrap();
    assert!(stored.get("files").is_none(), "{stored}");
    assert_eq!(
        serde_json::from_value::<PluginManifest>(stored).unwrap(),
        manifest
    );
}

#[test]
fn files_that_do_not_fit_their_tools_are_refused() {
    let tool = |file: Value| json!({"type": "code", "name": "add", "file": file});
    let cases = [
        (
            json!({"tools": [tool(json!("a.js"))]}),
            vec!["tools[0].file"],
        ),
        (
            json!({"tools": [tool(json!(1))], "files": {}}),
            vec!["tools[0].file", "tools[0].source"],
        ),
        (
            json!({"tools": [tool(json!("a.js"))], "files": {"a.js": 1}}),
            vec!["files.a.js", "tools[0].file"],
        ),
        (
            json!({"tools": [tool(json!("a.js"))], "files": {"a.js": "x", "b.js": "y"}}),
            vec!["files.b.js"],
        ),
        (
            json!({"tools": [tool(json!("../a.js"))], "files": {"../a.js": "x"}}),
            vec!["files.../a.js"],
        ),
        (
            json!({"tools": [tool(json!("/a.js"))], "files": {"/a.js": "x"}}),
            vec!["files./a.js"],
        ),
        (
            json!({"tools": [{"type": "code", "name": "add", "file": "a.js", "source": "x"}], "files": {"a.js": "x"}}),
            vec!["tools[0].file"],
        ),
        (
            json!({"tools": [{"type": "http", "name": "add", "url": "https://x.example/", "file": "a.js"}], "files": {"a.js": "x"}}),
            vec!["tools[0].source"],
        ),
        (
            json!({"tools": [tool(json!("a.js"))], "files": []}),
            vec!["files", "tools[0].file"],
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(paths(by_administrator(&body)), expected, "{body}");
    }
    let many: serde_json::Map<_, _> = (0..65).map(|n| (format!("f{n}.js"), json!("x"))).collect();
    let body = json!({"tools": [tool(json!("f1.js"))], "files": many});
    assert_eq!(paths(by_administrator(&body)), ["files", "tools[0].file"]);
}
