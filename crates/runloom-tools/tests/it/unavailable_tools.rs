//! Workspace tools and plugins that cannot be read, or do not exist any more, when their run begins.

use std::sync::atomic::AtomicUsize;

use runloom_protocol::definition::PluginManifest;
use runloom_protocol::validate;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};

use crate::peers::{TestBed, TestDefinitions, open_policy};

/// A host whose workspace has the tool `t` and the plugin tool `@p/t`; the first `away` reads of its store fail.
fn bed(away: usize) -> TestBed {
    let body = json!({"type": "http", "method": "GET", "url": "https://t.example/", "name": "t"});
    let tool = validate::tool_definition(&body, "t").expect("the tool is valid");
    let plugin: PluginManifest =
        serde_json::from_value(json!({"name": "@p", "tools": [body]})).unwrap();
    let defined = TestDefinitions {
        tools: vec![("t".to_owned(), tool)],
        plugins: vec![plugin],
        away: AtomicUsize::new(away),
        ..TestDefinitions::default()
    };
    TestBed::defining(defined, open_policy(), ToolLimits::default())
}

fn refs() -> [Value; 2] {
    [
        json!([{"kind": "mantyx", "id": "t"}]),
        json!([{"kind": "mantyx_plugin", "name": "@p/t"}]),
    ]
}

#[tokio::test(start_paused = true)]
async fn retries_while_the_store_is_unavailable() {
    for refs in refs() {
        let (_, tools) = bed(3).resolve(&refs).await;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["t"], "{refs}");
    }
}

/// Checks the name of the placeholder and the result of calling it.
async fn stands_in(bed: &TestBed, refs: &Value, name: &str, why: &str) {
    let (context, tools) = bed.resolve(refs).await;
    let [stub] = tools.as_slice() else {
        panic!("{refs}: {tools:?}");
    };
    assert_eq!(stub.name, name, "{refs}");
    let outcome = bed.call(&context, stub, json!({})).await;
    assert!(
        outcome.is_error && outcome.content.contains(why),
        "{outcome:?}"
    );
    let (_, again) = bed.resolve(refs).await;
    assert_eq!(
        again[0].name, name,
        "the same name whenever it is asked for"
    );
}

#[tokio::test(start_paused = true)]
async fn unreadable_tool_becomes_a_placeholder() {
    for refs in refs() {
        stands_in(
            &bed(usize::MAX),
            &refs,
            "t_unavailable",
            "could not be read",
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_tool_becomes_a_placeholder() {
    let bed = bed(0);
    let gone = json!([{"kind": "mantyx", "id": "gone"}]);
    stands_in(
        &bed,
        &gone,
        "gone_unavailable",
        "no longer in this workspace",
    )
    .await;
    let gone = json!([{"kind": "mantyx_plugin", "name": "@p/gone"}]);
    stands_in(&bed, &gone, "gone_unavailable", "no longer installed").await;
}
