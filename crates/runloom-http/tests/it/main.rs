//! The router in process: shapes, headers and order of checks. What the engine answers is tested with the whole server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]

mod a2a;
mod admin;
mod app;
mod bodies;
mod connections;
mod contract;
mod cors;
mod credentials;
mod dashboard;
mod documents;
mod engine;
mod feedback;
mod lingering_close;
mod mcp;
mod money;
mod oauth;
mod openapi;
mod resources;
mod secrets;
mod shapes;
mod toolsets;
