//! The product: what a run is, how it is driven, and what clients can do with it.
//!
//! Not here: HTTP, SQL and vendors' wire formats. Those plug into the [`ports`].
//!
//! Reading order: [`run`] (the pure machine), [`ports`] (what is needed from outside), `driver` (performs the machine's steps),
//! [`worker`] (claims runs and keeps drivers), [`hub`] (live tails), [`service`] (what HTTP calls), [`metrics`] and [`trace`] (what operators watch).
//!
//! Invariants: the log is the truth and `run` is a function of it; only the holder of a run's lease writes its log; what is
//! shown is durable; every task is spawned by [`tasks`] and ends by its tokens.

pub mod bell;
pub mod catalog;
pub mod clock;
pub mod crash;
pub mod driver;
pub mod error;
mod files;
pub mod hub;
pub mod listener;
pub mod live_catalog;
pub mod metrics;
pub mod planner;
pub mod planted;
pub mod ports;
pub mod purses;
pub mod run;
pub mod schema;
pub mod secret;
pub mod service;
pub mod tasks;
mod told_again;
pub mod toolbox;
pub mod trace;
pub mod vault;
pub mod worker;
