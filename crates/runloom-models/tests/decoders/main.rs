//! The decoders without HTTP: the fuzz targets on their corpus, and the memory that a delta costs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "this whole crate is a test: a panic is how it fails, and nobody outside sees it"
)]

mod corpus;
mod memory;
mod streams;
#[path = "../../../../fuzz/src/lib.rs"]
mod targets;
