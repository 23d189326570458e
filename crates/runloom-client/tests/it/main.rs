//! The client against a server of the test's own.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod requests;
mod server;
mod streams;
mod tools;
