//! The operator's list of hosts that may be reached at any address.

use std::net::Ipv6Addr;

use super::error::{OutboundError, Result};

/// One entry of `allow_hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern {
    /// Lower case, without a trailing dot; an IPv6 address in one canonical form.
    host: String,
    scope: HostScope,
    port: Option<u16>,
}

/// The names that a pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostScope {
    /// The host itself.
    Exact,
    /// `*.host`: every subdomain, not the host itself.
    Subdomains,
}

impl HostPattern {
    /// Parses `host`, `host:port`, `*.host`, `*.host:port`, `[v6]`, `[v6]:port`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            OutboundError::blocked(format!(
                "\"{text}\" in allow_hosts is not a host; write \"host\", \"host:port\" or \"*.internal.example\""
            ))
        };
        let (scope, rest) = match text.trim().strip_prefix("*.") {
            Some(rest) => (HostScope::Subdomains, rest),
            None => (HostScope::Exact, text.trim()),
        };
        let (host, port) = split_port(rest).ok_or_else(wrong)?;
        let host = normalize(host);
        if host.is_empty() || host.contains(['/', '*', '@', ' ', '?', '#']) {
            return Err(wrong());
        }
        Ok(Self { host, scope, port })
    }

    /// Whether the pattern matches a host, which is in the URL parser's canonical form.
    pub(super) fn matches(&self, host: &str, port: u16) -> bool {
        if self.port.is_some_and(|wanted| wanted != port) {
            return false;
        }
        let host = normalize(host);
        match self.scope {
            HostScope::Exact => host == self.host,
            HostScope::Subdomains => host
                .strip_suffix(&self.host)
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

fn normalize(host: &str) -> String {
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .trim_end_matches('.')
        .to_ascii_lowercase();
    match host.parse::<Ipv6Addr>() {
        // The operator may have written an IPv6 address in another form than the URL parser.
        Ok(address) => format!("[{:032x}]", address.to_bits()),
        Err(_) => host,
    }
}

fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(end) = text.find(']') {
        let (host, rest) = text.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        // More than one colon without brackets is a bare IPv6 address.
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_hosts_and_ports() {
        let table = [
            ("127.0.0.1", "127.0.0.1", 80, true),
            ("127.0.0.1:9000", "127.0.0.1", 9000, true),
            ("127.0.0.1:9000", "127.0.0.1", 9001, false),
            ("Docs.Example", "docs.example", 443, true),
            ("docs.example", "docs.example.", 443, true),
            ("docs.example", "evil-docs.example", 443, false),
            ("*.internal.example", "a.internal.example", 443, true),
            ("*.internal.example", "a.b.internal.example", 443, true),
            ("*.internal.example", "internal.example", 443, false),
            ("*.internal.example", "evilinternal.example", 443, false),
            ("*.internal.example:8443", "a.internal.example", 443, false),
            ("[::1]:9000", "[::1]", 9000, true),
            ("::1", "[::1]", 9000, true),
            ("[FD00:0:0:0::1]", "[fd00::1]", 80, true),
            ("[::127.0.0.1]:80", "[::7f00:1]", 80, true),
            ("[::127.0.0.1]:80", "[::7f00:2]", 80, false),
        ];
        for (pattern, host, port, expected) in table {
            let parsed = HostPattern::parse(pattern).unwrap();
            assert_eq!(
                parsed.matches(host, port),
                expected,
                "{pattern} {host}:{port}"
            );
        }
    }

    #[test]
    fn rejects_invalid_patterns() {
        for text in ["", "*", "http://a", "a:b", "a/b", "a:70000", "*.*"] {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }
}
