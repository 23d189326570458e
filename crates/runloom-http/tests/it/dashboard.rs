//! The dashboard's files: what they are allowed to do, how they are cached, and that they can be switched off.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use runloom_http::Settings;
use runloom_service::rate::RateLimits;
use serde_json::Value;

use crate::app::{Reply, TestApp};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard")
}

async fn get(app: &TestApp, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.body(Body::empty()).unwrap()).await
}

fn text(reply: &Reply) -> &str {
    match &reply.body {
        Value::String(text) => text,
        other => panic!("not a text: {other:?}"),
    }
}

/// Where the page says that its files are, with a slash at the end.
async fn place(app: &TestApp) -> String {
    let page = get(app, "/", &[]).await;
    let page = text(&page);
    let (_, after) = page.split_once("src=\"dashboard/").unwrap();
    let build = after.split('/').next().unwrap();
    assert!(
        build.len() == 16 && build.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{build}"
    );
    format!("/dashboard/{build}/")
}

#[tokio::test]
async fn page_loads_own_files_only() {
    let app = TestApp::new().await;
    let reply = get(&app, "/", &[("accept", "text/html,*/*;q=0.8")]).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    let policy: BTreeSet<&str> = reply
        .header("content-security-policy")
        .split(';')
        .map(str::trim)
        .collect();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ] {
        assert!(policy.contains(rule), "{rule} is not in {policy:?}");
    }
    assert_eq!(reply.header("x-frame-options"), "DENY");
    assert_eq!(reply.header("referrer-policy"), "no-referrer");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    assert_eq!(reply.header("cross-origin-opener-policy"), "same-origin");
}

#[tokio::test]
async fn page_is_revalidated() {
    let app = TestApp::new().await;
    let first = get(&app, "/", &[]).await;
    assert_eq!(first.header("cache-control"), "no-cache");
    let tag = first.header("etag").to_owned();
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}")] {
        let again = get(&app, "/", &[("if-none-match", &known)]).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{known}");
        assert_eq!(again.header("etag"), tag);
        assert!(again.headers.contains_key("content-security-policy"));
        assert_eq!(text(&again), "");
    }
    let other = get(&app, "/", &[("if-none-match", "\"other\"")]).await;
    assert_eq!(other.status, StatusCode::OK);
}

#[tokio::test]
async fn files_are_cached_for_ever() {
    let app = TestApp::new().await;
    let place = place(&app).await;
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == "index.html" {
            continue;
        }
        let reply = get(&app, &format!("{place}{name}"), &[]).await;
        assert_eq!(reply.status, StatusCode::OK, "{name} is not in FILES");
        let kind = match name.rsplit_once('.').unwrap().1 {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("what is {other}?"),
        };
        assert_eq!(reply.header("content-type"), kind, "{name}");
        let caching = reply.header("cache-control");
        assert_eq!(caching, "public, max-age=31536000, immutable", "{name}");
        let on_disk = std::fs::read_to_string(folder().join(&name)).unwrap();
        assert_eq!(text(&reply), on_disk, "{name}");
        count += 1;
    }
    assert!(count > 15, "{count}");
}

#[tokio::test]
async fn other_builds_are_404() {
    let app = TestApp::new().await;
    let place = place(&app).await;
    for path in [
        "/dashboard/0000000000000000/app.js",
        &format!("{place}nothing.js"),
        &format!("{place}index.html"),
        &format!("{place}..%2Fsrc%2Flib.rs"),
        &format!("{place}%FF"),
        "/dashboard/",
        "/index.html",
    ] {
        let reply = get(&app, path, &[]).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(reply.code(), "not_found", "{path}");
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test]
async fn json_clients_are_pointed_to_the_api() {
    let app = TestApp::new().await;
    let reply = get(&app, "/", &[("accept", "application/json")]).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert_eq!(reply.code(), "not_found");
    assert!(reply.body["hint"].as_str().unwrap().contains("/api/v1/"));
}

#[tokio::test]
async fn disabled_dashboard_is_404() {
    let settings = Settings {
        dashboard: false,
        ..Settings::default()
    };
    let on = TestApp::new().await;
    let off = TestApp::with(RateLimits::default(), settings).await;
    for path in ["/".to_owned(), format!("{}app.js", place(&on).await)] {
        let reply = get(&off, &path, &[]).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(reply.code(), "not_found");
    }
    assert_eq!(get(&off, "/health", &[]).await.status, StatusCode::OK);
}

/// The text between the first `before` and the next `after`, as often as it is there.
fn between<'text>(text: &'text str, before: &str, after: &str) -> Vec<&'text str> {
    let parts = text.split(before).skip(1);
    parts
        .map(|part| part.split(after).next().unwrap())
        .collect()
}

#[test]
fn files_refer_only_to_each_other() {
    let read = |name: &str| std::fs::read_to_string(folder().join(name)).unwrap();
    let names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in names.iter().filter(|name| name.ends_with(".js")) {
        for module in between(&read(name), " from \"", "\"") {
            let module = module.strip_prefix("./").expect(module);
            assert!(
                names.iter().any(|known| known == module),
                "{name}: {module}"
            );
        }
    }
    let page = read("index.html");
    for address in [
        between(&page, "href=\"", "\""),
        between(&page, "src=\"", "\""),
    ]
    .concat()
    {
        let file = address.strip_prefix("dashboard/BUILD/");
        let known = file.is_some_and(|file| names.iter().any(|name| name == file));
        assert!(known || address.starts_with('#'), "index.html: {address}");
    }
    // The one address that is not ours names a language, and is never asked.
    for name in &names {
        let text = read(name).replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("://"), "{name} names an address");
    }
}

#[test]
fn files_never_build_markup() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "createContextualFragment",
            "DOMParser",
            "srcdoc",
            "eval(",
            "new Function",
            "document.cookie",
            "<style",
            "javascript:",
        ] {
            assert!(!text.contains(way), "{}: {way}", path.display());
        }
        // Credentials outlive the tab only where the user chose to stay signed in.
        let stores = path.ends_with("credentials.js");
        assert!(
            stores || !text.contains("localStorage"),
            "{}",
            path.display()
        );
    }
}
