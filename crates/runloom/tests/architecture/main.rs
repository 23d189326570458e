//! The shape of the code, as tests: who may depend on whom, what a file may look like, and that
//! every adapter, provider and route is registered. A rule here is told with its reason, so that a
//! failure reads as advice.

#![expect(
    clippy::expect_used,
    reason = "what cannot be read here is a broken checkout, and the test says so"
)]

mod cycles;
mod dependencies;
mod files;
mod pages;
mod purity;
mod registers;
mod sources;
