//! Architecture tests: dependencies between crates and modules, the form of files, comments and documents, and the
//! registration of adapters, providers and routes. Each failure says what to do.

#![expect(
    clippy::expect_used,
    reason = "an unreadable file is a broken checkout"
)]

mod cycles;
mod dependencies;
mod files;
mod pages;
mod purity;
mod registers;
mod sources;
mod wording;
