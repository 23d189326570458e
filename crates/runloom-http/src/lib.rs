//! The HTTP and SSE API: parses requests, calls one use case each, and renders responses.
//!
//! Rules and storage are outside this crate; a handler decides only about the form of a request.
//!
//! `dashboard/` beside `src/` has the files of the dashboard, which `routes/dashboard` serves unchanged.
//!
//! Reading order: [`router`] (the path of a request) and `routes` (one file per resource, one line per route);
//! `extract` (requests to values), `error` (refusals to responses, with all error statuses), `sse` (streams), `rpc`
//! and `run_summary` (A2A and MCP), `guard` and `request_layer` (before and around every handler); [`serve()`]
//! (connections).
//!
//! Invariants: credentials are checked before a body is read. Every refusal has the same form. Headers and bodies of
//! clients are never logged.

mod address_limit;
mod app;
mod cors;
mod error;
mod extract;
mod guard;
mod html_page;
mod lingering_close;
mod openapi;
mod operation;
mod request_layer;
mod route;
mod router;
mod routes;
mod rpc;
mod run_summary;
mod serve;
mod socket;
mod sse;

pub use axum::Router;

pub use app::{AdminToken, Settings};
pub use cors::CorsOrigins;
pub use openapi::DOCUMENT as OPENAPI;
pub use router::{probe_router, project_router, route_table, router, scope_table, watch_router};
pub use serve::{ConnectionLimits, listen, serve};
