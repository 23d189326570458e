//! The sockets that adapters plug into, one trait per file, and what they speak of. Each trait's documentation is the contract its
//! implementers keep; the contract tests of the adapters' crates check it.

pub mod bus;
pub mod catalog;
pub mod conversation;
pub mod file;
pub mod model;
pub mod queue;
pub mod store;
pub mod tools;
pub mod trace;
pub mod windows;
