//! The dashboard: static files. It reads all data from the public API with the key of its user.
//!
//! These routes are not part of the API: they take no credential and are not in the OpenAPI document.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::error::{Answer, Refusal};
use crate::route::Route;

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// One file of the dashboard.
struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

/// Rows of [`FILES`]: `"name" as KIND`.
macro_rules! files {
    ($($name:literal as $kind:ident,)*) => {
        &[$(File {
            name: $name,
            kind: $kind,
            text: include_str!(concat!("../../dashboard/", $name)),
        },)*]
    };
}

/// Every file of the dashboard. A test fails when one is missing here.
const FILES: &[File] = files![
    "style.css" as CSS,
    "timeline.css" as CSS,
    "icon.svg" as SVG,
    "app.js" as JS,
    "again.js" as JS,
    "api.js" as JS,
    "approvals.js" as JS,
    "catalog.js" as JS,
    "credentials.js" as JS,
    "curl.js" as JS,
    "decide.js" as JS,
    "dom.js" as JS,
    "examples.js" as JS,
    "feedback.js" as JS,
    "files.js" as JS,
    "format.js" as JS,
    "keys.js" as JS,
    "markdown.js" as JS,
    "notes.js" as JS,
    "playground.js" as JS,
    "run.js" as JS,
    "runs.js" as JS,
    "server.js" as JS,
    "session.js" as JS,
    "sessions.js" as JS,
    "signin.js" as JS,
    "stream.js" as JS,
    "timeline.js" as JS,
    "tools.js" as JS,
    "usage.js" as JS,
    "waterfall.js" as JS,
];

/// The page. `BUILD` is replaced by the build id.
const PAGE: &str = include_str!("../../dashboard/index.html");

/// Content security policy: only files of this build, nothing inline. Trusted types make browsers refuse text where
/// markup is expected.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The page with its build id.
struct Built {
    /// Hash over all files, so that files of two builds are never mixed.
    build: String,
    page: Bytes,
    /// Hash of the page.
    tag: HeaderValue,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    hash.update(PAGE);
    for file in FILES {
        hash.update(file.name);
        hash.update(file.text);
    }
    let digest = hash.finalize();
    let build: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Built {
        page: Bytes::from(PAGE.replace("BUILD", &build)),
        tag: HeaderValue::try_from(format!("\"{build}\""))
            .unwrap_or(HeaderValue::from_static("\"\"")),
        build,
    }
});

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::page("/", get_page),
        Route::page("/dashboard/{build}/{file}", get_file),
    ]
}

/// The page. A client that accepts only JSON gets a refusal.
async fn get_page(headers: HeaderMap) -> Answer<Response> {
    if !accepts_html(&headers) {
        return Err(Refusal::UnknownRoute);
    }
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|tags| {
        let tags = tags.as_bytes().split(|&byte| byte == b',');
        tags.map(<[u8]>::trim_ascii)
            .map(|tag| tag.strip_prefix(b"W/").unwrap_or(tag))
            .any(|tag| tag == b"*" || tag == BUILT.tag.as_bytes())
    });
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        ([(CONTENT_TYPE, html)], BUILT.page.clone()).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, BUILT.tag.clone());
    for (name, value) in [
        // Cached but revalidated each time, because a new server has new files.
        (CACHE_CONTROL, "no-cache"),
        (VARY, "accept"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (CROSS_ORIGIN_OPENER_POLICY, "same-origin"),
        (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

const CROSS_ORIGIN_OPENER_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// A file of this build, cacheable for ever. Files of other builds are not found.
async fn get_file(path: Result<Path<(String, String)>, PathRejection>) -> Answer<Response> {
    // A path that is not UTF-8 matches nothing.
    let Path((build, name)) = path.map_err(|_| Refusal::UnknownRoute)?;
    let file = FILES.iter().find(|file| file.name == name);
    let file = file
        .filter(|_| build == BUILT.build)
        .ok_or(Refusal::UnknownRoute)?;
    let headers = [
        (CONTENT_TYPE, file.kind),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'"),
        (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
    ];
    Ok((headers, Body::from(file.text)).into_response())
}

/// True when the client accepts HTML: it names no type, or any other than JSON.
fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted: Vec<String> = headers
        .get_all(ACCEPT)
        .iter()
        .map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase())
        .collect();
    let takes = |kind: &str| accepted.iter().any(|value| value.contains(kind));
    takes("text/html") || !takes("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_the_page_unless_only_json_is_accepted() {
        let takes = |accept: &'static str| {
            let accept = (ACCEPT, HeaderValue::from_static(accept));
            accepts_html(&HeaderMap::from_iter([accept]))
        };
        assert!(accepts_html(&HeaderMap::new()));
        assert!(takes("*/*") && takes("text/html,application/xhtml+xml"));
        assert!(takes("application/json, text/html"));
        assert!(!takes("application/json") && !takes("Application/JSON;q=0.9, */*;q=0.1"));
    }
}
