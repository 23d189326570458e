//! JSON bodies: headers first, then size, then syntax, then the contract.

use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use runloom_ports::store::Idempotency;
use runloom_protocol::ag_ui::RunAgentInput;
use runloom_protocol::approval::DecideApproval;
use runloom_protocol::error::Issue;
use runloom_protocol::limits::{JSON_DEPTH_MAX, TOOL_RESULT_BODY_MAX_BYTES};
use runloom_protocol::spec::{
    CreateMessage, CreateRun, CreateSession, SubmitFeedback, SubmitToolResult,
};
use runloom_protocol::validate::{self, fits_in_depth};
use runloom_service::error::Error;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::surrogates;
use crate::app::{App, Settings};
use crate::error::{Answer, Refusal};

/// A request body with a schema.
pub(crate) trait Checkable: Sized {
    /// Separates the idempotency keys of different operations.
    const OPERATION: &'static str;

    /// Maximum bytes of this request by contract.
    const BODY_BYTES: usize = 0;

    /// The request, or every violation.
    fn check(body: &Value) -> Result<Self, Vec<Issue>>;

    /// Findings that are allowed but probably not meant.
    fn warnings(_body: &Value) -> Vec<String> {
        Vec::new()
    }
}

impl Checkable for CreateRun {
    const OPERATION: &'static str = "create_run";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        validate::create_run(body)
    }

    fn warnings(body: &Value) -> Vec<String> {
        validate::unread_of_run(body)
    }
}

impl Checkable for CreateSession {
    const OPERATION: &'static str = "create_session";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        validate::create_session(body)
    }
}

impl Checkable for CreateMessage {
    const OPERATION: &'static str = "create_message";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        validate::create_message(body)
    }
}

impl Checkable for SubmitToolResult {
    const OPERATION: &'static str = "submit_tool_result";
    const BODY_BYTES: usize = TOOL_RESULT_BODY_MAX_BYTES;

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        validate::tool_result(body)
    }
}

impl Checkable for RunAgentInput {
    const OPERATION: &'static str = "ag_ui";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        validate::ag_ui(body)
    }
}

impl Checkable for DecideApproval {
    const OPERATION: &'static str = "decide_approval";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        validate::decide_approval(body)
    }
}

impl Checkable for SubmitFeedback {
    const OPERATION: &'static str = "submit_feedback";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        validate::feedback(body)
    }
}

/// A checked body and its idempotency key.
#[derive(Debug)]
pub(crate) struct Checked<T> {
    /// The request.
    pub(crate) request: T,
    /// From `Idempotency-Key`.
    pub(crate) idempotency: Option<Idempotency>,
    /// Findings that are allowed but probably not meant.
    pub(crate) warnings: Vec<String>,
}

impl<T: Checkable> FromRequest<App> for Checked<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let (parts, body) = request.into_parts();
        check_headers(&parts.headers, &body)?;
        let key = idempotency_key(&parts.headers)?;
        let bytes = read(body, T::BODY_BYTES, &app.settings).await?;
        let value = parse(&bytes)?;
        let request = T::check(&value).map_err(Error::Invalid)?;
        let idempotency = key.map(|key| Idempotency {
            key: format!("{}:{key}", T::OPERATION),
            fingerprint: fingerprint(parts.uri.path(), &bytes),
        });
        Ok(Self {
            request,
            idempotency,
            warnings: T::warnings(&value),
        })
    }
}

/// A body whose syntax errors the handler reports itself, in the form of its own protocol.
#[derive(Debug)]
pub(crate) struct Posted {
    /// The request headers.
    pub(crate) headers: HeaderMap,
    /// The JSON, or its syntax error.
    pub(crate) body: Result<Value, String>,
    /// From `Idempotency-Key`.
    pub(crate) idempotency: Option<Idempotency>,
    /// When reading began: a slow body uses up the time of the request.
    pub(crate) began: Instant,
}

impl FromRequest<App> for Posted {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let began = Instant::now();
        let (parts, body) = request.into_parts();
        check_headers(&parts.headers, &body)?;
        let key = idempotency_key(&parts.headers)?;
        let bytes = read(body, 0, &app.settings).await?;
        let idempotency = key.map(|key| Idempotency {
            key: format!("posted:{key}"),
            fingerprint: fingerprint(parts.uri.path(), &bytes),
        });
        Ok(Self {
            body: parsed(&bytes),
            headers: parts.headers,
            idempotency,
            began,
        })
    }
}

fn check_headers(headers: &HeaderMap, body: &Body) -> Answer<()> {
    const WANTED: &str = "Send JSON with `Content-Type: application/json`";
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let message = "Compressed bodies are not accepted; send no Content-Encoding.".to_owned();
        return Err(Refusal::MediaType { message });
    }
    match headers.get(CONTENT_TYPE) {
        Some(value) if value.to_str().is_ok_and(is_json) => Ok(()),
        Some(value) => {
            let got: String = value.to_str().unwrap_or("…").chars().take(100).collect();
            let message = format!("{WANTED}, not `{got}`.");
            Err(Refusal::MediaType { message })
        }
        // Without a body, report the missing body and not the media type.
        None if body.is_end_stream() => Ok(()),
        None => Err(Refusal::MediaType {
            message: format!("{WANTED}; the request has no Content-Type."),
        }),
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn idempotency_key(headers: &HeaderMap) -> Answer<Option<&str>> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let printable = |text: &&str| {
        (1..=255).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    };
    match value.to_str().ok().filter(printable) {
        Some(key) => Ok(Some(key)),
        None => Err(Error::invalid(
            "Idempotency-Key",
            "must have 1–255 printable ASCII characters",
        )
        .into()),
    }
}

async fn read(body: Body, by_contract: usize, settings: &Settings) -> Answer<Bytes> {
    read_at_most(body, settings.body_limit(by_contract), settings).await
}

/// Reads a body of bounded size in bounded time.
pub(super) async fn read_at_most(body: Body, limit: usize, settings: &Settings) -> Answer<Bytes> {
    // A Content-Length over the limit is refused before the client sends the rest.
    if body.size_hint().lower() > limit as u64 {
        return Err(Refusal::BodyTooLarge { limit });
    }
    let reading = Limited::new(body, limit).collect();
    let patience = settings.body_timeout;
    let read = tokio::time::timeout(patience, reading).await;
    let read = read.map_err(|_| Refusal::BodyTimedOut { limit: patience })?;
    match read {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::BodyTooLarge { limit }),
        Err(_) => Err(Error::invalid("", "could not be read to its end").into()),
    }
}

fn parse(bytes: &[u8]) -> Answer<Value> {
    Ok(parsed(bytes).map_err(|message| Error::invalid("", message))?)
}

fn parsed(bytes: &[u8]) -> Result<Value, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("is empty; a JSON object is expected".to_owned());
    }
    // The parser's limit of 128 levels stays on, because recursion over client data must be bounded.
    let parsed = serde_json::from_slice(bytes).or_else(|error| {
        if surrogates::is_cause_of(&error) {
            serde_json::from_slice(&surrogates::replaced(bytes))
        } else {
            Err(error)
        }
    });
    let parsed = parsed.map_err(|error| malformed(&error))?;
    match fits_in_depth(&parsed) {
        true => Ok(parsed),
        false => Err(too_deep()),
    }
}

fn malformed(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    if text.starts_with("recursion limit exceeded") {
        return too_deep();
    }
    // An error at the end of the text gets a message of its own.
    let what = text.split(" at line ").next().unwrap_or("malformed");
    format!("is not valid JSON: {what} (line {line}, column {column})")
}

fn too_deep() -> String {
    format!("is nested deeper than {JSON_DEPTH_MAX} levels")
}

/// The target is part of the request's identity: the same key and body for another run is another request.
fn fingerprint(path: &str, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(path.as_bytes());
    hash.update(b"\n");
    hash.update(body);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_json_types() {
        for good in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.api+json",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "text/plain",
            "text/json",
            "application/jsonx",
            "image/svg+json",
            "",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[test]
    fn fingerprint_covers_target_and_body() {
        let one = fingerprint("/a", b"{}");
        assert_eq!(one, fingerprint("/a", b"{}"));
        assert_ne!(one, fingerprint("/b", b"{}"));
        assert_ne!(one, fingerprint("/a", b"{ }"));
    }
}
