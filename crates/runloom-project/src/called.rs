//! The action of a call, and how the call ended.

use crate::failure::Failure;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All of it was done.
    Success,
    /// Some of it was done.
    Partial,
    /// Nothing was done.
    Failure,
}

impl Status {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Partial => "partial",
            Self::Failure => "failure",
        }
    }
}

/// The action that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called<'a> {
    /// The module.
    pub module: &'a str,
    /// The method.
    pub method: &'a str,
}

impl Called<'_> {
    pub(crate) fn failure(self, code: &str, message: &str) -> Failure {
        Failure::new(code, message).of(self.module, self.method)
    }
}
