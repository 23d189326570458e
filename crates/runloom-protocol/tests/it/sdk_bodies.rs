//! Bodies as the official SDKs write them are accepted, and nothing of them is lost.

use runloom_protocol::spec::{AgentSpec, LoopDetection, ToolAnswer};
use runloom_protocol::tools::ToolRef;
use runloom_protocol::validate;
use serde_json::{Value, json};

/// One tool of every kind, in the shape that the Python SDK serialises.
fn every_tool() -> Value {
    json!([
        {"kind": "mantyx", "id": "tool_cm6abc"},
        {"kind": "mantyx_plugin", "name": "@acme/search"},
        {
            "kind": "local", "name": "read_file", "description": "",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
            "outputSchema": {"type": "object"}, "longRunning": true, "readOnly": true, "retain": true,
        },
        {
            "kind": "a2a", "name": "billing", "agentCardUrl": "https://billing.acme.com/.well-known/agent-card.json",
            "description": "Billing.", "headers": {"Authorization": "Bearer ${TOKEN}"}, "contextId": "ctx_abc",
        },
        {
            "kind": "a2a_local", "name": "hr",
            "agentCard": {"name": "HR", "skills": [{"id": "pto", "x-extra": [1, null]}], "security": []},
        },
        {
            "kind": "mcp", "name": "github", "url": "https://mcp.github.com/v1", "headers": {"Authorization": "Bearer x"},
            "toolFilter": ["search_repos", "read-file"],
        },
        {
            "kind": "mcp_local", "name": "fs", "serverInfo": {"name": "server", "version": "0.4.1", "icons": []},
            "tools": [{
                "name": "fs_read_file", "inputSchema": {"type": "object"}, "description": "Read",
                "annotations": {"readOnlyHint": true}, "title": "Read a file", "_meta": {"z": 1, "a": 2},
            }],
        },
    ])
}

#[test]
fn a_run_of_the_baseline_sdk_is_accepted() {
    let body = json!({
        "tools": every_tool(), "systemPrompt": "You help.", "agentId": "agent_cm6abc123", "name": "ephemeral",
        "modelId": "openai:gpt-5.5", "reasoningLevel": "medium",
        "outputSchema": {"name": "weather_report", "schema": {"type": "object"}},
        "loopDetection": {"consecutiveThreshold": 3, "hardCutoffThreshold": 6},
        "toolBudgets": {"recall": {"maxCalls": 4}}, "budgets": {"maxToolTurns": 32},
        "metadata": {"customer": "acme"}, "prompt": "Hi",
    });
    let spec = validate::create_run(&body).unwrap().spec;
    assert_eq!(spec.tools.len(), 7);
    assert_eq!(spec.loop_detection, Some(LoopDetection::default()));
    assert_eq!(spec.budgets.max_tool_turns, Some(32));
    assert_eq!(spec.reasoning_level, Some(50));
}

#[test]
fn fields_of_the_newest_sdk_that_we_do_not_know_are_ignored() {
    let body = json!({
        "tools": [], "systemPrompt": "You help.", "fallbackModelId": "openai/gpt-5.5", "activeModelId": "x", "supervisor": {"interval": 5},
        "plan": {"steps": ["a"]}, "budgets": {"maxToolTurns": 3, "maxMoons": 1},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read this"},
        ],
    });
    let run = validate::create_run(&body).unwrap();
    assert_eq!(run.messages.len(), 2);
    assert_eq!(run.spec.active_model_id, None);
    let fallback = run.spec.fallback_model_id.as_deref();
    assert_eq!(fallback, Some("openai/gpt-5.5"));
    let message = json!({"prompt": "Hi", "supervisor": false, "plan": "auto"});
    assert!(validate::create_message(&message).is_ok());
}

#[test]
fn a_plan_alone_is_refused_rather_than_carried_out() {
    let plan = json!({"planOnly": true});
    let run = json!({"systemPrompt": "You help.", "prompt": "Delete it.", "plan": plan});
    let session = json!({"systemPrompt": "You help.", "plan": plan});
    let message = json!({"prompt": "Delete it.", "plan": plan});
    for refused in [
        validate::create_run(&run).unwrap_err(),
        validate::create_session(&session).unwrap_err(),
        validate::create_message(&message).unwrap_err(),
    ] {
        assert_eq!(refused[0].path, "plan", "{refused:?}");
    }
}

#[test]
fn tool_results_of_both_generations_are_accepted() {
    let plain = json!({"toolUseId": "tu_1", "result": "ok"});
    assert_eq!(
        validate::tool_result(&plain).unwrap().answer,
        ToolAnswer::Result("ok".into())
    );
    let files = json!({
        "toolUseId": "tu_1", "result": "", "files": [{"filename": "chart.png", "mimeType": "image/png", "data": "iVBORw0="}],
    });
    assert_eq!(
        validate::tool_result(&files).unwrap().files[0].name(),
        "chart.png"
    );
}

#[test]
fn documents_of_others_are_kept_word_for_word() {
    let body = json!({"systemPrompt": "s", "tools": every_tool()});
    let spec = validate::create_session(&body).unwrap().spec;
    let [.., ToolRef::A2aLocal(peer), _, ToolRef::McpLocal(server)] = spec.tools.as_slice() else {
        panic!("the order of the tools changed");
    };
    assert_eq!(
        serde_json::to_string(&peer.agent_card).unwrap(),
        every_tool()[4]["agentCard"].to_string()
    );
    assert_eq!(
        serde_json::to_string(&server.server_info).unwrap(),
        every_tool()[6]["serverInfo"].to_string()
    );
    assert_eq!(
        server.tools[0].rest["_meta"].to_string(),
        r#"{"z":1,"a":2}"#
    );
    assert_eq!(server.tools[0].rest["title"], "Read a file");
}

#[test]
fn a_checked_spec_survives_the_store() {
    let body = json!({
        "systemPrompt": "s", "tools": every_tool(), "loopDetection": {"consecutiveThreshold": 9}, "toolBudgets": {},
        "budgets": {"maxWallMs": 5, "maxOutputTokens": 6, "maxCostUsd": 0.5}, "metadata": {"a": "b"},
        "outputSchema": {"schema": {"type": "object"}, "enforcement": "strict"}, "reasoningLevel": 0,
    });
    let spec = validate::create_session(&body).unwrap().spec;
    let stored = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<AgentSpec>(&stored).unwrap(), spec);
    // What a snapshot shows can be sent again.
    let again = validate::create_session(&serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(again.spec, spec);
}
