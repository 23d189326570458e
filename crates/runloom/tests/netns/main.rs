//! Attacks on the outbound guard in a network of their own, where every address there is leads to a listener: the
//! kernel counts the attempts to connect, so that nothing that gets out stays unseen.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]

mod controls;
mod corpus;
mod detours;
mod direct;
mod entries;
mod network;
mod witness;
