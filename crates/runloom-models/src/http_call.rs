//! The request of one HTTP call.

use reqwest::header::HeaderMap;

use crate::payload::Payload;

/// A POST request.
pub(crate) struct HttpCall {
    /// Absolute URL.
    pub(crate) url: String,
    /// The adapter's headers; `Content-Type: application/json` is the default.
    pub(crate) headers: HeaderMap,
    /// JSON body.
    pub(crate) body: Payload,
}
