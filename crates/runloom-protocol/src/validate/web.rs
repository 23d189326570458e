//! URLs and headers of remote tools.

use std::collections::BTreeMap;

use super::fields::{Fields, string, within_count};
use super::issues::Issues;
use crate::limits;

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

/// A required `http` or `https` URL with a host. Where it may lead is for the outbound guard to say.
pub(super) fn url(fields: &Fields<'_, '_>, key: &str, issues: &mut Issues) -> Option<String> {
    fields.require(key, issues)?;
    let text = fields.str(key, issues)?;
    match check_url(text) {
        Ok(()) => Some(text.to_owned()),
        Err(message) => {
            fields.refuse(key, message, issues);
            None
        }
    }
}

pub(super) fn check_url(text: &str) -> Result<(), &'static str> {
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

/// A flat map of headers; absent = none. Values never appear in a message: they are secrets.
pub(super) fn headers(fields: &Fields<'_, '_>, issues: &mut Issues) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    let Some(object) = fields.object("headers", issues) else {
        return headers;
    };
    let path = fields.path.key("headers");
    within_count(object.len(), limits::HEADERS_MAX, &path, issues);
    for (name, value) in object {
        let path = path.key(name);
        if !is_header_name(name) {
            issues.add(
                &path,
                "not a header name: expected 1 to 256 of letters, digits and !#$%&'*+-.^_`|~",
            );
        }
        let Some(value) = string(value, &path, issues) else {
            continue;
        };
        if value.len() > limits::HEADER_VALUE_MAX_BYTES {
            let (max, got) = (limits::HEADER_VALUE_MAX_BYTES, value.len());
            issues.add(
                &path,
                format_args!("must be at most {max} bytes, got {got}"),
            );
        } else if !value.bytes().all(is_header_byte) {
            issues.add(&path, "a header value must be printable ASCII in one line");
        } else {
            headers.insert(name.clone(), value.to_owned());
        }
    }
    headers
}

/// [`headers`] of a workspace's own definition, which is refused when it is written for what every run would be refused for.
pub(super) fn own_headers(
    fields: &Fields<'_, '_>,
    issues: &mut Issues,
) -> BTreeMap<String, String> {
    let headers = headers(fields, issues);
    for name in headers.keys().filter(|name| is_servers_header(name)) {
        let path = fields.path.key("headers");
        issues.add(
            &path.key(name),
            "this header is set by the server and cannot be given",
        );
    }
    headers
}

/// Whether a header belongs to the connection, not to a tool: with it a request could be smuggled past the outbound guard.
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
