//! What the counting program tells the conductor, as one JSON object.

use serde::{Deserialize, Serialize};

/// Every figure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) decoders: Vec<Decoder>,
    pub(crate) encoders: Vec<Encoder>,
    /// Allocations of one event that is written as its frame.
    pub(crate) frame_allocations: f64,
}

/// A decoder on deltas of one kind.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Decoder {
    pub(crate) wire: String,
    /// Megabytes in a second.
    pub(crate) speed: f64,
    /// Of one delta.
    pub(crate) allocations: f64,
    /// Nanoseconds of a delta in answers of 1,000.
    pub(crate) short: f64,
    /// Nanoseconds of a delta in an answer of 100,000.
    pub(crate) long: f64,
}

/// An encoder on a long conversation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Encoder {
    pub(crate) kind: String,
    /// Megabytes in a second.
    pub(crate) speed: f64,
    /// Of one message.
    pub(crate) allocations: f64,
}
