//! Traits that adapters implement, and the neutral types that they exchange with the engine and the service.
//!
//! Each trait's documentation is the contract of its implementations; the contract tests of the adapter crates check
//! it. Nothing here knows HTTP, SQL or the wire format of a vendor.

pub mod agents;
pub mod bus;
pub mod call_policy;
pub mod clock;
pub mod conversation;
pub mod crash;
pub mod effect;
pub mod error;
pub mod file;
pub mod instruments;
pub mod memory;
pub mod message;
pub mod model;
pub mod planted;
pub mod project;
pub mod queue;
pub mod sealer;
pub mod secret;
pub mod shutdown;
pub mod store;
pub mod tasks;
pub mod tools;
pub mod trace;
pub mod windows;
