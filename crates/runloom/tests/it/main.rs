//! The real program, on a free port, in a folder of its own.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod dev;
mod documents;
mod program;
mod registry;
mod sandbox;
mod serve;
