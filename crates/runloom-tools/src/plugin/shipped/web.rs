//! `@web/fetch`: the readable text of a page, through the guarded way out.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use runloom_ports::tools::Outcome;
use serde_json::Value;

use super::page;
use crate::charset;
use crate::content::{Content, cut};
use crate::outbound::{Outbound, OutboundRequest};

/// Bytes of a page that are read; what is longer is cut.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// The largest answer that is begun at all.
const MAX_ANNOUNCED_BYTES: usize = 1024 * 1024 * 1024;

/// Time for the whole exchange.
const WITHIN: Duration = Duration::from_secs(25);

/// Characters of text in one answer, unless the model asks for another number.
const CHARS: usize = 20_000;

/// Characters of a refusal that the model reads.
const REFUSAL_CHARS: usize = 500;

/// Text that was read, and what it is.
struct Body {
    url: Url,
    status: reqwest::StatusCode,
    media_type: String,
    text: String,
    is_cut: bool,
}

/// Fetches a page; the failure is in words for a model.
pub(super) async fn fetch(outbound: &Outbound, input: &Value) -> Result<Outcome, String> {
    let url = input.get("url").and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| input.get(name).and_then(Value::as_u64);
    let most = number("maxChars").map_or(CHARS, |n| usize::try_from(n).unwrap_or(CHARS));
    let offset = number("offset").map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let body = get(outbound, url).await?;
    let read = tokio::task::spawn_blocking(move || show(&body, offset, most));
    read.await
        .map_err(|_| "the page cannot be read".to_owned())?
}

async fn get(outbound: &Outbound, url: &str) -> Result<Body, String> {
    let url = outbound.check(url).map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    let wanted =
        "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.1";
    headers.insert(ACCEPT, HeaderValue::from_static(wanted));
    let request = OutboundRequest::new(Method::GET, url)
        .headers(headers)
        .within(WITHIN)
        .at_most(MAX_ANNOUNCED_BYTES);
    let mut response = outbound
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
            cut(&media_type, 100)
        ));
    }
    let mut bytes = Vec::new();
    let is_cut = loop {
        match response.chunk().await.map_err(|error| error.to_string())? {
            None => break false,
            Some(chunk) => bytes.extend_from_slice(&chunk),
        }
        if bytes.len() > MAX_BODY_BYTES {
            bytes.truncate(MAX_BODY_BYTES);
            break true;
        }
    };
    Ok(Body {
        text: charset::decoded(response.header("content-type"), &bytes, is_cut),
        url: response.url().clone(),
        status: response.status(),
        media_type,
        is_cut,
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

fn show(body: &Body, offset: usize, most: usize) -> Result<Outcome, String> {
    let is_page = matches!(
        body.media_type.as_str(),
        "text/html" | "application/xhtml+xml"
    );
    let page = if is_page {
        page::read(&body.text, &body.url)
    } else {
        page::Page {
            text: body.text.clone(),
            ..page::Page::default()
        }
    };
    if !body.status.is_success() {
        let said: String = page.text.chars().take(REFUSAL_CHARS).collect();
        return Err(format!(
            "{} answered with HTTP status {}. {said}",
            body.url, body.status
        ));
    }
    let mut content = Content::new();
    content.text(&format!("URL: {}", body.url));
    if !page.title.is_empty() {
        content.text(&format!("Title: {}", page.title));
    }
    if !page.description.is_empty() && offset == 0 {
        content.text(&format!("Description: {}", page.description));
    }
    let shown: String = page.text.chars().skip(offset).take(most).collect();
    let total = page.text.chars().count();
    let rest = total.saturating_sub(offset.saturating_add(most));
    content.text(&format!("\n{shown}"));
    if offset > 0 && offset >= total {
        content.text(&format!(
            "[nothing stands at offset {offset}: the text has {total} characters]"
        ));
    } else if rest > 0 {
        let next = offset + most;
        content.text(&format!(
            "\n[cut: {rest} more characters; call again with \"offset\": {next}]"
        ));
    } else if body.is_cut {
        content.text(&format!(
            "\n[cut: only the first {MAX_BODY_BYTES} bytes were read]"
        ));
    }
    if !page.links.is_empty() && offset == 0 {
        let line = |(text, url): &(String, String)| format!("- [{text}]({url})");
        let lines: Vec<String> = page.links.iter().map(line).collect();
        content.text(&format!("\nLinks:\n{}", lines.join("\n")));
    }
    Ok(content.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_behind_the_end_is_said_to_be_one() {
        let body = Body {
            text: "twelve chars".to_owned(),
            url: "https://a.example/".parse().unwrap(),
            status: reqwest::StatusCode::OK,
            media_type: "text/plain".to_owned(),
            is_cut: false,
        };
        for (offset, said) in [(12, true), (5000, true), (11, false), (0, false)] {
            let shown = show(&body, offset, 100).unwrap().content;
            assert_eq!(
                shown.contains("has 12 characters"),
                said,
                "{offset}: {shown}"
            );
        }
    }

    #[test]
    fn only_what_is_text_is_read() {
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
