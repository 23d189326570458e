//! Workspace tools and plugins that cannot be read, or are gone, when their run begins. The clock is the test's.

use std::sync::atomic::AtomicUsize;

use runloom_protocol::definition::PluginManifest;
use runloom_protocol::validate;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};

use crate::peers::{Bed, Defined, open_policy};

/// A host whose workspace has the tool `t` and the plugin tool `@p/t`; its store is away for so many reads.
fn bed(away: usize) -> Bed {
    let body = json!({"type": "http", "method": "GET", "url": "https://t.example/", "name": "t"});
    let tool = validate::tool_definition(&body, "t").expect("the tool is valid");
    let plugin: PluginManifest =
        serde_json::from_value(json!({"name": "@p", "tools": [body]})).unwrap();
    let defined = Defined {
        tools: vec![("t".to_owned(), tool)],
        plugins: vec![plugin],
        away: AtomicUsize::new(away),
        ..Defined::default()
    };
    Bed::defining(defined, open_policy(), ToolLimits::default())
}

fn refs() -> [Value; 2] {
    [
        json!([{"kind": "mantyx", "id": "t"}]),
        json!([{"kind": "mantyx_plugin", "name": "@p/t"}]),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_be_read_for_a_moment_is_offered_as_ever() {
    for refs in refs() {
        let (_, tools) = bed(3).resolve(&refs).await;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["t"], "{refs}");
    }
}

/// The stub has this name, and says this when it is called.
async fn stands_in(bed: &Bed, refs: &Value, name: &str, why: &str) {
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
async fn a_tool_that_cannot_be_read_for_long_is_stood_in_for_by_a_stub_that_says_why() {
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
async fn a_tool_that_was_deleted_before_its_run_began_is_stood_in_for_by_a_stub() {
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
