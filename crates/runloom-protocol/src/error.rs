//! How a request is refused: one body, one list of codes. Which status goes with a code is the HTTP crate's business.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A violation in a request body, or in a query parameter or header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Issue {
    /// The place, like `tools[2].parameters` or `budgets.maxToolTurns`; empty for the body itself.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() {
            "body"
        } else {
            &self.path
        };
        write!(f, "{place}: {}", self.message)
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// Why a request was refused, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the protocol's list.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word under `code`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

codes! {
    /// Cause: no credential, or one that is unknown, expired or revoked. Remedy: send a valid API key or access token.
    Unauthorized = "unauthorized";
    /// Cause: the credential is valid but may not do this. Remedy: another key, or a wider allow-list.
    Forbidden = "forbidden";
    /// Cause: an OAuth token lacks a scope. Remedy: ask for the scopes under `required` when authorizing.
    InsufficientScope = "insufficient_scope";
    /// Cause: the workspace's plan has no API keys. Remedy: change the plan.
    ApiKeysPlan = "api_keys_plan";
    /// Cause: the workspace's plan has no OAuth apps. Remedy: change the plan.
    OauthAppsPlan = "oauth_apps_plan";
    /// Cause: no such thing in this workspace. Remedy: check the id, and the workspace in the path.
    NotFound = "not_found";
    /// Cause: the path exists, but not with this method. Remedy: use a method that `Allow` names.
    MethodNotAllowed = "method_not_allowed";
    /// Cause: the body violates the contract. Remedy: correct what `issues` lists.
    InvalidRequest = "invalid_request";
    /// Cause: `modelId` names no model, or several. Remedy: take one of `candidates`, or an id of the catalog.
    InvalidModel = "invalid_model";
    /// Cause: a plugin tool is not installed. Remedy: install it, or remove the ref.
    InvalidPlugin = "invalid_plugin";
    /// Cause: the tool call is unknown, was answered, or timed out. Remedy: none; drop the answer.
    UnknownToolUse = "unknown_tool_use";
    /// Cause: no such approval of this run or of a run below it. Remedy: take an id of `GET /approvals`.
    UnknownApproval = "unknown_approval";
    /// Cause: the approval has another decision already. Remedy: none; it is under `approval`.
    ApprovalDecided = "approval_decided";
    /// Cause: the run has ended. Remedy: none; start another.
    RunTerminal = "run_terminal";
    /// Cause: the session has ended. Remedy: create another.
    SessionEnded = "session_ended";
    /// Cause: the `Idempotency-Key` was used with another body. Remedy: a new key for a new request.
    IdempotencyConflict = "idempotency_conflict";
    /// Cause: the request contradicts what is there. Remedy: read it again, then decide.
    Conflict = "conflict";
    /// Cause: it was changed, made or removed meanwhile. Remedy: read it again, and send its new `ETag` with
    /// `If-Match`.
    PreconditionFailed = "precondition_failed";
    /// Cause: the body did not arrive in time. Remedy: send it again, whole.
    RequestTimeout = "request_timeout";
    /// Cause: the body is larger than the server takes. Remedy: send less.
    PayloadTooLarge = "payload_too_large";
    /// Cause: the body is not JSON. Remedy: `Content-Type: application/json`.
    UnsupportedMediaType = "unsupported_media_type";
    /// Cause: too many requests in this minute. Remedy: wait as long as `Retry-After` says.
    RateLimitExceeded = "rate_limit_exceeded";
    /// Cause: the server failed inside. Remedy: try again; if it stays, tell the operator.
    Internal = "internal";
    /// Cause: the server is stopping, or a service behind it is away. Remedy: try again shortly.
    Unavailable = "unavailable";
}

impl ErrorCode {
    /// Reads the word under `code`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == word)
    }

    /// The word under `error`: the code itself, but for the one that SDKs know by another name there.
    #[must_use]
    pub fn error_word(self) -> &'static str {
        match self {
            Self::RateLimitExceeded => "rate_limited",
            other => other.as_str(),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ErrorCode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ErrorCode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let codes: Vec<&str> = Self::ALL.iter().map(|code| code.as_str()).collect();
        schemars::json_schema!({
            "type": "string",
            "description": "An error code. Newer servers may have other codes.",
            "examples": codes,
        })
    }
}

/// The body of every error response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Error"))]
pub struct ErrorBody {
    /// The code; for credential errors a sentence.
    pub error: String,
    /// The error code. Newer servers may have other codes.
    // A string, so that a client can read the codes of a newer server.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "ErrorCode"))]
    pub code: String,
    /// What was wrong, and what would be right.
    #[serde(default)]
    pub message: String,
    /// What to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Similar model ids, when `modelId` is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// Scopes that the token lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<Required>,
    /// The violations, when the request is not valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// The approval that has another decision already, as `GET /approvals/{approvalId}` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Value>,
}

/// One scope as a string, or several as an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RequiredScopes"))]
#[serde(untagged)]
pub enum Required {
    /// The one scope.
    One(String),
    /// Several scopes.
    Many(Vec<String>),
}

impl ErrorBody {
    /// A body with code and message.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            error: code.error_word().to_owned(),
            code: code.as_str().to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The refusal of a body that violates the contract.
    #[must_use]
    pub fn invalid_request(issues: Vec<Issue>) -> Self {
        let message = match issues.as_slice() {
            [] => "The request is not valid.".to_owned(),
            [first] => first.to_string(),
            [first, rest @ ..] => format!("{first} (and {} more, see `issues`)", rest.len()),
        };
        Self {
            issues,
            ..Self::new(ErrorCode::InvalidRequest, message)
        }
    }

    /// Puts a sentence under `error`, as credential errors have it.
    #[must_use]
    pub fn with_error(mut self, error: impl Into<String>) -> Self {
        self.error = error.into();
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds model ids that may have been meant.
    #[must_use]
    pub fn with_candidates(mut self, candidates: Vec<String>) -> Self {
        self.candidates = candidates;
        self
    }

    /// Adds the scopes that are missing; none leaves the field out.
    #[must_use]
    pub fn with_required(mut self, mut scopes: Vec<String>) -> Self {
        self.required = match scopes.len() {
            0 => None,
            1 => scopes.pop().map(Required::One),
            _ => Some(Required::Many(scopes)),
        };
        self
    }

    /// The code, when it is one that we know.
    #[must_use]
    pub fn error_code(&self) -> Option<ErrorCode> {
        ErrorCode::parse(&self.code)
    }
}
