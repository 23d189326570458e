//! Classifies the errors of every vendor as [`ModelError`].

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use runloom_ports::model::ModelError;
use runloom_ports::secret::Secret;
use runloom_protocol::outcome::{ErrorClass, finish_reason};
use serde_json::Value;

use crate::retry_after::{self, header};

/// Longest error message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// Longest error code of a provider, in bytes.
const MAX_CODE_BYTES: usize = 120;

/// Longest excerpt of a body, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// The error of a provider, independent of the vendor's format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// Message for people; may be empty.
    pub(crate) message: String,
    /// Error codes, the most specific first: OpenAI's `code` and `type`, Anthropic's `type`, Google's `status`, …
    pub(crate) codes: Vec<String>,
    /// The status in the body, for errors inside a stream that began with 200.
    pub(crate) status: Option<u16>,
    /// The retry hint in the body (Google's `RetryInfo`).
    pub(crate) retry_after: Option<Duration>,
}

impl ErrorBody {
    /// Parses the error body of any vendor. A body that is not JSON becomes the message.
    pub(crate) fn parse(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self {
                message: String::from_utf8_lossy(body).trim().to_owned(),
                ..Self::default()
            },
        }
    }

    /// Reads an error body that was parsed already.
    pub(crate) fn from_value(value: &Value) -> Self {
        // Google wraps an error inside a stream in an array.
        let value = value.get(0).unwrap_or(value);
        let inner = match value.get("error") {
            Some(Value::String(text)) => {
                return Self {
                    message: text.clone(),
                    codes: codes_of(value, &["code", "type"]),
                    ..Self::default()
                };
            }
            Some(inner @ Value::Object(_)) => inner,
            _ => value,
        };
        let message = ["message", "Message", "detail"]
            .iter()
            .find_map(|key| match inner.get(*key) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) if !other.is_null() => Some(other.to_string()),
                _ => None,
            })
            .unwrap_or_default();
        Self {
            message,
            codes: reasons(inner)
                .chain(codes_of(inner, &["code", "type", "status", "__type"]))
                .collect(),
            status: inner.get("code").and_then(status_of),
            retry_after: retry_after::of_body(inner),
        }
    }

    /// Adds an error code that came outside the body, such as the name of an exception frame.
    pub(crate) fn with_code(mut self, code: &str) -> Self {
        self.codes.push(code.to_owned());
        self
    }
}

/// Classifies an HTTP error response.
pub(crate) fn from_response(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let mut parsed = ErrorBody::parse(body);
    if let Some(kind) = header(headers, "x-amzn-errortype") {
        parsed
            .codes
            .push(kind.split([':', ',']).next().unwrap_or(kind).to_owned());
    }
    let mut error = classified(Some(status), parsed);
    error.retry_after = retry_after::of_headers(headers, SystemTime::now()).or(error.retry_after);
    if header(headers, "x-should-retry") == Some("false") {
        error.retryable = false;
    }
    error
}

/// Classifies an error inside a stream that began with 200.
pub(crate) fn from_stream(body: ErrorBody) -> ModelError {
    classified(None, body)
}

/// The error of a body that ended before the provider's final frame.
pub(crate) fn incomplete_response() -> ModelError {
    ModelError::new(
        ErrorClass::Server,
        "the provider closed the connection before its response was complete",
    )
}

/// The error of a frame that cannot be parsed. The frame is not quoted: it may hold the conversation.
pub(crate) fn unreadable_frame(error: &serde_json::Error) -> ModelError {
    ModelError::new(
        ErrorClass::Server,
        format!(
            "the provider sent a frame that cannot be parsed ({:?} error at column {})",
            error.classify(),
            error.column()
        ),
    )
}

/// The error of a call whose arguments are not a JSON object.
pub(crate) fn malformed_call(name: &str) -> ModelError {
    let mut error = ModelError::new(
        ErrorClass::Server,
        format!("the model called `{name}` with arguments that are not a JSON object"),
    );
    error.finish_reason = Some(finish_reason::MALFORMED_FUNCTION_CALL.to_owned());
    error
}

/// Whether an error rejects the output schema, rather than the schema of a tool or something else.
pub(crate) fn rejects_schema(error: &ModelError) -> bool {
    if !matches!(error.api_status, Some(400 | 422)) || error.class != ErrorClass::InvalidRequest {
        return false;
    }
    let text = format!(
        "{} {}",
        error.message.to_ascii_lowercase(),
        error.api_code.as_deref().unwrap_or_default()
    );
    let about_tool = ["for function", "tools[", "tools.", "function_declarations"];
    let about_output = [
        "response_format",
        "text.format",
        "json_schema",
        "responsejsonschema",
        "response_json_schema",
        "response_schema",
        "output_format",
        "output_config",
        "invalid schema",
    ];
    about_output.iter().any(|word| text.contains(word))
        && !about_tool.iter().any(|word| text.contains(word))
}

/// The error of a run with strict enforcement whose schema the provider rejects.
pub(crate) fn schema_rejected(mut error: ModelError) -> ModelError {
    error.class = ErrorClass::StructuredOutputSchemaRejected;
    error.retryable = false;
    error
}

/// Removes credentials from the message of an error: the given ones, and texts that look like an API key.
pub(crate) fn redact(error: &mut ModelError, secrets: &[Secret]) {
    error.message = without_secrets(&error.message, secrets);
}

/// A text without credentials: the given ones, and texts that look like an API key are replaced by `***`.
pub(crate) fn without_secrets(text: &str, secrets: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        // Shorter values would remove ordinary words.
        if secret.expose().len() >= 6 {
            text = text.replace(secret.expose(), "***");
        }
    }
    without_keys(&text)
}

/// Prefixes of the vendors' API keys.
const KEY_PREFIXES: [&str; 6] = ["sk-", "xai-", "AIza", "AKIA", "ASIA", "gsk_"];

/// A text without API keys. The characters around a key stay, so that JSON stays valid.
fn without_keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(letter) = rest.chars().next() {
        if let Some(length) = key_length(rest).filter(|_| !in_word) {
            shown.push_str("***");
            rest = &rest[length..];
            continue;
        }
        in_word = letter.is_ascii_alphanumeric();
        shown.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    shown
}

/// Length of the API key at the beginning of a text, if there is one.
fn key_length(text: &str) -> Option<usize> {
    let prefix = KEY_PREFIXES
        .iter()
        .find(|prefix| text.starts_with(**prefix))?;
    let end = |letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '*'));
    let length = text.find(end).unwrap_or(text.len());
    (length > prefix.len() + 4).then_some(length)
}

/// The beginning of a body, on one line.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let words: Vec<&str> = text.split_whitespace().take(40).collect();
    capped(&words.join(" "), MAX_EXCERPT_BYTES)
}

fn classified(status: Option<u16>, body: ErrorBody) -> ModelError {
    let status = status.or(body.status);
    let class = class_of(status, &body);
    let message = match (body.message.trim(), status) {
        ("", Some(status)) => format!("the provider answered {status} without a message"),
        ("", None) => "the provider reported an error without a message".to_owned(),
        (message, _) => capped(message, MAX_MESSAGE_BYTES),
    };
    let mut error = ModelError::new(class, message);
    error.api_status = status;
    error.api_code = body
        .codes
        .first()
        .map(|code| capped(code, MAX_CODE_BYTES))
        .filter(|code| !code.is_empty());
    error.retry_after = body.retry_after;
    if body
        .codes
        .iter()
        .any(|code| matches!(code.as_str(), "insufficient_quota" | "billing_error"))
    {
        // A quota does not recover within a backoff.
        error.retryable = false;
    }
    error
}

fn class_of(status: Option<u16>, body: &ErrorBody) -> ErrorClass {
    let by_code = body.codes.iter().find_map(|code| class_of_code(code));
    match status {
        Some(429) => ErrorClass::RateLimit,
        Some(503 | 529) => ErrorClass::Overloaded,
        Some(401 | 403) => ErrorClass::Auth,
        Some(408) => ErrorClass::Timeout,
        Some(504) => by_code.unwrap_or(ErrorClass::Timeout),
        Some(status @ 500..) => match by_code {
            // Bedrock and some gateways wrap a throttle in a 5xx.
            Some(class @ (ErrorClass::RateLimit | ErrorClass::Overloaded)) if status < 600 => class,
            _ => ErrorClass::Server,
        },
        Some(status @ 300..) => {
            match by_code {
                _ if is_context_error(body) => ErrorClass::ContextWindow,
                Some(
                    class @ (ErrorClass::RateLimit | ErrorClass::Auth | ErrorClass::Overloaded),
                ) if status == 400 => class,
                _ => ErrorClass::InvalidRequest,
            }
        }
        _ if is_context_error(body) => ErrorClass::ContextWindow,
        _ => by_code.unwrap_or(ErrorClass::Server),
    }
}

/// The class of a vendor's error code, compared without case and punctuation.
fn class_of_code(code: &str) -> Option<ErrorClass> {
    let code: String = code
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    Some(match code.as_str() {
        "ratelimiterror"
        | "ratelimitexceeded"
        | "toomanyrequests"
        | "insufficientquota"
        | "resourceexhausted"
        | "throttlingexception"
        | "throttling"
        | "ratelimit" => ErrorClass::RateLimit,
        "overloadederror"
        | "overloaded"
        | "unavailable"
        | "serviceunavailableexception"
        | "serviceunavailable"
        | "serverisoverloaded"
        | "slowdown"
        | "modelnotreadyexception" => ErrorClass::Overloaded,
        "contextlengthexceeded" | "contextwindowexceeded" | "stringabovemaxlength" => {
            ErrorClass::ContextWindow
        }
        "authenticationerror"
        | "permissionerror"
        | "invalidapikey"
        | "unauthenticated"
        | "permissiondenied"
        | "accessdeniedexception"
        | "unrecognizedclientexception"
        | "expiredtokenexception"
        | "apikeyinvalid" => ErrorClass::Auth,
        "invalidrequesterror"
        | "invalidargument"
        | "validationexception"
        | "notfounderror"
        | "notfound"
        | "badrequest"
        | "invalidprompt"
        | "requesttoolarge"
        | "failedprecondition" => ErrorClass::InvalidRequest,
        "timeouterror" | "timeout" | "deadlineexceeded" | "modeltimeoutexception" => {
            ErrorClass::Timeout
        }
        "servererror"
        | "apierror"
        | "internal"
        | "internalservererror"
        | "internalerror"
        | "internalserverexception"
        | "modelstreamerrorexception"
        | "modelerrorexception" => ErrorClass::Server,
        _ => return None,
    })
}

fn is_context_error(body: &ErrorBody) -> bool {
    if body
        .codes
        .iter()
        .any(|code| class_of_code(code) == Some(ErrorClass::ContextWindow))
    {
        return true;
    }
    let message = body.message.to_ascii_lowercase();
    [
        "context length",
        "context window",
        "context_length",
        "maximum context",
        "prompt is too long",
        "input is too long",
        "input token count",
        "too many input tokens",
        "exceeds the maximum number of tokens",
        "exceed context limit",
        "maximum prompt length",
        "reduce the length of the",
    ]
    .iter()
    .any(|hint| message.contains(hint))
}

fn codes_of(value: &Value, keys: &[&str]) -> Vec<String> {
    keys.iter()
        .filter_map(|key| match value.get(*key)? {
            Value::String(code) if !code.is_empty() && code != "error" => Some(code.clone()),
            _ => None,
        })
        .collect()
}

/// Google's `details: [{"@type": "…ErrorInfo", "reason": "API_KEY_INVALID"}]`: the status alone says only that the
/// request was wrong.
fn reasons(error: &Value) -> impl Iterator<Item = String> {
    let details = error.get("details").and_then(Value::as_array);
    let reasons = details.into_iter().flatten().filter_map(|detail| {
        detail
            .get("reason")?
            .as_str()
            .filter(|reason| !reason.is_empty())
    });
    reasons.map(str::to_owned)
}

fn status_of(code: &Value) -> Option<u16> {
    let status = match code {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    (400..600).contains(&status).then_some(status)
}

fn capped(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
