//! The figures that `runloom-bench-codecs` prints as one JSON object.

use serde::{Deserialize, Serialize};

/// All figures.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) decoders: Vec<Decoder>,
    pub(crate) encoders: Vec<Encoder>,
    pub(crate) allocations_per_frame: f64,
}

/// A provider's stream decoder on deltas of one kind.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Decoder {
    pub(crate) name: String,
    pub(crate) mb_per_second: f64,
    pub(crate) allocations_per_delta: f64,
    /// Nanoseconds per delta in responses of 1,000 deltas.
    pub(crate) short_ns: f64,
    /// Nanoseconds per delta in a response of 100,000 deltas.
    pub(crate) long_ns: f64,
}

/// A provider's request encoder on a long conversation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Encoder {
    pub(crate) kind: String,
    pub(crate) mb_per_second: f64,
    pub(crate) allocations_per_message: f64,
}
