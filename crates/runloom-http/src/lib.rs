//! The HTTP and SSE API: it parses requests, calls one use case each, and renders answers.
//!
//! Not here: rules and storage. A handler that decides something beyond the shape of a request is in the wrong crate.
//!
//! `dashboard/` beside `src/` has the files of the dashboard, which `routes/dashboard` serves as they are.
//!
//! Reading order: [`router`] (how a request travels) and the private `routes` (one file per resource, one line per
//! route); `extract` (requests to values), `error` (refusals to answers, the only place with their status codes), `sse`
//! (streams), `rpc` and `follow` (JSON-RPC and runs that are followed for others), `guard` and `edge` (what happens around every handler); [`serve()`] (connections).
//!
//! Invariants: credentials are checked before a body is read. Every refusal has the same shape. Nothing that a client sent
//! in a header or a body is ever logged.

mod app;
mod edge;
mod error;
mod extract;
mod follow;
mod guard;
mod html_page;
mod openapi;
mod route;
mod router;
mod routes;
mod rpc;
mod serve;
mod socket;
mod sse;
mod unread;

pub use axum::Router;

pub use app::{AdminToken, Settings};
pub use openapi::DOCUMENT as OPENAPI;
pub use router::{probe_router, route_table, router, scope_table, watch_router};
pub use serve::{listen, serve};
