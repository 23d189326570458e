//! The OpenAPI document: generated from the route table and the protocol types by a test, committed, and served as it
//! is.
//!
//! `cargo xtask openapi` writes `openapi.json` anew; the test fails when the file is not what it would write.

#[cfg(test)]
mod tests;

/// The document, OpenAPI 3.1, JSON.
pub const DOCUMENT: &str = include_str!("../../openapi.json");
