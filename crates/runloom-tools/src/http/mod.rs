//! HTTP tools: one request, declared as data.
//!
//! Invariants: arguments fill values and never change the structure of the request (scheme, host, path, headers, body);
//! secrets are filled in here and redacted from the response.
//!
//! Reading order: [`HttpTools::call`], `template_values`, `url`, `body`, `response`.

mod body;
mod response;
mod template_values;
mod url;

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use runloom_ports::tools::{Invocation, Outcome};
use runloom_protocol::definition::template::{self, Piece};
use runloom_protocol::definition::{DeclaredEffect, HttpCall, HttpMethod};
use runloom_protocol::tools::Object;
use serde_json::{Map, Value, json};

use crate::call_secrets::CallSecrets;
use crate::outbound::{Outbound, OutboundRequest, add_trace_header, spec_headers};

use response::HttpResponse;
use template_values::{Result, TemplateValues};

/// Identifies a call to its peer, so that the peer can recognise a repetition.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Executes HTTP tools.
#[derive(Clone)]
pub(crate) struct HttpTools {
    outbound: Outbound,
}

/// One call of an HTTP tool.
#[derive(Clone, Copy)]
pub(crate) struct HttpRun<'a> {
    pub(crate) http: &'a HttpCall,
    pub(crate) effect: DeclaredEffect,
    pub(crate) timeout: Duration,
    pub(crate) call: &'a Invocation,
    pub(crate) secrets: &'a CallSecrets,
}

impl HttpTools {
    /// Executes HTTP tools through `outbound`.
    pub(crate) fn new(outbound: Outbound) -> Self {
        Self { outbound }
    }

    /// Sends the request and reads the response. Dropping the future closes the connection.
    ///
    /// # Errors
    /// A message for the model, without secrets.
    pub(crate) async fn call(&self, run: HttpRun<'_>) -> Result<Outcome> {
        let HttpRun { http, secrets, .. } = run;
        // A long response is truncated instead of refused: its beginning is still useful.
        let request = request(run)?.within(run.timeout).at_most(usize::MAX);
        let sent = self.outbound.send(request).await;
        let response = sent.map_err(|error| secrets.redact(error.to_string()))?;
        let (status, media_type) = (response.status(), response.media_type());
        let content_type = response.header("content-type").map(str::to_owned);
        let head = (http.method == HttpMethod::Head).then(|| head(response.headers()));
        let limit = usize::try_from(http.max_response_bytes).unwrap_or(usize::MAX);
        let read = response.prefix(limit).await;
        let prefix = read.map_err(|error| secrets.redact(error.to_string()))?;
        let response = HttpResponse {
            status,
            media_type,
            content_type,
            head,
            body: prefix.bytes,
            extent: prefix.extent,
        };
        Ok(response.outcome(&http.response, secrets))
    }
}

fn request(run: HttpRun<'_>) -> Result<OutboundRequest> {
    let HttpRun { http, call, .. } = run;
    let no_arguments = Map::new();
    let values = TemplateValues {
        arguments: call.input.as_object().unwrap_or(&no_arguments),
        secrets: run.secrets,
    };
    let url = url::build(http, &values)?;
    let mut headers = headers(http, &values)?;
    let declared = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let body = body::build(http, declared, &values)?;
    if let Some(body) = &body {
        let media_type = HeaderValue::from_static(body.media_type);
        headers.entry(CONTENT_TYPE).or_insert(media_type);
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static(
        "application/json, text/*;q=0.9, */*;q=0.5",
    ));
    if run.effect != DeclaredEffect::Read
        && let Ok(key) = HeaderValue::from_str(&call.tool_use_id)
    {
        headers.entry(IDEMPOTENCY_KEY).or_insert(key);
    }
    add_trace_header(&mut headers, call.trace.as_ref());
    let request = OutboundRequest::new(method(http.method), url)
        .headers(headers)
        .keeping_method();
    Ok(match body {
        Some(body) => request.body(body.text),
        None => request,
    })
}

fn headers(http: &HttpCall, values: &TemplateValues<'_>) -> Result<HeaderMap> {
    let filled = values.headers(&http.headers)?;
    spec_headers(&filled).map_err(|error| error.to_string())
}

/// The headers of a response, one per line, without cookies, which may be credentials.
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
    let mut remaining: Vec<&Value> = http.body.iter().collect();
    while let Some(value) = remaining.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => remaining.extend(items),
            Value::Object(fields) => remaining.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    texts
}

/// The secrets that the definition names.
pub(crate) fn secret_names(http: &HttpCall) -> impl Iterator<Item = &str> {
    templates(http).into_iter().flat_map(template::secrets)
}

/// The argument schema of a definition without one: the arguments of its templates as strings, those in the path
/// required.
pub(crate) fn inferred_parameters(http: &HttpCall) -> Value {
    let (mut properties, mut required) = (Object::new(), Vec::new());
    for text in templates(http) {
        let mut preceding = String::new();
        for piece in template::pieces(text).unwrap_or_default() {
            match piece {
                Piece::Text(text) => preceding.push_str(text),
                Piece::Secret(_) => {}
                Piece::Argument(path) => {
                    let (name, nested) =
                        path.split_once('.').map_or((path, false), |p| (p.0, true));
                    let kind = if nested {
                        json!({})
                    } else {
                        json!({"type": "string"})
                    };
                    if text == http.url && !preceding.contains('?') && !required.contains(&name) {
                        required.push(name);
                    }
                    properties.entry(name).or_insert(kind);
                }
            }
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}
