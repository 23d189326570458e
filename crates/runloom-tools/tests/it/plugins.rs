//! Plugins: resolution of names, and the shipped tools on ordinary and hostile pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use runloom_ports::effect::Effect;
use runloom_ports::error::Error;
use runloom_ports::tools::{Outcome, ToolHost as _};
use runloom_protocol::definition::PluginManifest;
use runloom_protocol::resource::{InstalledFrom, InstalledPlugin};
use runloom_protocol::tools::ToolRef;
use runloom_protocol::validate::{DefinitionSource, plugin_manifest, tool_definition};
use runloom_tools::outbound::OutboundPolicy;
use runloom_tools::{ConfiguredPlugin, PluginSet, ToolLimits};
use serde_json::{Value, json};

use crate::peers::{
    Peer, ReceivedRequest, TestBed, TestDefinitions, hanging, open_policy, rpc_error, status, typed,
};

fn refs(name: &str) -> Value {
    json!([{"kind": "mantyx_plugin", "name": name}])
}

/// A plugin with one HTTP tool.
fn plugin(slug: &str, tool: &str, description: &str, global: bool) -> PluginManifest {
    let tool = json!({"type": "http", "name": tool, "description": description, "url": "https://x.example/"});
    let body = json!({"global": global, "tools": [tool]});
    plugin_manifest(&body, slug, DefinitionSource::Administrator).unwrap()
}

fn bed(own: Vec<PluginManifest>, configured: PluginSet) -> TestBed {
    let defined = TestDefinitions {
        plugins: own,
        configured,
        ..TestDefinitions::default()
    };
    TestBed::defining(defined, open_policy(), ToolLimits::default())
}

async fn refused(bed: &TestBed, workspace: &str, name: &str) -> Option<String> {
    let refs: Vec<ToolRef> = serde_json::from_value(refs(name)).unwrap();
    match bed.host.check(workspace, &refs).await {
        Ok(()) => None,
        Err(Error::InvalidPlugin { message }) => Some(message),
        Err(error) => panic!("{error:?}"),
    }
}

/// The description of the one tool that a name resolves to.
async fn led_to(bed: &TestBed, workspace: &str, name: &str) -> String {
    let (_, tools) = bed.resolve_in(workspace, &refs(name)).await;
    assert_eq!(tools.len(), 1, "{tools:?}");
    tools[0].description.clone()
}

#[tokio::test]
async fn workspace_plugins_override_the_operators_and_the_shipped() {
    let set = |slugs: Option<Vec<String>>| PluginSet {
        installed: vec![ConfiguredPlugin {
            manifest: plugin("web", "fetch", "the operator's", true),
            workspaces: slugs,
        }],
        without: Vec::new(),
    };
    let shipped = bed(Vec::new(), PluginSet::default());
    assert!(
        led_to(&shipped, "acme", "@web/fetch")
            .await
            .contains("readable text")
    );
    assert!(
        led_to(&shipped, "acme", "fetch")
            .await
            .contains("readable text")
    );
    let operators = bed(Vec::new(), set(None));
    assert_eq!(
        led_to(&operators, "acme", "@web/fetch").await,
        "the operator's"
    );
    let some = bed(Vec::new(), set(Some(vec!["acme".to_owned()])));
    assert_eq!(led_to(&some, "acme", "@web/fetch").await, "the operator's");
    assert!(
        led_to(&some, "rival", "@web/fetch")
            .await
            .contains("readable text")
    );
    let own = bed(vec![plugin("web", "fetch", "our own", false)], set(None));
    assert_eq!(led_to(&own, "acme", "@web/fetch").await, "our own");
}

#[tokio::test]
async fn lists_provided_plugins_with_their_source() {
    let configured = PluginSet {
        installed: vec![
            ConfiguredPlugin {
                manifest: plugin("web", "fetch", "the operator's", true),
                workspaces: Some(vec!["acme".to_owned()]),
            },
            ConfiguredPlugin {
                manifest: plugin("math", "add", "hidden by the workspace's own", true),
                workspaces: None,
            },
        ],
        without: Vec::new(),
    };
    let bed = bed(vec![plugin("math", "add", "our own", false)], configured);
    let listed = async |workspace: &str| {
        let listed = bed.host.installed(workspace).await.unwrap().into_iter();
        let shown = |plugin: InstalledPlugin| (plugin.name, plugin.source, plugin.tools.join(" "));
        listed.map(shown).collect::<Vec<_>>()
    };
    let row = |name: &str, source, tools: &str| (name.to_owned(), source, tools.to_owned());
    let time = row("@time", InstalledFrom::Shipped, "now");
    let operators = row("@web", InstalledFrom::Operator, "fetch");
    assert_eq!(listed("acme").await, [operators, time.clone()]);
    let shipped = row("@web", InstalledFrom::Shipped, "fetch");
    assert_eq!(listed("rival").await, [shipped, time]);
}

#[tokio::test]
async fn renamed_tool_uses_the_outer_timeout_first() {
    let peer = Peer::start(|_| std::future::pending()).await;
    let tool = json!({"type": "http", "name": "slow", "url": peer.url, "timeoutMs": 200});
    let body = json!({"tools": [tool]});
    let manifest = plugin_manifest(&body, "p", DefinitionSource::Administrator).unwrap();
    for (given, words) in [(None, "200ms"), (Some(100), "100ms"), (Some(300), "300ms")] {
        let body = json!({"type": "plugin", "plugin": "@p/slow", "timeoutMs": given});
        let defined = TestDefinitions {
            tools: vec![("t".to_owned(), tool_definition(&body, "t").unwrap())],
            plugins: vec![manifest.clone()],
            ..TestDefinitions::default()
        };
        let bed = TestBed::defining(defined, open_policy(), ToolLimits::default());
        let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
        let outcome = bed.call(&context, &tools[0], json!({})).await;
        assert!(outcome.content.contains(words), "{}", outcome.content);
    }
}

#[tokio::test]
async fn rejects_unknown_plugins_with_alternatives() {
    let bed = bed(vec![plugin("math", "add", "", false)], PluginSet::default());
    let message = refused(&bed, "acme", "@nothing/here").await.unwrap();
    assert!(
        message.contains("\"@nothing/here\" is not installed"),
        "{message}"
    );
    assert!(message.contains("@math, @web, @time"), "{message}");
    let message = refused(&bed, "acme", "@math/sub").await.unwrap();
    assert!(message.contains("@math has: add"), "{message}");
    for name in ["add", "@math", "@math/", "/add", "@/x", "@mathx/add"] {
        assert!(refused(&bed, "acme", name).await.is_some(), "{name}");
    }
    assert_eq!(refused(&bed, "acme", "@math/add").await, None);
    let without = PluginSet {
        installed: Vec::new(),
        without: vec!["web".to_owned()],
    };
    let bed = self::bed(Vec::new(), without);
    assert!(refused(&bed, "acme", "@web/fetch").await.is_some());
    assert_eq!(refused(&bed, "acme", "now").await, None);
}

#[tokio::test]
async fn calls_tools_of_a_plugins_mcp_server() {
    let peer = Peer::start(|received: ReceivedRequest| async move {
        let answer = |result: Value| {
            let body = json!({"jsonrpc": "2.0", "id": received.body["id"], "result": result});
            typed("application/json", body.to_string())
        };
        match received.rpc_method() {
            "initialize" => answer(json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}})),
            "tools/list" => answer(json!({"tools": [{"name": "one", "description": "first", "inputSchema": {"type": "object"}}, {"name": "two", "inputSchema": {"type": "object"}}]})),
            "tools/call" => {
                let secret = received.headers.get("authorization").unwrap().to_str().unwrap();
                answer(json!({"content": [{"type": "text", "text": format!("{} with {secret}", received.body["params"]["name"])}]}))
            }
            method if method.starts_with("notifications/") => status(202),
            "" => status(405),
            _ => rpc_error(&received, -32601, "Method not found"),
        }
    })
    .await;
    let body = json!({"servers": [{"name": "docs", "url": format!("{}/mcp", peer.url), "tools": ["one"],
        "headers": {"Authorization": "Bearer {{secret:T}}"}}]});
    let defined = TestDefinitions {
        plugins: vec![plugin_manifest(&body, "p", DefinitionSource::Administrator).unwrap()],
        secrets: vec![("T".to_owned(), "canary-1".to_owned())],
        ..TestDefinitions::default()
    };
    let bed = TestBed::defining(defined, open_policy(), ToolLimits::default());
    let (context, tools) = bed.resolve(&refs("@p/one")).await;
    assert_eq!(tools[0].description, "first");
    let said = bed.call(&context, &tools[0], json!({})).await;
    assert_eq!(said.content, "\"one\" with Bearer ***");
    let (_, all) = bed.resolve(&refs("@p/docs")).await;
    assert_eq!(all.len(), 1, "only what the manifest names");
    assert_eq!(all[0].name, "docs_one");
    assert!(refused(&bed, "acme", "@p/two").await.is_some());
}

#[tokio::test]
async fn returns_the_time() {
    let bed = bed(Vec::new(), PluginSet::default());
    let (context, tools) = bed.resolve(&refs("@time/now")).await;
    assert_eq!(tools[0].effect, Effect::Read);
    let said = bed
        .call(&context, &tools[0], json!({"timezone": "Asia/Tokyo"}))
        .await;
    let time: Value = serde_json::from_str(&said.content).unwrap();
    assert_eq!(time["timezone"], "Asia/Tokyo");
    assert!(time["time"].as_str().unwrap().ends_with("+09:00"), "{time}");
    let said = bed
        .call(&context, &tools[0], json!({"timezone": "Nowhere"}))
        .await;
    assert!(said.is_error && said.content.contains("IANA"), "{said:?}");
}

/// The result of `@web/fetch` for a response.
async fn fetched(answer: impl Fn() -> Response + Send + Sync + 'static, input: Value) -> Outcome {
    let peer = Peer::start(move |_| {
        let answer = answer();
        async move { answer }
    })
    .await;
    let bed = bed(Vec::new(), PluginSet::default());
    let (context, tools) = bed.resolve(&refs("@web/fetch")).await;
    let mut input = input;
    input["url"] = format!("{}/page", peer.url).into();
    bed.call(&context, &tools[0], input).await
}

#[tokio::test]
async fn reads_a_page_as_text_with_links() {
    let html = "<title>Hi</title><nav>menu</nav><main><p>Some <b>text</b>.<a href='/more'>More</a></main><script>evil()</script>";
    let said = fetched(move || typed("text/html; charset=utf-8", html), json!({})).await;
    assert!(!said.is_error, "{said:?}");
    assert!(said.content.contains("Title: Hi"), "{said:?}");
    assert!(said.content.contains("Some text.More"), "{said:?}");
    assert!(said.content.contains("/more)"), "{said:?}");
    assert!(
        !said.content.contains("evil") && !said.content.contains("menu"),
        "{said:?}"
    );
}

#[tokio::test]
async fn decodes_unusual_encodings() {
    let latin = || typed("text/html; charset=iso-8859-1", b"<p>caf\xe9</p>".to_vec());
    assert!(fetched(latin, json!({})).await.content.contains("café"));
    let sniffed = || {
        typed(
            "text/html",
            b"<meta charset=shift_jis><p>\x93\xfa\x96{</p>".to_vec(),
        )
    };
    assert!(fetched(sniffed, json!({})).await.content.contains("日本"));
    let marked = || typed("text/plain", b"\xff\xfeh\0i\0".to_vec());
    assert!(fetched(marked, json!({})).await.content.contains("hi"));
    let broken = || typed("text/html; charset=utf-8", b"<p>ok \xff\xc3(</p>".to_vec());
    assert!(fetched(broken, json!({})).await.content.contains("ok"));
    let unknown = || typed("text/html; charset=klingon", "<p>fine</p>");
    assert!(fetched(unknown, json!({})).await.content.contains("fine"));
}

#[tokio::test]
async fn returns_other_texts_unchanged_and_refuses_binary_types() {
    let json_text = || typed("application/json", r#"{"a": "<b>"}"#);
    assert!(
        fetched(json_text, json!({}))
            .await
            .content
            .contains(r#"{"a": "<b>"}"#)
    );
    let picture = || typed("image/png", vec![0_u8; 100]);
    let said = fetched(picture, json!({})).await;
    assert!(
        said.is_error && said.content.contains("image/png"),
        "{said:?}"
    );
    let missing = || {
        (
            StatusCode::NOT_FOUND,
            [("content-type", "text/html")],
            "<h1>Gone</h1>",
        )
            .into_response()
    };
    let said = fetched(missing, json!({})).await;
    assert!(
        said.is_error && said.content.contains("404") && said.content.contains("Gone"),
        "{said:?}"
    );
}

#[tokio::test]
async fn reads_long_pages_in_parts() {
    let long = || {
        typed(
            "text/html",
            format!("<main><p>{}</p></main>", "word ".repeat(1_000)),
        )
    };
    let first = fetched(long, json!({"maxChars": 100})).await;
    assert!(
        first.content.contains("call again with \"offset\": 100"),
        "{first:?}"
    );
    let last = fetched(long, json!({"maxChars": 100, "offset": 4_990})).await;
    assert!(!last.content.contains("[truncated"), "{last:?}");
    let past = fetched(long, json!({"offset": 1_000_000})).await;
    assert!(!past.is_error, "{past:?}");
}

#[tokio::test]
async fn limits_hostile_pages() {
    let huge = || {
        typed(
            "text/html",
            format!("<p>{}</p>", "again ".repeat(100)).repeat(6_000),
        )
    };
    let said = fetched(huge, json!({"maxChars": 1_000})).await;
    assert!(
        said.content.len() < 10_000 && said.content.contains("[truncated"),
        "{}",
        said.content.len()
    );
    let deep = || typed("text/html", format!("{}x", "<div><ul><li>".repeat(20_000)));
    assert!(!fetched(deep, json!({})).await.is_error);
    let peer = Peer::start(|_| async { typed("text/html", hanging("<p>never ends")) }).await;
    let bed = bed(Vec::new(), PluginSet::default());
    let (context, tools) = bed.resolve(&refs("fetch")).await;
    let cancel = tokio_util::sync::CancellationToken::new();
    let calling = bed.call_until(
        &context,
        &tools[0],
        json!({"url": peer.url}),
        cancel.clone(),
    );
    let (said, ()) = tokio::join!(calling, async { cancel.cancel() });
    assert!(said.is_error, "{said:?}");
}

#[tokio::test]
async fn refuses_pages_on_private_addresses() {
    let peer = Peer::start(|_| async { typed("text/html", "<p>inside</p>") }).await;
    let bed = TestBed::with(OutboundPolicy::default(), ToolLimits::default());
    let (context, tools) = bed.resolve(&refs("fetch")).await;
    for url in [
        peer.url.as_str(),
        "http://169.254.169.254/latest/",
        "file:///etc/passwd",
        "http://[::1]/",
        "x",
        "",
    ] {
        let said = bed.call(&context, &tools[0], json!({"url": url})).await;
        assert!(said.is_error, "{url}: {said:?}");
        assert!(!said.content.contains("inside"), "{url}: {said:?}");
    }
}
