//! The driver, the worker, the hub and the use cases on the real embedded store and queue, with a scripted model.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so by failing"
)]

mod attachments;
mod cancelling;
mod fairness;
mod falling_back;
mod handover;
mod money;
mod pages;
mod panics;
mod remembering;
mod retaining;
mod retention;
mod retrying;
mod running;
mod scripted;
mod server_tools;
mod sessions;
mod stalling;
mod streams;
mod suspects;
mod tracing;
mod waiting;
mod world;
