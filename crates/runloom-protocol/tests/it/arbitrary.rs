//! Whatever arrives, validation answers.

use proptest::prelude::*;
use runloom_protocol::{limits, validate};
use serde_json::{Map, Value};

/// Keys that validation looks for, so that random bodies get past the first check, and some that it does not know.
const KEYS: &[&str] = &[
    "prompt",
    "messages",
    "role",
    "content",
    "type",
    "text",
    "systemPrompt",
    "agentId",
    "modelId",
    "fallbackModelId",
    "name",
    "reasoningLevel",
    "tools",
    "kind",
    "id",
    "parameters",
    "agentCardUrl",
    "url",
    "headers",
    "toolFilter",
    "agentCard",
    "serverInfo",
    "inputSchema",
    "budgets",
    "maxToolTurns",
    "maxWallMs",
    "maxCostUsd",
    "outputSchema",
    "schema",
    "enforcement",
    "loopDetection",
    "consecutiveThreshold",
    "hardCutoffThreshold",
    "toolBudgets",
    "maxCalls",
    "metadata",
    "toolUseId",
    "result",
    "error",
    "files",
    "attachments",
    "filename",
    "mimeType",
    "data",
    "unheard of",
];

const WORDS: &[&str] = &[
    "user",
    "system",
    "assistant",
    "text",
    "local",
    "mcp",
    "mcp_local",
    "a2a",
    "a2a_local",
    "mantyx",
    "mantyx_plugin",
    "http://h",
    "https://[::1]:1/x",
    "://",
    "http://[",
    "http://h:",
    "strict",
    "high",
    "QQ==",
    "====",
    "text/plain",
    "input_file",
    "input_file_url",
    "https://h/a.pdf",
    "",
    "é\u{10FFFF}\n",
    "agent_1",
];

fn json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_i64..120).prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
    ];
    let key = prop_oneof![
        8 => prop::sample::select(KEYS).prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    leaf.prop_recursive(5, 80, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..10)
                .prop_map(|pairs| Value::from(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_either_checked_or_refused_with_reasons(body in json()) {
        let refusals = [
            validate::create_run(&body).err(),
            validate::create_session(&body).err(),
            validate::create_message(&body).err(),
            validate::tool_result(&body).err(),
        ];
        for issues in refusals.into_iter().flatten() {
            prop_assert!(!issues.is_empty());
            prop_assert!(issues.len() <= limits::ISSUES_MAX);
            prop_assert!(issues.iter().all(|issue| !issue.message.is_empty()));
        }
    }
}
