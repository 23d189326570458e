//! As much HTTP/1.1 as a load driver needs, by hand, so that the driver takes little from the cores it shares with the
//! server it measures: `connection` (the client's side), `chunks` (bodies), `frames` (server-sent events), `request`
//! (the side of the scripted provider and of the fan).

mod chunks;
mod connection;
mod frames;
mod request;

pub(crate) use connection::Connection;
pub(crate) use frames::{Frame, Frames};
pub(crate) use request::Requests;

/// One chunk of a chunked body.
pub(crate) fn chunked(data: &[u8]) -> Vec<u8> {
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
