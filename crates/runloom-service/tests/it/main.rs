//! The driver, the worker, the hub and the use cases on the real embedded store and queue, with a scripted model.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so by failing"
)]

mod ag_ui;
mod approvals;
mod attachments;
mod cancels;
mod client_tools;
mod crash_suspects;
mod deferring;
mod delegates;
mod fairness;
mod fallback;
mod handover;
mod histories;
mod interrupts;
mod memories;
mod money;
mod pages;
mod panics;
mod retained_results;
mod retention;
mod retries;
mod runs;
mod scripted;
mod server_tools;
mod sessions;
mod streams;
mod tracing;
mod world;
