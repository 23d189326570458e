//! HTML pages for browsers: no script, nothing loaded from elsewhere, not allowed in frames.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use url::Url;

const STYLE: &str = include_str!("page.css");

/// Hash of the only style that the browser may apply.
static STYLE_HASH: LazyLock<String> =
    LazyLock::new(|| STANDARD.encode(Sha256::digest(STYLE.as_bytes())));

/// A page with an error message that leads nowhere else.
pub(crate) fn problem_page(message: &str) -> Response {
    let message = Text(message);
    let body = format!(
        r#"<h1>This did not work</h1><p>{message}</p><p class="soft">You can close this page.</p>"#
    );
    sealed(html("This did not work", &body), None)
}

/// A page with this title and body, without its headers.
pub(crate) fn html(title: &str, body: &str) -> Response {
    let title = Text(title);
    Html(format!(
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex"><title>{title}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>"#
    ))
    .into_response()
}

/// Adds the security headers of a page. Its forms may redirect to the scheme of `back`.
pub(crate) fn sealed(mut response: Response, back: Option<&str>) -> Response {
    // Browsers check every redirect of a form against this list, so it names the scheme and not the host.
    let back = back.and_then(|uri| Url::parse(uri).ok());
    let back = back.map_or_else(String::new, |url| format!(" {}:", url.scheme()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; form-action 'self'{back}; base-uri 'none'; frame-ancestors 'none'",
        *STYLE_HASH
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Text escaped for elements and for quoted attributes.
pub(crate) struct Text<'text>(pub(crate) &'text str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Direction overrides could make the reader see another text.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_markup() {
        let evil = "<script>\"'&\u{202e}";
        assert_eq!(Text(evil).to_string(), "&lt;script&gt;&quot;&#39;&amp;");
    }

    #[test]
    fn policy_allows_forms_to_reach_the_app_only() {
        let policy = |back| {
            let response = sealed(html("t", "b"), back);
            let policy = &response.headers()[CONTENT_SECURITY_POLICY];
            policy.to_str().unwrap().to_owned()
        };
        assert!(policy(None).contains("form-action 'self';"));
        assert!(
            policy(Some("com.example.app:/cb")).contains("form-action 'self' com.example.app:;")
        );
        assert!(
            policy(Some("https://e.com/")).starts_with("default-src 'none'; style-src 'sha256-")
        );
    }
}
