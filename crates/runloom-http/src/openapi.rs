//! The OpenAPI document: a file that people maintain, and a test that compares it with the routes.

/// The document, OpenAPI 3.1, JSON.
pub const DOCUMENT: &str = include_str!("../openapi.json");
