//! A minimal HTTP/1.1 written by hand, so that the load generator takes little CPU from the server it measures:
//! `connection` (client side), `chunked` (bodies), `sse` (server-sent events), `request` (server side, for the
//! scripted provider and the broadcast floor).

mod chunked;
mod connection;
mod request;
mod sse;

pub(crate) use connection::{Connection, ResponseHead};
pub(crate) use request::RequestReader;
pub(crate) use sse::{SseEvent, SseParser};

/// Frames `data` as one chunk of a chunked body.
pub(crate) fn encode_chunk(data: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
    out
}

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The value of a header in a raw head, by its lower-case name.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
