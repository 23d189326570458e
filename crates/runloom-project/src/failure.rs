//! Failures of a call, as the model reads them.

use serde_json::{Map, Value, json};

use crate::input::InputIssue;

/// The codes that the server itself gives. Modules add their own.
pub mod code {
    /// Check 1: the call is not `module`, `method` and `input`.
    pub const INVALID_ENVELOPE: &str = "INVALID_ENVELOPE";
    /// Check 2: the router does not have the action.
    pub const UNKNOWN_ACTION: &str = "UNKNOWN_ACTION";
    /// Check 3: the allow-list does not have the action.
    pub const ACTION_NOT_ALLOWED: &str = "ACTION_NOT_ALLOWED";
    /// Check 4: the input contains a credential of this server.
    pub const CREDENTIAL_IN_INPUT: &str = "CREDENTIAL_IN_INPUT";
    /// Check 5: the input does not fit the method's type.
    pub const INVALID_ACTION_INPUT: &str = "INVALID_ACTION_INPUT";
    /// Check 6: no credential can be minted, or it is not accepted.
    pub const CREDENTIAL_INVALID: &str = "CREDENTIAL_INVALID";
    /// Check 7: the process cannot be started.
    pub const PROCESS_UNAVAILABLE: &str = "PROCESS_UNAVAILABLE";
    /// Check 8: the process did not end in time.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// Check 9: the process printed too much.
    pub const OUTPUT_TOO_LARGE: &str = "OUTPUT_TOO_LARGE";
    /// Check 10: the process ended without an answer.
    pub const PROCESS_FAILED: &str = "PROCESS_FAILED";
    /// Check 11: the answer does not have the right form.
    pub const INVALID_OUTPUT: &str = "INVALID_OUTPUT";
    /// Shipped modules: there is no such thing, or it belongs to another owner.
    pub const NOT_FOUND: &str = "NOT_FOUND";
    /// Shipped modules: only the owner may do this.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// Shipped modules: it contradicts what is there.
    pub const CONFLICT: &str = "CONFLICT";
    /// Shipped modules: the owner has as many as allowed.
    pub const LIMIT_EXCEEDED: &str = "LIMIT_EXCEEDED";
    /// Shipped modules: the server failed.
    pub const INTERNAL: &str = "INTERNAL";
    /// `calendar.share`: some invitees failed.
    pub const PARTIAL: &str = "PARTIAL";
}

/// Why a call failed. The message never repeats a value of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// One of [`code`], or a module's own.
    pub code: String,
    /// For the model: what was wrong and what would be right.
    pub message: String,
    /// The module, where the call has one.
    pub module: Option<String>,
    /// The method, where the call has one.
    pub method: Option<String>,
    /// What else `error` has: `input_schema`, `issues`, what a module adds.
    pub more: Map<String, Value>,
}

impl Failure {
    /// A failure without an action.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            module: None,
            method: None,
            more: Map::new(),
        }
    }

    /// The same, of this action.
    #[must_use]
    pub fn of(mut self, module: &str, method: &str) -> Self {
        self.module = Some(module.to_owned());
        self.method = Some(method.to_owned());
        self
    }

    /// The same with what would be right and what was wrong.
    #[must_use]
    pub fn with_issues(mut self, input_schema: Value, issues: &[InputIssue]) -> Self {
        self.more.insert("input_schema".to_owned(), input_schema);
        let issues = issues
            .iter()
            .map(|issue| json!({"path": issue.path, "message": issue.message}));
        self.more
            .insert("issues".to_owned(), Value::Array(issues.collect()));
        self
    }

    /// `error`: `code`, `message`, `module`, `method`, then the rest.
    #[must_use]
    pub fn error(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), json!(self.code));
        error.insert("message".to_owned(), json!(self.message));
        error.insert("module".to_owned(), json!(self.module));
        error.insert("method".to_owned(), json!(self.method));
        for (key, value) in &self.more {
            error.entry(key).or_insert_with(|| value.clone());
        }
        Value::Object(error)
    }

    /// What a child process or the loopback API says: `{"ok": false, "error": …}`.
    #[must_use]
    pub fn reply(&self) -> Value {
        json!({"ok": false, "error": self.error()})
    }
}

/// Whether a text may be the code of a failure: `^[A-Z][A-Z0-9_]{1,63}$`.
#[must_use]
pub fn is_code(text: &str) -> bool {
    let bytes = text.as_bytes();
    (2..=64).contains(&bytes.len())
        && bytes[0].is_ascii_uppercase()
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
}
