//! Conversion of a spec's headers for outgoing requests.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use runloom_ports::trace::TraceParent;
use runloom_protocol::validate::is_servers_header;

use super::error::{OutboundError, Result};

/// Converts the headers of a tool ref. Values are marked sensitive, so that no log shows them.
///
/// # Errors
/// A name or a value is not valid in HTTP, or the header is set by the server itself.
pub fn spec_headers(given: &BTreeMap<String, String>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| OutboundError::blocked(format!("\"{name}\" is not a header name")))?;
        if is_servers_header(parsed.as_str()) {
            return Err(OutboundError::blocked(format!(
                "the header \"{parsed}\" is set by the server and cannot be given"
            )));
        }
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| {
            OutboundError::blocked(format!(
                "the value of header \"{parsed}\" is not a header value"
            ))
        })?;
        value.set_sensitive(true);
        headers.append(parsed, value);
    }
    Ok(headers)
}

/// Adds a `traceparent` header, unless there is one.
pub(crate) fn add_trace_header(headers: &mut HeaderMap, trace: Option<&TraceParent>) {
    let value = trace.and_then(|trace| HeaderValue::from_str(&trace.to_string()).ok());
    if let Some(value) = value {
        headers
            .entry(HeaderName::from_static("traceparent"))
            .or_insert(value);
    }
}
