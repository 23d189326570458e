//! URLs and headers of remote tools.

use std::collections::BTreeMap;

use crate::limits;
use crate::read::{Fields, Node};

/// Headers that belong to the connection.
const SERVERS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A required `http` or `https` URL.
pub(crate) fn required_url(fields: &Fields<'_, '_>, key: &'static str) -> Option<String> {
    url(&fields.require(key)?)
}

/// An `http` or `https` URL with a host. Whether the server may connect to it is decided by the outbound guard.
pub(crate) fn url(node: &Node<'_, '_>) -> Option<String> {
    let text = node.string()?;
    match check_url(text) {
        Ok(()) => Some(text.to_owned()),
        Err(message) => {
            node.refuse(message);
            None
        }
    }
}

pub(crate) fn check_url(text: &str) -> Result<(), &'static str> {
    if text.len() > limits::URL_MAX_BYTES {
        return Err("must be at most 4096 bytes");
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err("must not contain spaces, control characters or backslashes");
    }
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("expected an http:// or https:// URL")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err("expected an http:// or https:// URL");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        // A spec is shown in snapshots; only headers are sealed.
        return Err("must not contain a user name or password; put credentials into `headers`");
    }
    check_authority(authority)
}

fn check_authority(authority: &str) -> Result<(), &'static str> {
    let (host, port) = if let Some(bracketed) = authority.strip_prefix('[') {
        let (inside, after) = bracketed
            .split_once(']')
            .ok_or("the IPv6 address has no closing bracket")?;
        inside
            .parse::<std::net::Ipv6Addr>()
            .map_err(|_| "the host in brackets is not an IPv6 address")?;
        (inside, after)
    } else {
        authority.split_at(authority.find(':').unwrap_or(authority.len()))
    };
    if host.is_empty() {
        return Err("the URL has no host");
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => return Ok(()),
        None => return Err("unexpected text after the host"),
        Some(port) => port,
    };
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    if digits && port.parse::<u16>().is_ok() {
        Ok(())
    } else {
        Err("the port must be a number from 0 to 65535")
    }
}

/// The `headers` of a ref; none when absent.
pub(crate) fn headers(fields: &Fields<'_, '_>) -> BTreeMap<String, String> {
    checked_headers(fields, |_, _| {})
}

/// The `headers` of a definition. Headers that every run would be refused for are refused when the definition is
/// written.
pub(crate) fn definition_headers(fields: &Fields<'_, '_>) -> BTreeMap<String, String> {
    checked_headers(fields, refuse_servers_header)
}

/// A flat map of headers, each with a further check. Values never appear in a message: they are secrets.
pub(crate) fn checked_headers(
    fields: &Fields<'_, '_>,
    check: impl Fn(&str, &Node<'_, '_>),
) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    let Some(node) = fields.get("headers") else {
        return headers;
    };
    let Some(fields) = node.fields() else {
        return headers;
    };
    node.has_entries_within(fields.object().len(), limits::HEADERS_MAX);
    for (name, node) in fields.entries() {
        if !is_header_name(name) {
            let wanted = "expected 1 to 256 of letters, digits and !#$%&'*+-.^_`|~";
            node.refuse(format_args!("not a header name: {wanted}"));
        }
        let Some(value) = node.string() else {
            continue;
        };
        let (max, got) = (limits::HEADER_VALUE_MAX_BYTES, value.len());
        if got > max {
            node.refuse(format_args!("must be at most {max} bytes, got {got}"));
        } else if !value.bytes().all(is_header_byte) {
            node.refuse("a header value must be printable ASCII in one line");
        } else {
            check(name, &node);
            headers.insert(name.to_owned(), value.to_owned());
        }
    }
    headers
}

/// Refuses a header that belongs to the connection.
pub(crate) fn refuse_servers_header(name: &str, node: &Node<'_, '_>) {
    if is_servers_header(name) {
        node.refuse("this header is set by the server and cannot be given");
    }
}

/// Whether a header belongs to the connection, not to a tool: a tool that set it could smuggle a request past the
/// outbound guard.
#[must_use]
pub fn is_servers_header(name: &str) -> bool {
    SERVERS.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

/// RFC 9110 `token`.
fn is_header_name(name: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.len() <= limits::HEADER_NAME_MAX_BYTES && name.bytes().all(token)
}

fn is_header_byte(b: u8) -> bool {
    b == b'\t' || (b' '..=b'~').contains(&b)
}
