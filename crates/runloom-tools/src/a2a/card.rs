//! Agent cards: discovery, and the endpoints they declare.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;

use crate::outbound::{Outbound, OutboundError, OutboundRequest, Sent};

/// Timeout of fetching one card, so that a slow host does not use up the time of the call.
const CARD_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_CARD_BYTES: usize = 1024 * 1024;

/// Well-known paths of cards, newest first.
const WELL_KNOWN: &[&str] = &["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// Transport binding of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// JSON-RPC 2.0 on one URL.
    JsonRpc,
    /// HTTP+JSON below a base URL.
    Rest,
}

/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum A2aVersion {
    /// 0.2 and 0.3: `message/send`, parts with a `kind`.
    V03,
    /// 1.0: `SendMessage`, parts by field, states in capitals.
    V10,
}

/// What an endpoint's URL addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlScope {
    /// The agent.
    Agent,
    /// Its `message:send` method; found by probing.
    SendMethod,
}

/// One endpoint of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentEndpoint {
    pub(super) url: Url,
    pub(super) binding: Binding,
    pub(super) version: A2aVersion,
    /// Declared by a v1.0 card; sent with each request.
    pub(super) tenant: Option<String>,
    pub(super) scope: UrlScope,
}

impl AgentEndpoint {
    fn json_rpc(url: Url, version: A2aVersion) -> Self {
        Self {
            url,
            binding: Binding::JsonRpc,
            version,
            tenant: None,
            scope: UrlScope::Agent,
        }
    }
}

/// A card, and the URL it was fetched from, after redirects.
struct FoundCard {
    card: Value,
    url: Url,
}

/// The endpoints to try, in the documented order: those of the card, the URL as JSON-RPC root, `/rpc`, `/message:send`,
/// `/message/send`. Each is tried only after the one before reported that it does not exist.
///
/// # Errors
/// The outbound policy refuses the URL, or the host cannot be reached.
pub(super) async fn endpoints(
    outbound: &Outbound,
    card_url: &str,
    headers: &HeaderMap,
) -> Result<Vec<AgentEndpoint>, OutboundError> {
    let url = outbound.check(card_url)?;
    let base = base_of(&url);
    let mut found = match find(outbound, &url, &base, headers).await? {
        Some(found) => declared(&found.card, &found.url),
        None => Vec::new(),
    };
    for version in [A2aVersion::V03, A2aVersion::V10] {
        found.push(AgentEndpoint::json_rpc(base.clone(), version));
    }
    for version in [A2aVersion::V03, A2aVersion::V10] {
        found.push(AgentEndpoint::json_rpc(append_path(&base, "/rpc"), version));
    }
    for path in ["/message:send", "/message/send"] {
        found.push(AgentEndpoint {
            binding: Binding::Rest,
            scope: UrlScope::SendMethod,
            ..AgentEndpoint::json_rpc(append_path(&base, path), A2aVersion::V03)
        });
    }
    let mut unique: Vec<AgentEndpoint> = Vec::with_capacity(found.len());
    for endpoint in found {
        if !unique.contains(&endpoint) {
            unique.push(endpoint);
        }
    }
    Ok(unique)
}

/// Looks for the card at the given URL, then at the well-known paths; `None` when there is none.
async fn find(
    outbound: &Outbound,
    url: &Url,
    base: &Url,
    headers: &HeaderMap,
) -> Result<Option<FoundCard>, OutboundError> {
    let mut candidates = vec![url.clone()];
    for path in WELL_KNOWN {
        candidates.push(append_path(base, path));
    }
    for path in WELL_KNOWN {
        let mut root = base.clone();
        root.set_path(path);
        root.set_query(None);
        candidates.push(root);
    }
    let mut tried: Vec<Url> = Vec::new();
    for url in candidates {
        if tried.contains(&url) {
            continue;
        }
        match fetch(outbound, &url, headers).await {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            // A host that is blocked or unreachable has no other card either.
            Err(
                error @ (OutboundError::Blocked { .. }
                | OutboundError::Network { sent: Sent::No, .. }),
            ) => {
                return Err(error);
            }
            Err(OutboundError::Timeout { .. }) => return Ok(None),
            Err(error) => tracing::debug!(%error, "agent card not found"),
        }
        tried.push(url);
    }
    Ok(None)
}

async fn fetch(
    outbound: &Outbound,
    url: &Url,
    headers: &HeaderMap,
) -> Result<Option<FoundCard>, OutboundError> {
    let mut headers = headers.clone();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let request = OutboundRequest::new(Method::GET, url.clone())
        .headers(headers)
        .within(CARD_TIMEOUT)
        .at_most(MAX_CARD_BYTES);
    let response = outbound.send(request).await?;
    // An event stream is not a card and might never end.
    if !response.status().is_success()
        || response.media_type().as_deref() == Some("text/event-stream")
    {
        return Ok(None);
    }
    let url = response.url().clone();
    let body = response.bytes().await?;
    let card: Option<Value> = serde_json::from_slice(&body).ok();
    Ok(card.filter(is_card).map(|card| FoundCard { card, url }))
}

fn is_card(value: &Value) -> bool {
    let declares = ["url", "supportedInterfaces", "additionalInterfaces"];
    value.get("name").is_some_and(Value::is_string)
        && declares.iter().any(|field| value.get(field).is_some())
}

/// The supported endpoints of a card, in the card's order of preference.
fn declared(card: &Value, card_url: &Url) -> Vec<AgentEndpoint> {
    let mut endpoints = Vec::new();
    let interfaces = |field: &str| {
        let list = card.get(field).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    for interface in interfaces("supportedInterfaces") {
        let version = text(interface, "protocolVersion").or_else(|| text(card, "protocolVersion"));
        let binding = text(interface, "protocolBinding").or_else(|| text(interface, "transport"));
        let version = parse_version(version, A2aVersion::V10);
        let tenant = text(interface, "tenant").filter(|tenant| !tenant.is_empty());
        endpoints.extend(
            endpoint(interface, binding, version, card_url).map(|endpoint| AgentEndpoint {
                tenant: tenant.map(str::to_owned),
                ..endpoint
            }),
        );
    }
    let version = parse_version(text(card, "protocolVersion"), A2aVersion::V03);
    let preferred = text(card, "preferredTransport");
    endpoints.extend(endpoint(card, preferred, version, card_url));
    for interface in interfaces("additionalInterfaces") {
        let transport = text(interface, "transport");
        endpoints.extend(endpoint(interface, transport, version, card_url));
    }
    endpoints
}

fn endpoint(
    interface: &Value,
    binding: Option<&str>,
    version: A2aVersion,
    card_url: &Url,
) -> Option<AgentEndpoint> {
    let binding = match binding.map(str::to_ascii_uppercase).as_deref() {
        None | Some("JSONRPC" | "JSON-RPC") => Binding::JsonRpc,
        Some("HTTP+JSON" | "HTTP_JSON" | "REST") => Binding::Rest,
        Some(_) => return None,
    };
    let url = card_url.join(text(interface, "url")?).ok()?;
    // A card fetched over https must not lead to plain http.
    if card_url.scheme() == "https" && url.scheme() != "https" {
        return None;
    }
    Some(AgentEndpoint {
        binding,
        ..AgentEndpoint::json_rpc(url, version)
    })
}

fn parse_version(version: Option<&str>, default: A2aVersion) -> A2aVersion {
    match version.map(|version| version.trim_start_matches('v')) {
        Some(version) if version.starts_with("0.") => A2aVersion::V03,
        Some(version) if version.starts_with(|c: char| ('1'..='9').contains(&c)) => A2aVersion::V10,
        _ => default,
    }
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str()
}

/// The agent's base URL: the card's URL without a well-known path.
fn base_of(url: &Url) -> Url {
    let mut base = url.clone();
    let path = url.path();
    if let Some(start) = path.find("/.well-known/") {
        let kept = path[..start].to_owned();
        base.set_path(&kept);
        base.set_query(None);
    }
    base.set_fragment(None);
    base
}

/// Appends to the path of a URL and keeps its query.
pub(super) fn append_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let kept = base.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{kept}{path}"));
    url
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card_url() -> Url {
        Url::parse("https://agents.example/a/.well-known/agent-card.json").unwrap()
    }

    #[test]
    fn reads_the_endpoints_of_both_versions() {
        let old = json!({"name": "a", "url": "https://agents.example/a", "protocolVersion": "0.3.0",
            "preferredTransport": "HTTP+JSON",
            "additionalInterfaces": [{"url": "https://agents.example/rpc", "transport": "JSONRPC"},
                                     {"url": "https://agents.example/grpc", "transport": "GRPC"}]});
        let found = declared(&old, &card_url());
        let kinds: Vec<_> = found.iter().map(|e| (e.binding, e.version)).collect();
        assert_eq!(
            kinds,
            [
                (Binding::Rest, A2aVersion::V03),
                (Binding::JsonRpc, A2aVersion::V03)
            ]
        );
        let new = json!({"name": "a", "supportedInterfaces": [
            {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
            {"url": "/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}]});
        let found = declared(&new, &card_url());
        assert_eq!(found[0].url.as_str(), "https://agents.example/rpc");
        assert_eq!(found[0].version, A2aVersion::V10);
        assert_eq!(found[0].tenant.as_deref(), Some("t"));
        assert_eq!(found[1].version, A2aVersion::V03);
    }

    #[test]
    fn derives_the_base_url_from_the_card_url() {
        assert_eq!(base_of(&card_url()).as_str(), "https://agents.example/a");
        let root = Url::parse("https://agents.example/").unwrap();
        assert_eq!(
            append_path(&root, "/rpc").as_str(),
            "https://agents.example/rpc"
        );
        let query = Url::parse("https://agents.example/x?k=1").unwrap();
        assert_eq!(
            append_path(&query, "/rpc").as_str(),
            "https://agents.example/x/rpc?k=1"
        );
    }
}
