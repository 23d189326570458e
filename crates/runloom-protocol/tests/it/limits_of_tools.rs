//! At the limit accepted, one over refused at the right place: tool refs.

use runloom_protocol::tools::ToolRef;
use runloom_protocol::{limits, validate};
use serde_json::{Value, json};

use crate::{only, paths, run_with_tools};

fn accepted(tool: &Value) -> ToolRef {
    let run = validate::create_run(&run_with_tools(json!([tool])));
    run.unwrap_or_else(|issues| panic!("{tool}: {issues:?}"))
        .spec
        .tools
        .remove(0)
}

fn refused_at(tool: &Value) -> String {
    only(validate::create_run(&run_with_tools(json!([tool])))).path
}

/// Sets `key` of `base` to a value at the limit, then to one past it.
pub(crate) fn bounds(base: &Value, key: &str, good: Value, bad: Value, path: &str) {
    let mut tool = base.clone();
    tool[key] = good;
    accepted(&tool);
    tool[key] = bad;
    assert_eq!(refused_at(&tool), format!("tools[0].{path}"), "{key}");
}

/// An object whose JSON has exactly this many bytes.
fn object_of(bytes: usize) -> Value {
    json!({"d": "x".repeat(bytes - json!({"d": ""}).to_string().len())})
}

fn local() -> Value {
    json!({"kind": "local", "name": "f"})
}

pub(crate) fn a2a() -> Value {
    json!({"kind": "a2a", "name": "f", "agentCardUrl": "https://h/card.json"})
}

pub(crate) fn mcp() -> Value {
    json!({"kind": "mcp", "name": "f", "url": "https://h/mcp"})
}

fn a2a_local() -> Value {
    json!({"kind": "a2a_local", "name": "f", "agentCard": {}})
}

fn mcp_local() -> Value {
    json!({"kind": "mcp_local", "name": "f", "tools": [{"name": "t"}]})
}

#[test]
fn a_spec_has_at_most_128_tools() {
    let tools = |count: usize| {
        let tools: Vec<Value> = (0..count)
            .map(|i| json!({"kind": "local", "name": format!("f{i}")}))
            .collect();
        run_with_tools(json!(tools))
    };
    assert_eq!(
        validate::create_run(&tools(limits::TOOLS_MAX))
            .unwrap()
            .spec
            .tools
            .len(),
        128
    );
    assert_eq!(
        only(validate::create_run(&tools(limits::TOOLS_MAX + 1))).path,
        "tools"
    );
}

#[test]
fn model_facing_names_have_an_alphabet_and_a_length() {
    for base in [local(), a2a(), a2a_local(), mcp()] {
        for bad in [
            json!("a".repeat(65)),
            json!(""),
            json!("a-b"),
            json!("é"),
            json!("a b"),
            json!(7),
            json!(null),
        ] {
            bounds(&base, "name", json!("aZ_9".repeat(16)), bad, "name");
        }
    }
    let tool = |name: &str| json!([{"name": name}]);
    bounds(
        &mcp_local(),
        "tools",
        tool("a-1.b/c"),
        tool("a 1"),
        "tools[0].name",
    );
    bounds(
        &mcp_local(),
        "tools",
        tool(&"a".repeat(64)),
        tool(&"a".repeat(65)),
        "tools[0].name",
    );
}

#[test]
fn references_to_the_workspace_have_limits() {
    let tool = json!({"kind": "mantyx", "id": ""});
    bounds(
        &tool,
        "id",
        json!("t".repeat(256)),
        json!("t".repeat(257)),
        "id",
    );
    bounds(&tool, "id", json!("tool_cm6"), json!(""), "id");
    let plugin = json!({"kind": "mantyx_plugin", "name": ""});
    bounds(
        &plugin,
        "name",
        json!("@acme-tools/search"),
        json!(""),
        "name",
    );
    bounds(
        &plugin,
        "name",
        json!("web_search"),
        json!("web search"),
        "name",
    );
    bounds(
        &plugin,
        "name",
        json!("p".repeat(256)),
        json!("p".repeat(257)),
        "name",
    );
}

#[test]
fn descriptions_have_a_length() {
    let max = limits::DESCRIPTION_MAX_CHARS;
    for base in [local(), a2a(), a2a_local()] {
        bounds(
            &base,
            "description",
            json!("é".repeat(max)),
            json!("é".repeat(max + 1)),
            "description",
        );
    }
    let tool = |length: usize| json!([{"name": "t", "description": "x".repeat(length)}]);
    bounds(
        &mcp_local(),
        "tools",
        tool(max),
        tool(max + 1),
        "tools[0].description",
    );
}

#[test]
fn documents_of_tools_have_a_size() {
    let max = limits::TOOL_DOCUMENT_MAX_BYTES;
    bounds(
        &local(),
        "parameters",
        object_of(max),
        object_of(max + 1),
        "parameters",
    );
    bounds(
        &local(),
        "outputSchema",
        object_of(max),
        object_of(max + 1),
        "outputSchema",
    );
    bounds(
        &a2a_local(),
        "agentCard",
        object_of(max),
        object_of(max + 1),
        "agentCard",
    );
    bounds(
        &mcp_local(),
        "serverInfo",
        object_of(max),
        object_of(max + 1),
        "serverInfo",
    );
    for key in ["inputSchema", "outputSchema", "annotations"] {
        let tool = |bytes: usize| json!([{"name": "t", key: object_of(bytes)}]);
        bounds(
            &mcp_local(),
            "tools",
            tool(max),
            tool(max + 1),
            &format!("tools[0].{key}"),
        );
    }
    let around = json!({"x": object_of(8)}).to_string().len() - 8;
    let tool = |bytes: usize| json!([{"name": "t", "x": object_of(bytes - around)}]);
    bounds(&mcp_local(), "tools", tool(max), tool(max + 1), "tools[0]");
}

#[test]
fn documents_that_are_echoed_must_be_objects() {
    bounds(
        &a2a_local(),
        "agentCard",
        json!({"x": 1}),
        json!("https://h/card"),
        "agentCard",
    );
    bounds(
        &a2a_local(),
        "agentCard",
        json!({}),
        json!(null),
        "agentCard",
    );
    bounds(
        &mcp_local(),
        "serverInfo",
        json!(null),
        json!([]),
        "serverInfo",
    );
}

#[test]
fn schemas_with_other_roots_are_left_to_the_server() {
    for root in [
        json!({"type": "string"}),
        json!(true),
        json!([]),
        json!("x"),
    ] {
        let ToolRef::Local(tool) =
            accepted(&json!({"kind": "local", "name": "f", "parameters": root}))
        else {
            panic!("a local tool");
        };
        assert_eq!(tool.parameters, Some(root));
    }
}

#[test]
fn mcp_local_servers_have_1_to_64_tools() {
    let tools = |count: usize| {
        json!(
            (0..count)
                .map(|i| json!({"name": format!("t{i}")}))
                .collect::<Vec<_>>()
        )
    };
    bounds(&mcp_local(), "tools", tools(1), tools(0), "tools");
    bounds(&mcp_local(), "tools", tools(64), tools(65), "tools");
    bounds(&mcp_local(), "tools", tools(1), json!(null), "tools");
}

#[test]
fn switches_are_booleans() {
    bounds(
        &local(),
        "longRunning",
        json!(true),
        json!("yes"),
        "longRunning",
    );
    bounds(&local(), "readOnly", json!(false), json!(0), "readOnly");
    bounds(&local(), "retain", json!(null), json!([]), "retain");
}

#[test]
fn names_that_are_used_twice_are_named() {
    let tools = json!([
        {"kind": "local", "name": "search"},
        {"kind": "a2a", "name": "search", "agentCardUrl": "https://h"},
        {"kind": "a2a_local", "name": "hr", "agentCard": {}},
        {"kind": "mcp_local", "name": "fs", "tools": [{"name": "read"}, {"name": "hr"}, {"name": "read"}]},
        {"kind": "mantyx_plugin", "name": "search"},
        {"kind": "mcp", "name": "gh", "url": "https://h"},
        {"kind": "mcp", "name": "gh", "url": "https://h"},
        {"kind": "mantyx", "id": "tool_1"},
        {"kind": "mantyx", "id": "tool_1"},
    ]);
    let issues = validate::create_run(&run_with_tools(tools)).unwrap_err();
    let listed: Vec<_> = issues
        .iter()
        .map(|i| (i.path.as_str(), i.message.as_str()))
        .collect();
    assert_eq!(
        listed,
        [
            (
                "tools[1].name",
                "duplicate tool name `search`: already used by tools[0].name"
            ),
            (
                "tools[3].tools[1].name",
                "duplicate tool name `hr`: already used by tools[2].name"
            ),
            (
                "tools[3].tools[2].name",
                "duplicate tool name `read`: already used by tools[3].tools[0].name"
            ),
            (
                "tools[4].name",
                "duplicate tool name `search`: already used by tools[0].name"
            ),
            (
                "tools[6].name",
                "duplicate `mcp` server name `gh`: already used by tools[5].name"
            ),
            (
                "tools[8].id",
                "duplicate workspace tool `tool_1`: already used by tools[7].id"
            ),
        ]
    );
}

#[test]
fn labels_that_the_model_does_not_see_may_be_shared() {
    let tools = json!([
        {"kind": "local", "name": "fs"},
        {"kind": "mcp", "name": "fs", "url": "https://h"},
        {"kind": "mcp_local", "name": "fs", "tools": [{"name": "a"}]},
        {"kind": "mcp_local", "name": "fs", "tools": [{"name": "b"}]},
    ]);
    assert_eq!(
        validate::create_run(&run_with_tools(tools))
            .unwrap()
            .spec
            .tools
            .len(),
        4
    );
}

#[test]
fn a_tool_needs_a_kind_that_we_know() {
    let tools = json!([{"name": "f"}, {"kind": "magic"}, {"kind": 3}, "local", null]);
    let found = paths(validate::create_run(&run_with_tools(tools)));
    assert_eq!(
        found,
        [
            "tools[0].kind",
            "tools[1].kind",
            "tools[2].kind",
            "tools[3]",
            "tools[4]"
        ]
    );
}
