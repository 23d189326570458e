//! What a workspace keeps: accepted as written, or refused with every slip.

use runloom_protocol::definition::{DeclaredEffect, ToolAction};
use runloom_protocol::error::Issue;
use runloom_protocol::validate::{
    agent_definition, external_agent, provider_definition, secret_value, tool_definition,
};
use serde_json::{Value, json};

fn paths<T: std::fmt::Debug>(result: Result<T, Vec<Issue>>) -> Vec<String> {
    let issues = result.unwrap_err();
    issues.into_iter().map(|issue| issue.path).collect()
}

#[test]
fn an_agent_is_read_in_either_spelling() {
    let camel = agent_definition(&json!({
        "systemPrompt": "Help.", "modelId": "platform:demo", "fallbackModelId": "b", "reasoningLevel": "low",
        "loopDetection": {"consecutiveThreshold": 2}, "toolBudgets": {"a_b": {"maxCalls": 1}},
        "budgets": {"maxToolTurns": 3},
        "tools": [{"kind": "local", "name": "look", "readOnly": true}],
        "skills": [{"name": "S", "text": "Do so."}],
    }));
    let snake = agent_definition(&json!({
        "slug": "support", "system_prompt": "Help.", "model": "platform:demo", "fallback_model": "b", "reasoning_level": 30,
        "loop_detection": {"consecutive_threshold": 2}, "tool_budgets": {"a_b": {"max_calls": 1}},
        "budgets": {"max_tool_turns": 3},
        "tools": [{"kind": "local", "name": "look", "read_only": true}],
        "skills": [{"name": "S", "text": "Do so."}],
    }));
    assert_eq!(camel.unwrap(), snake.unwrap());
}

#[test]
fn an_agents_slips_are_all_named() {
    let body = json!({
        "sytemPrompt": "x", "reasoningLevel": "much", "tools": [{"kind": "soap"}],
        "skills": [{"name": "S"}],
    });
    assert_eq!(
        paths(agent_definition(&body)),
        [
            "systemPrompt",
            "skills[0].text",
            "reasoningLevel",
            "tools[0].kind",
            "sytemPrompt"
        ]
    );
}

#[test]
fn a_tool_takes_its_name_from_the_slug_and_its_effect_from_the_method() {
    for (method, effect) in [
        ("GET", DeclaredEffect::Read),
        ("put", DeclaredEffect::Idempotent),
        ("POST", DeclaredEffect::Once),
    ] {
        let body =
            json!({"type": "http", "method": method, "url": "https://api.example/v1/{{city}}"});
        let tool = tool_definition(&body, "get-weather").unwrap();
        assert_eq!(tool.name, "get_weather");
        assert_eq!(tool.effect(), effect, "{method}");
    }
    let declared =
        json!({"type": "http", "method": "POST", "url": "https://a.example/", "effect": "read"});
    let tool = tool_definition(&declared, "x").unwrap();
    assert_eq!(tool.effect(), DeclaredEffect::Read);
    let read: Value = serde_json::to_value(&tool).unwrap();
    let again = serde_json::from_value(read).unwrap();
    assert_eq!(tool, again);
}

#[test]
fn nothing_of_the_model_may_choose_the_host() {
    for url in [
        "https://{{host}}/x",
        "{{url}}",
        "https://api.{{region}}.example/",
        "https://api.example{{path}}",
        "{{secret:URL}}/x",
    ] {
        let body = json!({"type": "http", "url": url});
        assert_eq!(paths(tool_definition(&body, "x")), ["url"], "{url}");
    }
    let fine = json!({"type": "http", "url": "https://api.example/{{a}}?k={{secret:K}}"});
    assert!(tool_definition(&fine, "x").is_ok());
}

#[test]
fn a_tools_slips_are_all_named() {
    let body = json!({
        "type": "http", "url": "ftp://x", "headers": {"A": "{{"}, "body": {"a": ["{{b c}}"]},
        "response": {"pointer": "x", "template": "{{secret:K}}"}, "timeoutMs": 0, "colour": "red",
        "parameters": {"type": "array"},
    });
    assert_eq!(
        paths(tool_definition(&body, "x")),
        [
            "url",
            "headers.A",
            "body.a[0]",
            "response.pointer",
            "response.template",
            "parameters",
            "timeoutMs",
            "colour"
        ]
    );
    let code = json!({"type": "code", "memoryMb": 100_000, "secrets": ["a b"]});
    assert_eq!(
        paths(tool_definition(&code, "x")),
        ["source", "memoryMb", "secrets[0]"]
    );
}

#[test]
fn what_a_definition_does_not_say_of_time_is_filled_in_unless_a_plugin_knows_it() {
    let time = |body: Value| tool_definition(&body, "x").unwrap().timeout_ms;
    let code = json!({"type": "code", "source": "return 1"});
    assert_eq!(time(code), Some(30_000));
    let plugin = json!({"type": "plugin", "plugin": "@a/b"});
    assert_eq!(time(plugin.clone()), None);
    let mut given = plugin;
    given["timeoutMs"] = json!(5);
    assert_eq!(time(given), Some(5));
    let agent = external_agent(&json!({"agentCardUrl": "https://a.example/"}), "a").unwrap();
    assert_eq!(agent.timeout_ms, Some(300_000));
}

#[test]
fn a_plugins_tool_under_another_name_is_read_back_as_it_was() {
    let plain =
        json!({"type": "plugin", "plugin": "@a/b", "description": "Does it.", "effect": "read"});
    let tool = tool_definition(&plain, "x").unwrap();
    let read_back = serde_json::to_value(&tool).unwrap();
    assert_eq!(tool_definition(&read_back, "x").unwrap(), tool);
}

#[test]
fn an_external_agent_is_a_tool_that_reaches_it() {
    let body = json!({"agentCardUrl": "https://peer.example/card", "headers": {"Authorization": "Bearer {{secret:PEER}}"}});
    let tool = external_agent(&body, "peer-one").unwrap();
    assert_eq!(tool.name, "peer_one");
    assert!(matches!(tool.action, ToolAction::A2a(_)));
    assert_eq!(paths(external_agent(&json!({}), "p")), ["agentCardUrl"]);
}

#[test]
fn a_provider_names_its_kind_and_models() {
    let body = json!({"kind": "openai", "apiKey": "{{secret:OPENAI}}", "models": [
        {"id": "gpt-5.5", "contextWindow": 1, "pricing": {"input": 1.25, "output": 10}},
    ]});
    let provider = provider_definition(&body).unwrap();
    assert!(!format!("{provider:?}").contains("secret:OPENAI"));
    let bad = json!({"kind": "soap", "models": [{"id": "a"}, {"id": "a"}, {"id": "b", "pricing": {"input": -1}}]});
    assert_eq!(
        paths(provider_definition(&bad)),
        [
            "kind",
            "models[1].id",
            "models[2].pricing.input",
            "models[2].pricing.output"
        ]
    );
}

#[test]
fn a_secrets_value_is_never_repeated() {
    assert_eq!(secret_value(&json!({"value": "s3cret"})).unwrap(), "s3cret");
    let long = "s3cret".repeat(10_000);
    for body in [
        json!({}),
        json!({"value": ""}),
        json!({"value": long}),
        json!({"value": ["s3cret"]}),
    ] {
        let issues = secret_value(&body).unwrap_err();
        assert!(!format!("{issues:?}").contains("s3cret"), "{issues:?}");
    }
}

#[test]
fn limits_of_an_agent_have_known_fields_only() {
    let body = json!({
        "systemPrompt": "x",
        "budgets": {"maxToolTurns": 3, "maxSteps": 1},
        "loopDetection": {"threshold": 2},
        "toolBudgets": {"look": {"maxCalls": 1, "perTurn": 2}},
    });
    assert_eq!(
        paths(agent_definition(&body)),
        [
            "budgets.maxSteps",
            "loopDetection.threshold",
            "toolBudgets.look.perTurn"
        ]
    );
}
