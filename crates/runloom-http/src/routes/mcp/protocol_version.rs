//! The MCP revision of a request: with a handshake, or stateless.
//!
//! Up to 2025-11-25 a client sends `initialize`, gets a session id, and cancels by a notification. From 2026-07-28 on
//! every request names its revision, and a client cancels by closing the response.

use axum::http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::rpc::{Fault, INVALID_PARAMS, INVALID_REQUEST};

/// Revisions with a handshake, oldest first.
const WITH_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The newest of them.
const LATEST_WITH_HANDSHAKE: &str = "2025-11-25";

/// Stateless revisions.
const WITHOUT_HANDSHAKE: [&str; 1] = ["2026-07-28"];

/// The headers contradict the body.
const HEADER_MISMATCH: i64 = -32020;
/// Unsupported revision.
const UNSUPPORTED_VERSION: i64 = -32022;

/// Maximum length of a session id.
const SESSION_MAX_BYTES: usize = 128;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The revision that the headers of a request name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProtocolVersion {
    /// With a handshake.
    Handshake {
        /// The session id from `initialize`; a client that does not repeat it cannot cancel.
        session: Option<String>,
        /// Whether the client accepts an event without a message, which carries the event id to resume from.
        primed: bool,
    },
    /// Stateless.
    Modern,
}

impl ProtocolVersion {
    /// Reads the headers.
    ///
    /// # Errors
    /// The revision is unsupported, or the session id malformed.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Fault> {
        let version = match headers.get("mcp-protocol-version") {
            None => None,
            Some(version) => Some(version.to_str().unwrap_or("?")),
        };
        match version {
            Some(version) if WITHOUT_HANDSHAKE.contains(&version) => Ok(Self::Modern),
            Some(version) if !WITH_HANDSHAKE.contains(&version) => Err(unsupported(version)),
            version => Ok(Self::Handshake {
                session: session(headers)?,
                primed: version == Some(LATEST_WITH_HANDSHAKE),
            }),
        }
    }

    /// Whether the client cancels by closing the response.
    pub(super) fn closing_cancels(&self) -> bool {
        *self == Self::Modern
    }

    /// Checks the metadata of a stateless request. Proxies may route by its headers, so they must match the body.
    ///
    /// # Errors
    /// Missing or contradictory metadata.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<(), Fault> {
        if *self != Self::Modern {
            return Ok(());
        }
        let meta = params.get("_meta").and_then(Value::as_object);
        let missing: Vec<&str> = [VERSION_KEY, CAPABILITIES_KEY]
            .into_iter()
            .filter(|key| meta.is_none_or(|meta| !meta.contains_key(*key)))
            .collect();
        if !missing.is_empty() {
            let words = format!("`params._meta` lacks {}.", missing.join(", "));
            return Err(Fault::new(INVALID_PARAMS, words));
        }
        let version = meta.and_then(|meta| meta.get(VERSION_KEY)?.as_str());
        let name = match method {
            "tools/call" => params.get("name").and_then(Value::as_str),
            _ => None,
        };
        let pairs = [
            ("mcp-protocol-version", version),
            ("mcp-method", Some(method)),
            ("mcp-name", name),
        ];
        for (header, said) in pairs {
            let mut sent = headers.get_all(header).iter();
            let (first, second) = (sent.next(), sent.next());
            let first = first.and_then(|value| value.to_str().ok());
            let needed = header != "mcp-name" || name.is_some();
            if second.is_some() || (needed && first != said) {
                let words = format!(
                    "The header `{header}` must be there once and say the same as the body."
                );
                return Err(Fault::new(HEADER_MISMATCH, words));
            }
        }
        Ok(())
    }
}

/// The revision of a handshake: the client's, if it is supported.
pub(super) fn agreed(asked: Option<&str>) -> &'static str {
    let known = WITH_HANDSHAKE
        .into_iter()
        .find(|known| Some(*known) == asked);
    known.unwrap_or(LATEST_WITH_HANDSHAKE)
}

/// Every supported revision.
pub(super) fn supported() -> Vec<&'static str> {
    let modern = WITHOUT_HANDSHAKE.into_iter();
    modern.chain(WITH_HANDSHAKE.into_iter().rev()).collect()
}

fn unsupported(version: &str) -> Fault {
    let shown: String = version.chars().take(64).collect();
    let data = json!({"supported": supported(), "requested": shown});
    Fault::new(UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(data)
}

fn session(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let Some(value) = headers.get("mcp-session-id") else {
        return Ok(None);
    };
    let fits = (1..=SESSION_MAX_BYTES).contains(&value.len());
    match value.to_str() {
        Ok(name) if fits => Ok(Some(name.to_owned())),
        _ => {
            let words = "`Mcp-Session-Id` is none of this server's.";
            Err(Fault::new(INVALID_REQUEST, words))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, axum::http::HeaderValue::from_static(value))
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn reads_the_revision_from_the_header() {
        let none = ProtocolVersion::Handshake {
            session: None,
            primed: false,
        };
        assert_eq!(ProtocolVersion::of(&headers(&[])), Ok(none.clone()));
        let old = headers(&[("mcp-protocol-version", "2025-03-26")]);
        assert_eq!(ProtocolVersion::of(&old), Ok(none));
        let newest = headers(&[
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-session-id", "s"),
        ]);
        let session = ProtocolVersion::Handshake {
            session: Some("s".to_owned()),
            primed: true,
        };
        assert_eq!(ProtocolVersion::of(&newest), Ok(session));
        let modern = headers(&[("mcp-protocol-version", "2026-07-28")]);
        assert_eq!(ProtocolVersion::of(&modern), Ok(ProtocolVersion::Modern));
        let unknown = ProtocolVersion::of(&headers(&[("mcp-protocol-version", "2031-01-01")]));
        let fault = unknown.unwrap_err();
        assert_eq!(fault.code, UNSUPPORTED_VERSION);
        assert_eq!(fault.data.unwrap()["supported"][0], "2026-07-28");
    }

    #[test]
    fn handshake_selects_a_common_revision() {
        assert_eq!(agreed(Some("2025-03-26")), "2025-03-26");
        assert_eq!(agreed(Some("1999-01-01")), "2025-11-25");
        assert_eq!(agreed(None), "2025-11-25");
    }

    #[test]
    fn checks_headers_against_the_body() {
        let meta = json!({VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}});
        let params = json!({"_meta": meta, "name": "support"});
        let params = params.as_object().unwrap();
        let check = |pairs: &[(&'static str, &'static str)]| {
            let checked = ProtocolVersion::Modern.check(&headers(pairs), "tools/call", params);
            checked.map_err(|fault| fault.code)
        };
        let version = ("mcp-protocol-version", "2026-07-28");
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "support"));
        assert_eq!(check(&[version, method, name]), Ok(()));
        for wrong in [
            vec![version, name],
            vec![version, method],
            vec![version, method, ("mcp-name", "other")],
            vec![version, ("mcp-method", "tools/list"), name],
            vec![version, version, method, name],
        ] {
            assert_eq!(check(&wrong), Err(HEADER_MISMATCH), "{wrong:?}");
        }
        let bare =
            ProtocolVersion::Modern.check(&headers(&[version, method]), "tools/list", &Map::new());
        assert_eq!(bare.unwrap_err().code, INVALID_PARAMS);
    }
}
