//! What the model is told of each kind of tool, and what a call echoes.

use runloom_protocol::tools::{ToolAnnotations, ToolRef};
use serde_json::{Value, json};

use super::{Effect, Tool, Toolbox};
use runloom_ports::model::ToolDeclaration;
use runloom_ports::tools::ServerTool;
use runloom_schema::SchemaCache;

fn refs(tools: Value) -> Vec<ToolRef> {
    serde_json::from_value(tools).expect("tool refs")
}

fn build(tools: Value) -> Toolbox {
    Toolbox::build(&refs(tools), &SchemaCache::new()).expect("a toolbox")
}

fn issues(tools: Value) -> Vec<(String, String)> {
    let issues = Toolbox::build(&refs(tools), &SchemaCache::new()).expect_err("issues");
    issues.into_iter().map(|i| (i.path, i.message)).collect()
}

fn declared(tool: Value) -> ToolDeclaration {
    build(json!([tool])).declarations()[0].clone()
}

fn only(toolbox: &Toolbox) -> &Tool {
    let name = toolbox.names().next().expect("a tool");
    toolbox.get(name).expect("the tool of its name")
}

fn mcp(entry: Value) -> Value {
    json!({"kind": "mcp_local", "name": "docs", "tools": [entry]})
}

const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{}}"#;

#[test]
fn parameters_are_verbatim_or_those_of_no_arguments() {
    let verbatim = r#"{"type":"object","properties":{"b":{"type":"string"},"a":{"x-own":1}},"required":["b"]}"#;
    let nullable = r#"{"type":["object","null"]}"#;
    let cases = [
        (verbatim, verbatim),
        (nullable, nullable),
        (r#"{"type":"string"}"#, NO_ARGUMENTS),
        (r#"{"type":["string","null"]}"#, NO_ARGUMENTS),
        (r#"{"type":"array","items":{}}"#, NO_ARGUMENTS),
        ("{}", NO_ARGUMENTS),
        ("null", NO_ARGUMENTS),
        ("true", NO_ARGUMENTS),
        ("[]", NO_ARGUMENTS),
        (r#""object""#, NO_ARGUMENTS),
        (
            r#"{"properties":{"a":{}}}"#,
            r#"{"type":"object","properties":{"a":{}}}"#,
        ),
    ];
    for (given, shown) in cases {
        let given: Value = serde_json::from_str(given).unwrap();
        let local = declared(json!({"kind": "local", "name": "t", "parameters": given}));
        assert_eq!(local.parameters.to_string(), shown);
        let entry = declared(mcp(json!({"name": "t", "inputSchema": given})));
        assert_eq!(entry.parameters.to_string(), shown);
    }
    let missing = declared(json!({"kind": "local", "name": "t"}));
    assert_eq!(missing.parameters.to_string(), NO_ARGUMENTS);
    let missing = declared(mcp(json!({"name": "t"})));
    assert_eq!(missing.parameters.to_string(), NO_ARGUMENTS);
}

#[test]
fn output_schemas_are_kept_when_their_root_is_an_object() {
    let object = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let cases = [
        (object.clone(), Some(object)),
        (json!({"type": "string"}), None),
        (json!({"type": "array"}), None),
        (json!({}), None),
        (json!("text"), None),
        (Value::Null, None),
    ];
    for (given, kept) in cases {
        let local = declared(json!({"kind": "local", "name": "t", "outputSchema": given}));
        assert_eq!(local.output_schema, kept);
        let entry = declared(mcp(json!({"name": "t", "outputSchema": given})));
        assert_eq!(entry.output_schema, kept);
    }
}

#[test]
fn descriptions_of_local_tools() {
    let note = "NOTE: This is a long-running operation. Do not call this tool again if it has already returned an intermediate or pending status.";
    let cases = [
        (json!({"description": "Reads."}), "Reads.".to_owned()),
        (json!({}), "job".to_owned()),
        (json!({"description": " "}), "job".to_owned()),
        (
            json!({"description": "Runs.", "longRunning": true}),
            format!("Runs.\n\n{note}"),
        ),
        (json!({"longRunning": true}), format!("job\n\n{note}")),
    ];
    for (fields, description) in cases {
        let mut tool = json!({"kind": "local", "name": "job"});
        let fields = fields.as_object().cloned().unwrap();
        tool.as_object_mut().unwrap().extend(fields);
        assert_eq!(declared(tool).description, description);
    }
}

#[test]
fn descriptions_of_mcp_tools() {
    let cases = [
        (json!({"name": "t", "description": "Reads."}), "Reads."),
        (json!({"name": "t", "title": "Reader"}), "Reader"),
        (json!({"name": "t"}), "t"),
    ];
    for (entry, description) in cases {
        assert_eq!(declared(mcp(entry)).description, description);
    }
}

#[test]
fn descriptions_of_remote_agents_come_from_the_card() {
    let skills: Vec<_> = (0..14)
        .map(|n| json!({"id": format!("s{n}"), "name": format!("Skill {n}"), "description": format!("Does {n}")}))
        .collect();
    let bullets: String = (0..12)
        .map(|n| format!("\n- Skill {n}: Does {n}"))
        .collect();
    let cases = [
        (
            json!({"name": "Ada", "description": "Counts.", "skills": skills}),
            format!("Delegate a task to the Ada agent: Counts.{bullets}"),
        ),
        (
            json!({"name": "Ada", "skills": [{"id": "add"}, {"name": "Sub"}, {}, 3]}),
            "Delegate a task to the Ada agent\n- add\n- Sub".to_owned(),
        ),
        (
            json!({"description": "Counts.", "skills": {}}),
            "Delegate a task to the peer agent: Counts.".to_owned(),
        ),
    ];
    for (card, description) in cases {
        let tool = declared(json!({"kind": "a2a_local", "name": "peer", "agentCard": card}));
        assert_eq!(tool.description, description);
    }
    let own = json!({"kind": "a2a_local", "name": "peer", "agentCard": {"name": "Ada"}, "description": "Own."});
    assert_eq!(declared(own).description, "Own.");
}

#[test]
fn remote_agents_take_one_message() {
    let toolbox = build(json!([{"kind": "a2a_local", "name": "peer", "agentCard": {}}]));
    let tool = only(&toolbox);
    assert_eq!(tool.check(&json!({"message": "do it"})), Ok(()));
    assert!(tool.check(&json!({})).is_err());
    assert!(tool.check(&json!({"message": 1})).is_err());
    let parameters = &toolbox.declarations()[0].parameters;
    assert_eq!(parameters["required"], json!(["message"]));
    assert_eq!(parameters["properties"]["message"]["type"], "string");
}

#[test]
fn effects_and_flags_come_from_the_ref() {
    let local = |fields: Value| {
        let mut tool = json!({"kind": "local", "name": "t"});
        let fields = fields.as_object().cloned().unwrap();
        tool.as_object_mut().unwrap().extend(fields);
        tool
    };
    let hints = |hints: Value| mcp(json!({"name": "t", "annotations": hints}));
    let cases = [
        (local(json!({})), false, Effect::Once),
        (local(json!({"readOnly": true})), true, Effect::Read),
        (hints(json!({})), false, Effect::Once),
        (hints(json!({"readOnlyHint": true})), true, Effect::Read),
        (hints(json!({"readOnlyHint": "true"})), false, Effect::Once),
        (
            hints(json!({"idempotentHint": true})),
            false,
            Effect::Idempotent,
        ),
        (
            hints(json!({"readOnlyHint": true, "idempotentHint": true})),
            true,
            Effect::Read,
        ),
        (hints(json!("odd")), false, Effect::Once),
        (
            json!({"kind": "a2a_local", "name": "t", "agentCard": {}}),
            false,
            Effect::Once,
        ),
    ];
    for (tool, read_only, effect) in cases {
        let toolbox = build(json!([tool]));
        let built = only(&toolbox);
        assert_eq!(
            (built.read_only, built.effect),
            (read_only, effect),
            "{tool}"
        );
        assert!(built.is_client());
        assert!(!built.retain);
    }
    assert!(only(&build(json!([local(json!({"retain": true}))]))).retain);
}

#[test]
fn names_of_mcp_tools_become_valid_for_models() {
    let toolbox = build(json!([mcp(json!({"name": "find-all.v2"}))]));
    assert_eq!(toolbox.names().collect::<Vec<_>>(), ["find_all_v2"]);
    assert_eq!(toolbox.declarations()[0].name, "find_all_v2");
}

#[test]
fn calls_echo_what_each_kind_needs() {
    let card = json!({"name": "Ada", "url": "http://example.com", "x-own": {"kept": [1]}});
    let info = json!({"name": "docs-server", "version": "1", "x-own": true});
    let hints = json!({"readOnlyHint": true, "x-own": null});
    let cases = [
        (
            json!({"kind": "local", "name": "t", "readOnly": true, "retain": true}),
            json!({"toolUseId": "tu_1", "name": "t", "args": {"message": "m"}, "kind": "local"}),
        ),
        (
            json!({"kind": "a2a_local", "name": "t", "agentCard": card}),
            json!({"toolUseId": "tu_1", "name": "t", "args": {"message": "m"}, "kind": "a2a_local", "agentCard": card}),
        ),
        (
            json!({"kind": "mcp_local", "name": "docs", "serverInfo": info,
                   "tools": [{"name": "docs_search", "annotations": hints}]}),
            json!({"toolUseId": "tu_1", "name": "docs_search", "args": {"message": "m"}, "kind": "mcp_local",
                   "mcpServer": "docs", "mcpToolName": "docs_search", "mcpServerInfo": info, "annotations": hints}),
        ),
        (
            mcp(json!({"name": "find-all.v2"})),
            json!({"toolUseId": "tu_1", "name": "find-all.v2", "args": {"message": "m"}, "kind": "mcp_local",
                   "mcpServer": "docs", "mcpToolName": "find-all.v2"}),
        ),
        (
            mcp(json!({"name": "find"})),
            json!({"toolUseId": "tu_1", "name": "find", "args": {"message": "m"}, "kind": "mcp_local",
                   "mcpServer": "docs", "mcpToolName": "find"}),
        ),
    ];
    for (tool, event) in cases {
        let toolbox = build(json!([tool]));
        let call = only(&toolbox).local_call("tu_1", json!({"message": "m"}));
        assert_eq!(serde_json::to_value(&call).unwrap(), event);
    }
}

#[test]
fn wrong_arguments_are_explained_to_the_model() {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let toolbox = build(json!([{"kind": "local", "name": "weather", "parameters": parameters}]));
    let tool = only(&toolbox);
    assert_eq!(tool.check(&json!({"city": "Oslo"})), Ok(()));
    let text = tool.check(&json!({"city": 7})).unwrap_err();
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["error"], "tool_input_invalid");
    assert_eq!(told["tool"], "weather");
    assert_eq!(
        told["violations"],
        json!([{"path": "/city", "message": "7 is not of type \"string\""}])
    );
    assert!(told["message"].is_string() && told["hint"].is_string());
    assert!(tool.check(&json!("Oslo")).is_err());
}

#[test]
fn the_order_is_the_specs() {
    let toolbox = build(json!([
        {"kind": "local", "name": "zeta"},
        {"kind": "mcp_local", "name": "docs", "tools": [{"name": "search"}, {"name": "fetch"}]},
        {"kind": "local", "name": "alpha"},
    ]));
    let names: Vec<_> = toolbox.names().collect();
    assert_eq!(names, ["zeta", "search", "fetch", "alpha"]);
    let declared: Vec<_> = toolbox
        .declarations()
        .iter()
        .map(|d| d.name.clone())
        .collect();
    assert_eq!(declared, names);
    assert_eq!(
        toolbox.get("fetch").map(|tool| tool.name.as_str()),
        Some("fetch")
    );
    assert!(toolbox.get("docs_fetch").is_none());
    assert_eq!(toolbox.len(), 4);
    assert!(Toolbox::empty().is_empty());
}

#[test]
fn every_issue_has_its_place() {
    let found = issues(json!([
        {"kind": "local", "name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "strng"}}}},
        {"kind": "mantyx", "id": "t1"},
        {"kind": "mantyx_plugin", "name": "web_search"},
        {"kind": "a2a", "name": "b", "agentCardUrl": "http://example.com"},
        {"kind": "mcp", "name": "c", "url": "http://example.com"},
        {"kind": "mcp_local", "name": "d", "tools": [
            {"name": "ok"},
            {"name": "e", "inputSchema": {"type": "object", "$ref": "file:///etc/passwd"}},
            {"name": "ok"},
        ]},
        {"kind": "local", "name": "f", "parameters": {"type": "object", "$ref": "file:///etc/passwd"}},
        {"kind": "a2a_local", "name": "a", "agentCard": {}},
    ]));
    let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "tools[0].parameters",
            "tools[5].tools[2].name",
            "tools[6].parameters",
            "tools[7].name",
        ]
    );
    assert!(
        found[0].1.starts_with("at /properties/x/type: "),
        "{}",
        found[0].1
    );
    assert!(found[2].1.contains("leaves the schema"), "{}", found[2].1);
    assert!(found[3].1.contains("\"a\""));
}

/// Who passes on an MCP server's listing cannot mend it.
#[test]
fn an_unusable_schema_in_a_clients_listing_is_told_verbatim_and_takes_any_arguments() {
    let sloppy =
        json!({"type": "object", "properties": {"a": {"type": "string", "required": true}}});
    let toolbox = build(json!([mcp(json!({"name": "find", "inputSchema": sloppy}))]));
    assert_eq!(toolbox.declarations()[0].parameters, sloppy);
    assert_eq!(only(&toolbox).validator.check(&json!({"a": 1})), Ok(()));
    assert!(only(&toolbox).validator.check(&json!([1])).is_err());
    let [unchecked] = toolbox.unchecked() else {
        panic!("{:?}", toolbox.unchecked());
    };
    assert_eq!(unchecked.path, "tools[0].tools[0].inputSchema");
    // How much it is remains a reason.
    let deep = (0..98).fold(json!({}), |inner, _| json!({"not": inner}));
    let huge = json!({"type": "object", "properties": {"a": deep}});
    issues(json!([mcp(json!({"name": "find", "inputSchema": huge}))]));
}

/// The server that listed it checks its arguments as well; a workspace's own definitions are refused before they get
/// here.
#[test]
fn a_strangers_tool_with_an_unusable_schema_takes_any_arguments() {
    let listed = ServerTool {
        action_effects: None,
        name: "docs_find".to_owned(),
        description: "Finds.".to_owned(),
        parameters: json!({"type": "object", "properties": {"a": {"type": "zzz"}}}),
        output_schema: None,
        effect: Effect::Read,
        annotations: None,
        policy: None,
        from: 0,
        target: Value::Null,
    };
    let toolbox = Toolbox::empty().with_server(vec![listed], &SchemaCache::new());
    assert_eq!(only(&toolbox).validator.check(&json!({"a": 1})), Ok(()));
    assert!(only(&toolbox).validator.check(&json!([1])).is_err());
    assert_eq!(toolbox.declarations()[0].parameters["type"], "object");
}

#[test]
fn a_server_tool_has_the_policy_and_the_hints_of_its_toolset() {
    let policy =
        json!({"rules": [{"tools": ["docs_*"], "decision": "deny", "reason": "Not here."}]});
    let listed = |annotations: Option<ToolAnnotations>| ServerTool {
        action_effects: None,
        name: "docs_drop".to_owned(),
        description: "Drops.".to_owned(),
        parameters: json!({"type": "object"}),
        output_schema: None,
        effect: Effect::Once,
        annotations,
        policy: Some(serde_json::from_value(policy.clone()).unwrap()),
        from: 0,
        target: Value::Null,
    };
    let toolbox = |tool| Toolbox::empty().with_server(vec![tool], &SchemaCache::new());
    let hints = ToolAnnotations {
        destructive_hint: Some(false),
        ..ToolAnnotations::default()
    };
    let built = toolbox(listed(Some(hints)));
    let tool = only(&built);
    assert!(tool.policy.is_some());
    assert!(!tool.hints().destructive && tool.hints().open_world);
    assert_eq!(tool.annotations(), Some(json!({"destructiveHint": false})));
    let silent = toolbox(listed(Some(ToolAnnotations::default())));
    assert!(only(&silent).hints().destructive, "MCP's default");
    assert_eq!(only(&silent).annotations(), None);
}
