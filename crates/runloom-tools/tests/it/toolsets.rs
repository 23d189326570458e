//! Toolsets over Streamable HTTP: selection, settings, sharing, failures.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use runloom_ports::effect::Effect;
use runloom_ports::error::Error;
use runloom_ports::tools::{ToolHost as _, Toolset};
use runloom_protocol::definition::DeclaredEffect;
use runloom_protocol::id::RunId;
use runloom_protocol::tools::{ToolAnnotations, ToolRef};
use runloom_protocol::validate::{DefinitionSource, toolset_definition};
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::mcp::{ordinary, server, tool};
use crate::peers::{Peer, TestBed, TestDefinitions, open_policy, result};

/// A host with one toolset, and the list that it is read from.
pub(crate) struct ToolsetBed {
    pub(crate) bed: TestBed,
    pub(crate) toolsets: Arc<Mutex<Vec<Toolset>>>,
}

impl ToolsetBed {
    pub(crate) fn new(slug: &str, body: &Value) -> Self {
        let definition = toolset_definition(body, slug, DefinitionSource::Operator).unwrap();
        let slug = slug.to_owned();
        let toolsets = Arc::new(Mutex::new(vec![Toolset { slug, definition }]));
        let defined = TestDefinitions {
            toolsets: Arc::clone(&toolsets),
            secrets: vec![("TOKEN".to_owned(), "canary-0815".to_owned())],
            ..TestDefinitions::default()
        };
        let limits = ToolLimits {
            resolve_timeout: Duration::from_secs(60),
            ..ToolLimits::default()
        };
        Self {
            bed: TestBed::defining(defined, open_policy(), limits),
            toolsets,
        }
    }
}

pub(crate) fn refs(name: &str) -> Value {
    json!([{"kind": "toolset", "name": name}])
}

fn definition(peer: &Peer) -> Value {
    json!({"transport": "streamable_http", "serverUrl": format!("{}/mcp", peer.url),
           "headers": {"Authorization": "Bearer {{secret:TOKEN}}"}})
}

/// A server with the tools `read`, `write` and `drop`.
async fn three_tools() -> Peer {
    server(|received| {
        let listed = json!([
            {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
            tool("write"),
            {"name": "drop", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true, "idempotentHint": true}},
        ]);
        (received.rpc_method() == "tools/list").then(|| result(received, &json!({"tools": listed})))
    })
    .await
}

fn names(tools: &[runloom_ports::tools::ServerTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[tokio::test]
async fn a_filter_narrows_the_allow_list_and_never_widens_it() {
    let peer = three_tools().await;
    let mut body = definition(&peer);
    body["tools"] = json!(["read", "write"]);
    let bed = ToolsetBed::new("my-docs", &body);
    let (_, tools) = bed.bed.resolve(&refs("my-docs")).await;
    assert_eq!(names(&tools), ["my_docs_read", "my_docs_write"]);
    let mut narrowed = refs("my-docs");
    narrowed[0]["toolFilter"] = json!(["write", "drop"]);
    let (context, tools) = bed.bed.resolve(&narrowed).await;
    assert_eq!(names(&tools), ["my_docs_write"]);
    let outcome = bed
        .bed
        .call(&context, &tools[0], json!({"text": "hi"}))
        .await;
    assert_eq!((outcome.content.as_str(), outcome.is_error), ("hi", false));
    let received = peer.received();
    let call = received
        .iter()
        .find(|h| h.rpc_method() == "tools/call")
        .unwrap();
    assert_eq!(call.header("authorization"), Some("Bearer canary-0815"));
    assert!(!serde_json::to_string(&tools).unwrap().contains("canary"));
}

#[tokio::test]
async fn an_administrators_effect_overrides_the_servers_hints() {
    let peer = three_tools().await;
    let mut body = definition(&peer);
    body["toolSettings"] = json!({"read": {"effect": "once"}, "write": {"effect": "read"}});
    let bed = ToolsetBed::new("docs", &body);
    let (_, tools) = bed.bed.resolve(&refs("docs")).await;
    let effects: Vec<Effect> = tools.iter().map(|tool| tool.effect).collect();
    assert_eq!(effects, [Effect::Once, Effect::Read, Effect::Idempotent]);
    let hints = |index: usize| tools[index].annotations.unwrap();
    assert_eq!(hints(0).read_only_hint, Some(false));
    assert_eq!(hints(1).read_only_hint, Some(true));
    assert_eq!(hints(1).destructive_hint, Some(false));
    let unchanged = ToolAnnotations {
        destructive_hint: Some(true),
        idempotent_hint: Some(true),
        ..ToolAnnotations::default()
    };
    assert_eq!(hints(2), unchanged);
}

#[tokio::test]
async fn the_policy_of_a_toolset_travels_with_its_tools() {
    let peer = three_tools().await;
    let mut body = definition(&peer);
    body["policy"] =
        json!({"rules": [{"annotations": {"destructiveHint": true}, "decision": "ask"}]});
    let bed = ToolsetBed::new("docs", &body);
    let expected = bed.toolsets.lock().unwrap()[0].definition.policy.clone();
    assert!(expected.is_some());
    let (_, tools) = bed.bed.resolve(&refs("docs")).await;
    assert!(
        tools.iter().all(|tool| tool.policy == expected),
        "{tools:?}"
    );
}

#[tokio::test]
async fn runs_of_a_workspace_share_the_connection_of_a_toolset() {
    let peer = server(|_| None).await;
    let bed = ToolsetBed::new("docs", &definition(&peer)).bed;
    assert_eq!(
        peer.received().len(),
        0,
        "nothing is opened before a run needs it"
    );
    for run in 1..=2 {
        let (context, tools) = bed
            .resolve_for("acme", RunId::from_suffix(run), &refs("docs"))
            .await;
        bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    }
    assert_eq!(peer.count("initialize"), 1);
    let (context, tools) = bed
        .resolve_for("other", RunId::from_suffix(3), &refs("docs"))
        .await;
    bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(peer.count("initialize"), 2, "workspaces share nothing");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_opened_again() {
    let peer = server(|_| None).await;
    let mut body = definition(&peer);
    body["idleCloseMs"] = json!(1000);
    let bed = ToolsetBed::new("docs", &body).bed;
    let (context, tools) = bed.resolve(&refs("docs")).await;
    bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    peer.until(|received| received.method == Method::DELETE)
        .await;
    let outcome = bed
        .call(&context, &tools[0], json!({"text": "again"}))
        .await;
    assert_eq!(outcome.content, "again");
    assert_eq!(peer.count("initialize"), 2);
}

#[tokio::test]
async fn an_unreachable_toolset_becomes_one_placeholder() {
    let body = json!({"transport": "streamable_http", "serverUrl": "http://127.0.0.1:1/mcp"});
    let bed = ToolsetBed::new("my-docs", &body).bed;
    let (context, tools) = bed.resolve(&refs("my-docs")).await;
    assert_eq!(names(&tools), ["my_docs_unavailable"]);
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    assert!(
        outcome.is_error && outcome.content.contains("my-docs"),
        "{outcome:?}"
    );
    let listed = bed.host.toolset_tools("acme", "my-docs").await;
    let Err(Error::Unavailable { message, .. }) = listed else {
        panic!("{listed:?}");
    };
    assert!(message.contains("`my-docs` is unavailable: "), "{message}");
}

#[tokio::test]
async fn a_secret_that_is_missing_is_named() {
    let peer = server(|_| None).await;
    let mut body = definition(&peer);
    body["headers"] = json!({"Authorization": "{{secret:NOWHERE}}"});
    let bed = ToolsetBed::new("docs", &body).bed;
    let (context, tools) = bed.resolve(&refs("docs")).await;
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    assert!(outcome.content.contains("NOWHERE"), "{outcome:?}");
    assert_eq!(peer.received().len(), 0);
}

#[tokio::test]
async fn a_deleted_toolset_and_a_removed_tool_stop_working_at_once() {
    let peer = server(|_| None).await;
    let bed = ToolsetBed::new("docs", &definition(&peer));
    let (context, tools) = bed.bed.resolve(&refs("docs")).await;
    bed.toolsets.lock().unwrap()[0].definition.tools = Some(vec!["other".to_owned()]);
    let outcome = bed.bed.call(&context, &tools[0], json!({})).await;
    assert!(
        outcome.is_error && outcome.content.contains("no longer"),
        "{outcome:?}"
    );
    bed.toolsets.lock().unwrap().clear();
    let outcome = bed.bed.call(&context, &tools[0], json!({})).await;
    assert_eq!(
        outcome.content,
        "The toolset is no longer in this workspace."
    );
    assert_eq!(peer.count("tools/call"), 0);
    let refs: Vec<ToolRef> = serde_json::from_value(refs("docs")).unwrap();
    let Err(Error::Invalid(issues)) = bed.bed.host.check("acme", &refs).await else {
        panic!("an unknown toolset was accepted");
    };
    assert_eq!(issues[0].path, "tools[0].name");
}

#[tokio::test]
async fn lists_the_tools_of_a_toolset() {
    let peer = three_tools().await;
    let mut body = definition(&peer);
    body["tools"] = json!(["read", "drop"]);
    let bed = ToolsetBed::new("my-docs", &body).bed;
    let listed = bed
        .host
        .toolset_tools("acme", "my-docs")
        .await
        .unwrap()
        .unwrap();
    let shown: Vec<_> = listed
        .iter()
        .map(|tool| (tool.name.as_str(), tool.model_name.as_str(), tool.effect))
        .collect();
    assert_eq!(
        shown,
        [
            ("read", "my_docs_read", DeclaredEffect::Read),
            ("drop", "my_docs_drop", DeclaredEffect::Idempotent),
        ]
    );
    assert_eq!(bed.host.toolset_tools("acme", "other").await.unwrap(), None);
}

#[tokio::test]
async fn a_cancelled_call_ends_and_the_server_is_told() {
    let peer = Peer::start(|received| async move {
        if received.rpc_method() == "tools/call" {
            std::future::pending::<()>().await;
        }
        ordinary(&received)
    })
    .await;
    let bed = ToolsetBed::new("docs", &definition(&peer)).bed;
    let (context, tools) = bed.resolve(&refs("docs")).await;
    let cancel = CancellationToken::new();
    let calling = bed.call_until(&context, &tools[0], json!({}), cancel.clone());
    let cancelling = async {
        peer.until(|received| received.rpc_method() == "tools/call")
            .await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(
        outcome.is_error && outcome.content.contains("cancelled"),
        "{outcome:?}"
    );
    peer.until(|received| received.rpc_method() == "notifications/cancelled")
        .await;
}

#[tokio::test]
async fn a_call_ends_at_the_toolsets_timeout() {
    let peer = Peer::start(|received| async move {
        if received.rpc_method() == "tools/call" {
            std::future::pending::<()>().await;
        }
        ordinary(&received)
    })
    .await;
    let mut body = definition(&peer);
    body["timeoutMs"] = json!(700);
    let bed = ToolsetBed::new("docs", &body).bed;
    let (context, tools) = bed.resolve(&refs("docs")).await;
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    assert!(
        outcome.is_error && outcome.content.contains("700ms"),
        "{outcome:?}"
    );
}
