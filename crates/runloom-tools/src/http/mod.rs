//! HTTP tools: one request, declared as data.
//!
//! Invariants: arguments fill places and never change the request's shape (scheme, host, path, headers, structure of the body);
//! secrets are filled in here and taken out of whatever comes back.
//!
//! Reading order: [`Http::call`], `fill` (templates), `url`, `body`, `answer`.

mod answer;
mod body;
mod fill;
mod url;

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use runloom_ports::tools::{Invocation, Outcome};
use runloom_protocol::definition::template::{self, Piece};
use runloom_protocol::definition::{DeclaredEffect, HttpCall, HttpMethod};
use runloom_protocol::tools::Object;
use serde_json::{Map, Value, json};

use crate::action::Secrets;
use crate::outbound::{Outbound, OutboundRequest, spec_headers, tell_trace};

use answer::Answer;
use fill::{Filling, Result};

/// Lets a peer recognise a call that it has seen.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Executes HTTP tools.
#[derive(Clone)]
pub(crate) struct Http {
    outbound: Outbound,
}

impl Http {
    /// Every connection goes through `outbound`.
    pub(crate) fn new(outbound: Outbound) -> Self {
        Self { outbound }
    }

    /// Makes the request and reads the answer. Dropping the future drops the connection.
    ///
    /// # Errors
    /// Why there is no answer, in words for a model and without secrets.
    pub(crate) async fn call(
        &self,
        http: &HttpCall,
        effect: DeclaredEffect,
        within: Duration,
        call: &Invocation,
        secrets: &Secrets,
    ) -> Result<Outcome> {
        let request = request(http, effect, call, secrets)?;
        // The limit cuts the answer instead of refusing it: the beginning of a long text is worth reading.
        let request = request.within(within).at_most(usize::MAX);
        let sent = self.outbound.send(request).await;
        let response = sent.map_err(|error| secrets.redact(error.to_string()))?;
        let (status, media_type) = (response.status(), response.media_type());
        let content_type = response.header("content-type").map(str::to_owned);
        let head = (http.method == HttpMethod::Head).then(|| head(response.headers()));
        let limit = usize::try_from(http.max_response_bytes).unwrap_or(usize::MAX);
        let read = response.beginning(limit).await;
        let (body, is_cut) = read.map_err(|error| secrets.redact(error.to_string()))?;
        let answer = Answer {
            status,
            media_type,
            content_type,
            head,
            body,
            is_cut,
        };
        Ok(answer.outcome(&http.response, secrets))
    }
}

fn request(
    http: &HttpCall,
    effect: DeclaredEffect,
    call: &Invocation,
    secrets: &Secrets,
) -> Result<OutboundRequest> {
    let none = Map::new();
    let filling = Filling {
        arguments: call.input.as_object().unwrap_or(&none),
        secrets,
    };
    let url = url::build(http, &filling)?;
    let mut headers = headers(http, &filling)?;
    let declared = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let body = body::build(http, declared, &filling)?;
    if let Some(body) = &body {
        let media_type = HeaderValue::from_static(body.media_type);
        headers.entry(CONTENT_TYPE).or_insert(media_type);
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static(
        "application/json, text/*;q=0.9, */*;q=0.5",
    ));
    if effect != DeclaredEffect::Read
        && let Ok(key) = HeaderValue::from_str(&call.tool_use_id)
    {
        headers.entry(IDEMPOTENCY_KEY).or_insert(key);
    }
    tell_trace(&mut headers, call.trace.as_ref());
    let request = OutboundRequest::new(method(http.method), url)
        .headers(headers)
        .keeping_method();
    Ok(match body {
        Some(body) => request.body(body.text),
        None => request,
    })
}

fn headers(http: &HttpCall, filling: &Filling<'_>) -> Result<HeaderMap> {
    let filled = filling.headers(&http.headers)?;
    spec_headers(&filled).map_err(|error| error.to_string())
}

/// Headers of an answer, one on a line. A cookie would be a credential.
fn head(headers: &HeaderMap) -> String {
    let shown = headers.iter().filter(|(name, _)| *name != SET_COOKIE);
    let lines = shown.filter_map(|(name, value)| Some(format!("{name}: {}", value.to_str().ok()?)));
    lines.collect::<Vec<_>>().join("\n")
}

fn method(method: HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Delete => Method::DELETE,
    }
}

/// Every template of the definition.
fn templates(http: &HttpCall) -> Vec<&str> {
    let mut texts = vec![http.url.as_str()];
    texts.extend(http.headers.values().map(String::as_str));
    texts.extend(http.query.values().map(String::as_str));
    let mut waiting: Vec<&Value> = http.body.iter().collect();
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    texts
}

/// The secrets that the definition names.
pub(crate) fn secret_names(http: &HttpCall) -> impl Iterator<Item = &str> {
    templates(http).into_iter().flat_map(template::secrets)
}

/// The schema of the arguments when the definition has none: what the templates name, as texts; what the path needs is required.
pub(crate) fn inferred_parameters(http: &HttpCall) -> Value {
    let (mut properties, mut required) = (Object::new(), Vec::new());
    for text in templates(http) {
        let mut behind = String::new();
        for piece in template::pieces(text).unwrap_or_default() {
            match piece {
                Piece::Text(text) => behind.push_str(text),
                Piece::Secret(_) => {}
                Piece::Argument(path) => {
                    let (name, nested) =
                        path.split_once('.').map_or((path, false), |p| (p.0, true));
                    let kind = if nested {
                        json!({})
                    } else {
                        json!({"type": "string"})
                    };
                    if text == http.url && !behind.contains('?') && !required.contains(&name) {
                        required.push(name);
                    }
                    properties.entry(name).or_insert(kind);
                }
            }
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}
