//! The driver, the worker, the hub and the use cases on the real embedded store and queue, with a scripted model.

mod cancelling;
mod handover;
mod panics;
mod retrying;
mod running;
mod scripted;
mod sessions;
mod streams;
mod waiting;
mod world;
