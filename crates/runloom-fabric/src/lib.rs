//! Queue and wake-ups: one file or folder per technology.
//!
//! Not here: anything that must not be lost. The store knows which runs want a worker; a queue only makes finding them quick and
//! fair. The contract is `runloom_core::ports::queue`.

mod embedded;

pub use embedded::EmbeddedQueue;
