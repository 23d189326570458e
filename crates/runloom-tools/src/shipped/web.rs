//! `@web/fetch`: the readable text of a web page, fetched through the guarded client.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use runloom_ports::tools::Outcome;
use serde_json::Value;

use super::html_page::{self, HtmlPage, PageLink};
use crate::charset::{self, Extent};
use crate::content::{ResultContent, truncate};
use crate::outbound::{Outbound, OutboundRequest};

/// Maximum bytes of a page that are read; longer pages are truncated.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// Maximum announced length of a response.
const MAX_ANNOUNCED_BYTES: usize = 1024 * 1024 * 1024;

/// Timeout of fetching a page.
const TIMEOUT: Duration = Duration::from_secs(25);

/// Default characters of text in one result.
const DEFAULT_CHARS: usize = 20_000;

/// Maximum characters of an error page that are passed to the model.
const REFUSAL_CHARS: usize = 500;

/// A fetched text.
struct FetchedPage {
    url: Url,
    status: reqwest::StatusCode,
    media_type: String,
    text: String,
    extent: Extent,
}

/// The part of the text that the model asks for.
#[derive(Debug, Clone, Copy)]
struct CharRange {
    offset: usize,
    length: usize,
}

/// Fetches a page.
///
/// # Errors
/// A message for the model.
pub(super) async fn fetch(outbound: &Outbound, input: &Value) -> Result<Outcome, String> {
    let url = input.get("url").and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| input.get(name).and_then(Value::as_u64);
    let range = CharRange {
        offset: number("offset").map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX)),
        length: number("maxChars")
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(DEFAULT_CHARS),
    };
    let page = get(outbound, url).await?;
    let read = tokio::task::spawn_blocking(move || outcome(&page, range));
    read.await
        .map_err(|_| "the page cannot be read".to_owned())?
}

async fn get(outbound: &Outbound, url: &str) -> Result<FetchedPage, String> {
    let url = outbound.check(url).map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    let accepted =
        "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.1";
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    let request = OutboundRequest::new(Method::GET, url)
        .headers(headers)
        .within(TIMEOUT)
        .at_most(MAX_ANNOUNCED_BYTES);
    let response = outbound
        .send(request)
        .await
        .map_err(|error| error.to_string())?;
    let media_type = response
        .media_type()
        .unwrap_or_else(|| "text/html".to_owned());
    if !is_text(&media_type) {
        return Err(format!(
            "{} is of type {}, which cannot be read as text",
            response.url(),
            truncate(&media_type, 100)
        ));
    }
    let (url, status) = (response.url().clone(), response.status());
    let content_type = response.header("content-type").map(str::to_owned);
    let read = response.prefix(MAX_BODY_BYTES).await;
    let prefix = read.map_err(|error| error.to_string())?;
    Ok(FetchedPage {
        text: charset::decode(content_type.as_deref(), &prefix.bytes, prefix.extent),
        url,
        status,
        media_type,
        extent: prefix.extent,
    })
}

fn is_text(media_type: &str) -> bool {
    const TEXTS: [&str; 8] = [
        "application/json",
        "application/xml",
        "application/xhtml+xml",
        "application/javascript",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/x-ndjson",
    ];
    media_type.starts_with("text/")
        || TEXTS.contains(&media_type)
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
}

fn outcome(fetched: &FetchedPage, range: CharRange) -> Result<Outcome, String> {
    let is_html = matches!(
        fetched.media_type.as_str(),
        "text/html" | "application/xhtml+xml"
    );
    let page = if is_html {
        html_page::read(&fetched.text, &fetched.url)
    } else {
        HtmlPage {
            text: fetched.text.clone(),
            ..HtmlPage::default()
        }
    };
    if !fetched.status.is_success() {
        let message: String = page.text.chars().take(REFUSAL_CHARS).collect();
        return Err(format!(
            "{} answered with HTTP status {}. {message}",
            fetched.url, fetched.status
        ));
    }
    let CharRange { offset, length } = range;
    let mut content = ResultContent::new();
    content.text(&format!("URL: {}", fetched.url));
    if !page.title.is_empty() {
        content.text(&format!("Title: {}", page.title));
    }
    if !page.description.is_empty() && offset == 0 {
        content.text(&format!("Description: {}", page.description));
    }
    let shown: String = page.text.chars().skip(offset).take(length).collect();
    let total = page.text.chars().count();
    let rest = total.saturating_sub(offset.saturating_add(length));
    content.text(&format!("\n{shown}"));
    if offset > 0 && offset >= total {
        content.text(&format!(
            "[offset {offset} is beyond the end: the text has {total} characters]"
        ));
    } else if rest > 0 {
        let next = offset + length;
        content.text(&format!(
            "\n[truncated: {rest} more characters; call again with \"offset\": {next}]"
        ));
    } else if fetched.extent == Extent::Truncated {
        content.text(&format!(
            "\n[truncated: only the first {MAX_BODY_BYTES} bytes were read]"
        ));
    }
    if !page.links.is_empty() && offset == 0 {
        let line = |PageLink { text, url }: &PageLink| format!("- [{text}]({url})");
        let lines: Vec<String> = page.links.iter().map(line).collect();
        content.text(&format!("\nLinks:\n{}", lines.join("\n")));
    }
    Ok(content.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_an_offset_beyond_the_end() {
        let page = FetchedPage {
            text: "twelve chars".to_owned(),
            url: "https://a.example/".parse().unwrap(),
            status: reqwest::StatusCode::OK,
            media_type: "text/plain".to_owned(),
            extent: Extent::Complete,
        };
        for (offset, is_beyond) in [(12, true), (5000, true), (11, false), (0, false)] {
            let range = CharRange {
                offset,
                length: 100,
            };
            let text = outcome(&page, range).unwrap().content;
            assert_eq!(
                text.contains("has 12 characters"),
                is_beyond,
                "{offset}: {text}"
            );
        }
    }

    #[test]
    fn accepts_only_text_types() {
        for kind in [
            "text/plain",
            "text/csv",
            "application/json",
            "application/ld+json",
            "image/svg+xml",
        ] {
            assert!(is_text(kind), "{kind}");
        }
        for kind in [
            "image/png",
            "application/pdf",
            "application/octet-stream",
            "",
        ] {
            assert!(!is_text(kind), "{kind}");
        }
    }
}
