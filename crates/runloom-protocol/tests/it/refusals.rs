//! What is refused, what is forgiven, and what the refusal says.

use runloom_protocol::spec::{PromptMessage, Role};
use runloom_protocol::{limits, validate};
use serde_json::{Map, Value, json};

use crate::{only, paths, run, run_with};

#[test]
fn several_violations_are_all_reported_in_order() {
    let body = json!({
        "prompt": 5,
        "name": [],
        "agentId": "support",
        "modelId": true,
        "fallbackModelId": 5,
        "reasoningLevel": "max",
        "tools": [{"kind": "local"}, {"kind": "mcp", "name": "a-b", "url": "ftp://h", "headers": {"a b": 1}}],
        "budgets": {"maxToolTurns": 0, "maxCostUsd": -1},
        "outputSchema": {"name": "a b", "schema": [], "enforcement": 1},
        "loopDetection": {"consecutiveThreshold": 1, "hardCutoffThreshold": 1.5},
        "toolBudgets": {"f": {"maxCalls": "3"}},
        "metadata": {"my key": 1},
    });
    assert_eq!(
        paths(validate::create_run(&body)),
        [
            "prompt",
            "agentId",
            "name",
            "modelId",
            "fallbackModelId",
            "reasoningLevel",
            "tools[0].name",
            "tools[1].name",
            "tools[1].url",
            "tools[1].headers.a b",
            "tools[1].headers.a b",
            "budgets.maxToolTurns",
            "budgets.maxCostUsd",
            "outputSchema.name",
            "outputSchema.enforcement",
            "outputSchema.schema",
            "loopDetection.consecutiveThreshold",
            "loopDetection.hardCutoffThreshold",
            "toolBudgets.f.maxCalls",
            "metadata.my key",
            "metadata.my key",
        ]
    );
}

#[test]
fn the_list_of_violations_is_bounded() {
    let metadata = |count: usize| {
        let entries = (0..count).map(|i| (format!("k{i}"), json!(1)));
        run_with("metadata", Value::Object(entries.collect::<Map<_, _>>()))
    };
    // One more issue says that there are too many entries.
    let full = validate::create_run(&metadata(limits::ISSUES_MAX - 1)).unwrap_err();
    assert_eq!(full.len(), limits::ISSUES_MAX);
    assert_eq!(full.last().unwrap().path, "metadata.k98");
    // A thousand entries, their number and their size: 1,002 issues, of which 99 are listed.
    let over = validate::create_run(&metadata(1000)).unwrap_err();
    assert_eq!(over.len(), limits::ISSUES_MAX);
    assert_eq!(
        over.last().unwrap().message,
        "903 further violations are not listed"
    );
}

#[test]
fn a_refusal_stays_small_whatever_was_sent() {
    let huge = "x".repeat(1 << 20);
    let body = json!({
        "systemPrompt": "s", "prompt": "p", "reasoningLevel": huge, "agentId": huge, "metadata": {huge.clone(): huge},
        "tools": [{"kind": huge}, {"kind": "local", "name": huge}],
    });
    let issues = validate::create_run(&body).unwrap_err();
    assert_eq!(issues.len(), 7);
    assert!(serde_json::to_string(&issues).unwrap().len() < 4096);
}

#[test]
fn a_body_must_be_an_object() {
    let table = [
        (json!(null), "null"),
        (json!(true), "a boolean"),
        (json!(1), "a number"),
        (json!("{}"), "a string"),
        (json!([]), "an array"),
    ];
    for (body, kind) in table {
        let wanted = format!("expected an object, got {kind}");
        let refusals = [
            only(validate::create_run(&body)),
            only(validate::create_session(&body)),
            only(validate::create_message(&body)),
            only(validate::tool_result(&body)),
        ];
        for issue in refusals {
            assert_eq!((issue.path.as_str(), &issue.message), ("", &wanted));
        }
    }
}

#[test]
fn a_wrong_type_is_named() {
    let table = [
        ("name", json!(1), "expected a string, got a number"),
        ("tools", json!({}), "expected an array, got an object"),
        ("budgets", json!("32"), "expected an object, got a string"),
        (
            "outputSchema",
            json!([]),
            "expected an object, got an array",
        ),
        (
            "metadata",
            json!(false),
            "expected an object, got a boolean",
        ),
        (
            "loopDetection",
            json!(true),
            "expected `false` or an object, got a boolean",
        ),
        (
            "reasoningLevel",
            json!([]),
            "expected an integer from 0 to 100, got an array",
        ),
        (
            "budgets",
            json!({"maxToolTurns": 1000}),
            "expected an integer from 1 to 100, got 1000",
        ),
    ];
    for (key, value, message) in table {
        assert_eq!(
            only(validate::create_run(&run_with(key, value))).message,
            message
        );
    }
}

#[test]
fn null_is_absence() {
    let mut body = run();
    for key in [
        "name",
        "agentId",
        "modelId",
        "fallbackModelId",
        "messages",
        "reasoningLevel",
        "tools",
        "budgets",
        "outputSchema",
        "loopDetection",
        "toolBudgets",
        "metadata",
    ] {
        body[key] = Value::Null;
    }
    assert_eq!(validate::create_run(&body), validate::create_run(&run()));
}

#[test]
fn prompt_and_messages_exclude_each_other() {
    let messages = json!([{"role": "user", "content": "Hi"}]);
    assert_eq!(
        only(validate::create_run(&run_with(
            "messages",
            messages.clone()
        )))
        .path,
        "prompt"
    );
    assert_eq!(
        only(validate::create_run(&json!({"systemPrompt": "s"}))).path,
        "prompt"
    );
    assert_eq!(only(validate::create_message(&json!({}))).path, "prompt");
    let message = validate::create_message(&json!({"messages": messages})).unwrap();
    let prompt = validate::create_message(&json!({"prompt": "Hi"})).unwrap();
    assert_eq!(message, prompt);
    assert_eq!(prompt.messages, [PromptMessage::new(Role::User, "Hi")]);
}

#[test]
fn an_empty_question_is_refused() {
    for blank in ["", " \n"] {
        assert_eq!(
            only(validate::create_run(&run_with("prompt", json!(blank)))).path,
            "prompt"
        );
        let messages =
            json!([{"role": "assistant", "content": ""}, {"role": "user", "content": blank}]);
        assert_eq!(
            only(validate::create_message(&json!({"messages": messages}))).path,
            "messages[1].content"
        );
    }
}

#[test]
fn the_last_message_that_is_not_system_is_the_users() {
    let message = |role: &str| json!({"role": role, "content": "x"});
    let check = |roles: &[&str]| {
        let messages: Vec<Value> = roles.iter().map(|role| message(role)).collect();
        validate::create_message(&json!({"messages": messages}))
    };
    assert!(check(&["system", "user", "assistant", "user", "system"]).is_ok());
    assert_eq!(
        only(check(&["user", "assistant", "system"])).path,
        "messages[1].role"
    );
    assert_eq!(only(check(&["system"])).path, "messages");
    assert_eq!(only(check(&["user", "tool"])).path, "messages[1].role");
}

#[test]
fn broken_messages_are_told_apart() {
    let body = json!({"messages": [
        "Hi", {"role": "user"}, {"content": "x"}, {"role": 1, "content": 2}, {"role": "user", "content": "ok"},
    ]});
    assert_eq!(
        paths(validate::create_message(&body)),
        [
            "messages[0]",
            "messages[1].content",
            "messages[2].role",
            "messages[3].role",
            "messages[3].content"
        ]
    );
}

#[test]
fn text_parts_are_joined_and_others_are_refused() {
    let with = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let parts = json!([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]);
    assert_eq!(
        validate::create_message(&with(parts)).unwrap().messages[0].content,
        "a\nb"
    );
    let file = json!([{"type": "text", "text": "a"}, {"type": "input_file", "data": "QQ=="}]);
    let issue = only(validate::create_message(&with(file)));
    assert_eq!(issue.path, "messages[0].content[1].type");
    assert!(
        issue
            .message
            .contains("`attachments` of the last user message"),
        "{issue:?}"
    );
    let broken = json!(["a", {"type": "text"}, {}, {"type": "text", "text": 1}]);
    assert_eq!(
        paths(validate::create_message(&with(broken))),
        [
            "messages[0].content[0]",
            "messages[0].content[1].text",
            "messages[0].content[2].type",
            "messages[0].content[3].text",
        ]
    );
}

#[test]
fn somebody_must_say_what_the_agent_is() {
    let system = |content: &str| {
        json!({"messages": [
            {"role": "system", "content": content}, {"role": "user", "content": "Hi"},
        ]})
    };
    assert!(validate::create_run(&system("You help.")).is_ok());
    assert_eq!(
        only(validate::create_run(&system("  "))).path,
        "systemPrompt"
    );
    let parts = json!({"messages": [
        {"role": "system", "content": [{"type": "text", "text": "You help."}]}, {"role": "user", "content": 1},
    ]});
    assert_eq!(
        only(validate::create_run(&parts)).path,
        "messages[1].content"
    );
    assert_eq!(
        only(validate::create_run(&json!({"prompt": "Hi"}))).path,
        "systemPrompt"
    );
    assert_eq!(
        only(validate::create_run(
            &json!({"prompt": "Hi", "systemPrompt": " "})
        ))
        .path,
        "systemPrompt"
    );
    assert!(validate::create_run(&json!({"prompt": "Hi", "agentId": "agent_1"})).is_ok());
    // A malformed agent id is one mistake, not two.
    assert_eq!(
        only(validate::create_run(
            &json!({"prompt": "Hi", "agentId": "x"})
        ))
        .path,
        "agentId"
    );
    assert_eq!(
        only(validate::create_session(&json!({}))).path,
        "systemPrompt"
    );
    assert!(validate::create_session(&json!({"agentId": "agent_1"})).is_ok());
}

#[test]
fn a_session_takes_no_prompt_and_ignores_one() {
    let plain = validate::create_session(&json!({"systemPrompt": "s"})).unwrap();
    let with_prompt =
        json!({"systemPrompt": "s", "prompt": 1, "messages": [{"role": "system", "content": "x"}]});
    assert_eq!(validate::create_session(&with_prompt).unwrap(), plain);
    // The ignored messages do not stand in for the prompt either.
    let messages = json!({"messages": [{"role": "system", "content": "x"}]});
    assert_eq!(
        only(validate::create_session(&messages)).path,
        "systemPrompt"
    );
}

#[test]
fn a_message_tells_absence_from_emptiness() {
    let absent = validate::create_message(&json!({"prompt": "Hi"})).unwrap();
    assert_eq!((absent.tools, absent.tool_budgets), (None, None));
    let empty =
        validate::create_message(&json!({"prompt": "Hi", "tools": [], "toolBudgets": {}})).unwrap();
    assert_eq!(
        (empty.tools, empty.tool_budgets),
        (Some(vec![]), Some([].into()))
    );
}

#[test]
fn a_message_is_checked_like_a_spec() {
    let body = json!({
        "prompt": "Hi", "tools": [{}], "reasoningLevel": 101, "outputSchema": 1, "loopDetection": 1, "toolBudgets": 1,
        "budgets": 1, "metadata": 1,
    });
    assert_eq!(
        paths(validate::create_message(&body)),
        [
            "tools[0].kind",
            "reasoningLevel",
            "outputSchema",
            "loopDetection",
            "toolBudgets",
            "budgets",
            "metadata"
        ]
    );
}
