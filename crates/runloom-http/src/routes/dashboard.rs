//! The dashboard: files that a browser loads once. Everything that changes it asks of the public API, with its user's own key.
//!
//! Not part of the API: these routes know no workspace and no credential, and stand in no OpenAPI document.

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
use crate::route::Access::Open;
use crate::route::Route;

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// One file beside the page.
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

/// Every file that the page loads. A new one is a line here; a test tells whoever forgot it.
const FILES: &[File] = files![
    "style.css" as CSS,
    "timeline.css" as CSS,
    "icon.svg" as SVG,
    "app.js" as JS,
    "again.js" as JS,
    "api.js" as JS,
    "catalog.js" as JS,
    "credentials.js" as JS,
    "curl.js" as JS,
    "dom.js" as JS,
    "examples.js" as JS,
    "feedback.js" as JS,
    "files.js" as JS,
    "format.js" as JS,
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
];

/// The page. `BUILD` in it is where its files are.
const PAGE: &str = include_str!("../../dashboard/index.html");

/// Nothing from elsewhere, nothing inline, nothing that a text could become: a script of a model's or a tool's making has no way in.
/// The last two make browsers refuse any text where markup is expected.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The page with its files' folder named, and what tells this build from others.
struct Built {
    /// Of everything that is served: files of one build are never mixed with those of another.
    build: String,
    page: Bytes,
    /// Of the page.
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
        Route::get("/", Open, get_page),
        Route::get("/dashboard/{build}/{file}", Open, get_file),
    ]
}

/// The page. A program that wants JSON and nothing else is told that there is none here.
async fn get_page(headers: HeaderMap) -> Answer<Response> {
    if !takes_html(&headers) {
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
        // Kept, and asked for again each time: a new server has new files.
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

/// A file of this build; it never changes, so nobody need ask twice. Those of other builds are not here: their page is old.
async fn get_file(path: Result<Path<(String, String)>, PathRejection>) -> Answer<Response> {
    // A path that is no text names nothing.
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

/// Whether the answer may be a page: whoever says nothing, or anything but JSON alone, takes one.
fn takes_html(headers: &HeaderMap) -> bool {
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
    fn only_a_program_that_wants_json_gets_no_page() {
        let takes = |accept: &'static str| {
            let accept = (ACCEPT, HeaderValue::from_static(accept));
            takes_html(&HeaderMap::from_iter([accept]))
        };
        assert!(takes_html(&HeaderMap::new()));
        assert!(takes("*/*") && takes("text/html,application/xhtml+xml"));
        assert!(takes("application/json, text/html"));
        assert!(!takes("application/json") && !takes("Application/JSON;q=0.9, */*;q=0.1"));
    }
}
