//! Duplicate tool names are rejected when a run is created, as far as the names are known then.

use runloom_ports::error::Error;
use runloom_ports::tools::ToolHost as _;
use runloom_protocol::tools::ToolRef;
use runloom_protocol::validate::{DefinitionSource, plugin_manifest, tool_definition};
use runloom_tools::ToolLimits;
use serde_json::{Value, json};

use crate::peers::{TestBed, TestDefinitions, open_policy};

fn bed() -> TestBed {
    let code = json!({"type": "code", "source": "return 1"});
    let tool = |slug: &str, name: &str| {
        let mut body = code.clone();
        body["name"] = name.into();
        (slug.to_owned(), tool_definition(&body, slug).unwrap())
    };
    let mut plugged = code.clone();
    plugged["name"] = "forecast".into();
    let server = json!({"name": "docs", "url": "http://127.0.0.1:1/mcp"});
    let body = json!({"global": true, "tools": [plugged], "servers": [server]});
    let plugin = plugin_manifest(&body, "weather", DefinitionSource::Administrator).unwrap();
    let defined = TestDefinitions {
        tools: vec![
            tool("one", "forecast"),
            tool("two", "forecast"),
            tool("three", "other"),
        ],
        plugins: vec![plugin],
        ..TestDefinitions::default()
    };
    TestBed::defining(defined, open_policy(), ToolLimits::default())
}

async fn check(bed: &TestBed, refs: &[&Value]) -> Result<(), Vec<(String, String)>> {
    let refs: Vec<ToolRef> = refs
        .iter()
        .map(|tool| serde_json::from_value((*tool).clone()).unwrap())
        .collect();
    match bed.host.check("acme", &refs).await {
        Ok(()) => Ok(()),
        Err(Error::Invalid(issues)) => {
            let issues = issues.into_iter();
            Err(issues.map(|issue| (issue.path, issue.message)).collect())
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn rejects_duplicate_names_across_all_kinds() {
    let bed = bed();
    let forecasts = [
        json!({"kind": "mantyx", "id": "one"}),
        json!({"kind": "mantyx", "id": "two"}),
        json!({"kind": "mantyx_plugin", "name": "@weather/forecast"}),
        json!({"kind": "mantyx_plugin", "name": "forecast"}),
        json!({"kind": "local", "name": "forecast"}),
        json!({"kind": "a2a", "name": "forecast", "agentCardUrl": "http://127.0.0.1:1/"}),
        json!({"kind": "a2a_local", "name": "forecast", "agentCard": {"name": "x"}}),
        json!({"kind": "mcp_local", "name": "mine", "tools": [{"name": "forecast"}]}),
    ];
    let other = json!({"kind": "mantyx", "id": "three"});
    for (index, first) in forecasts.iter().enumerate() {
        assert_eq!(check(&bed, &[first, &other]).await, Ok(()));
        for second in &forecasts[index + 1..] {
            let refused = check(&bed, &[first, &other, second]).await;
            let message = "duplicate tool name `forecast`: already used by tools[0]".to_owned();
            let expected = vec![("tools[2]".to_owned(), message)];
            assert_eq!(refused, Err(expected), "{first} {second}");
        }
    }
}

#[tokio::test]
async fn accepts_names_that_only_a_listing_could_duplicate() {
    let bed = bed();
    let local = json!({"kind": "local", "name": "docs_search"});
    let listed = json!({"kind": "mcp", "name": "docs", "url": "http://127.0.0.1:1/mcp"});
    let plugged = json!({"kind": "mantyx_plugin", "name": "@weather/docs"});
    assert_eq!(check(&bed, &[&local, &listed, &plugged]).await, Ok(()));
}
