//! Agent cards: where they lie, and which endpoints they declare.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;

use crate::outbound::{Outbound, OutboundError, OutboundRequest};

/// One card; a slow host of a card must not eat the time of the call.
const CARD_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_CARD_BYTES: usize = 1024 * 1024;

/// Where cards lie below an agent's address, newest place first.
const WELL_KNOWN: &[&str] = &["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// How a request is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// JSON-RPC 2.0 on one URL.
    JsonRpc,
    /// HTTP+JSON below a base URL.
    Rest,
}

/// Which generation of the protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    /// 0.2 and 0.3: `message/send`, parts with a `kind`.
    V03,
    /// 1.0: `SendMessage`, parts by field, states in capitals.
    V10,
}

/// One address to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) binding: Binding,
    pub(super) generation: Generation,
    /// Declared by a v1.0 card; sent back with each request.
    pub(super) tenant: Option<String>,
    /// The URL is the address of `message:send` itself, found by probing.
    pub(super) exact: bool,
}

impl Endpoint {
    fn rpc(url: Url, generation: Generation) -> Self {
        Self {
            url,
            binding: Binding::JsonRpc,
            generation,
            tenant: None,
            exact: false,
        }
    }
}

/// The addresses to try, in the documented order: what the card declares, the URL as JSON-RPC root, `/rpc`, `/message:send`,
/// `/message/send`. Each is tried only after the one before said that it is not there.
///
/// # Errors
/// The URL is refused by the guard; no address is left to try.
pub(super) async fn endpoints(
    outbound: &Outbound,
    given: &str,
    headers: &HeaderMap,
) -> Result<Vec<Endpoint>, OutboundError> {
    let url = outbound.check(given)?;
    let base = base_of(&url);
    let mut found = match find(outbound, &url, &base, headers).await? {
        Some((card, at)) => declared(&card, &at),
        None => Vec::new(),
    };
    for generation in [Generation::V03, Generation::V10] {
        found.push(Endpoint::rpc(base.clone(), generation));
    }
    for generation in [Generation::V03, Generation::V10] {
        found.push(Endpoint::rpc(below(&base, "/rpc"), generation));
    }
    for path in ["/message:send", "/message/send"] {
        found.push(Endpoint {
            binding: Binding::Rest,
            exact: true,
            ..Endpoint::rpc(below(&base, path), Generation::V03)
        });
    }
    let mut unique: Vec<Endpoint> = Vec::with_capacity(found.len());
    for endpoint in found {
        if !unique.contains(&endpoint) {
            unique.push(endpoint);
        }
    }
    Ok(unique)
}

/// The card and where it lay; `None` when there is none.
async fn find(
    outbound: &Outbound,
    url: &Url,
    base: &Url,
    headers: &HeaderMap,
) -> Result<Option<(Value, Url)>, OutboundError> {
    let mut places = vec![url.clone()];
    for path in WELL_KNOWN {
        places.push(below(base, path));
    }
    for path in WELL_KNOWN {
        let mut root = base.clone();
        root.set_path(path);
        root.set_query(None);
        places.push(root);
    }
    let mut tried: Vec<Url> = Vec::new();
    for place in places {
        if tried.contains(&place) {
            continue;
        }
        match fetch(outbound, &place, headers).await {
            Ok(Some(card)) => return Ok(Some((card, place))),
            Ok(None) => {}
            // A host that cannot be reached, or may not be, has no other card either.
            Err(
                error @ (OutboundError::Blocked { .. }
                | OutboundError::Network { unsent: true, .. }),
            ) => {
                return Err(error);
            }
            Err(OutboundError::Timeout { .. }) => return Ok(None),
            Err(error) => tracing::debug!(%error, "no agent card here"),
        }
        tried.push(place);
    }
    Ok(None)
}

async fn fetch(
    outbound: &Outbound,
    place: &Url,
    headers: &HeaderMap,
) -> Result<Option<Value>, OutboundError> {
    let mut headers = headers.clone();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let request = OutboundRequest::new(Method::GET, place.clone())
        .headers(headers)
        .within(CARD_TIMEOUT)
        .at_most(MAX_CARD_BYTES);
    let response = outbound.send(request).await?;
    // A stream of events is the answer of something else, and might never end.
    if !response.status().is_success()
        || response.media_type().as_deref() == Some("text/event-stream")
    {
        return Ok(None);
    }
    let body = response.bytes().await?;
    let card: Option<Value> = serde_json::from_slice(&body).ok();
    Ok(card.filter(is_card))
}

fn is_card(value: &Value) -> bool {
    let declares = ["url", "supportedInterfaces", "additionalInterfaces"];
    value.get("name").is_some_and(Value::is_string)
        && declares.iter().any(|field| value.get(field).is_some())
}

/// The endpoints of a card that we can speak to, in the card's order of preference.
pub(super) fn declared(card: &Value, at: &Url) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    let interfaces = |field: &str| {
        let list = card.get(field).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    for interface in interfaces("supportedInterfaces") {
        let version = text(interface, "protocolVersion").or_else(|| text(card, "protocolVersion"));
        let binding = text(interface, "protocolBinding").or_else(|| text(interface, "transport"));
        let generation = generation(version, Generation::V10);
        let tenant = text(interface, "tenant").filter(|tenant| !tenant.is_empty());
        endpoints.extend(
            endpoint(interface, binding, generation, at).map(|endpoint| Endpoint {
                tenant: tenant.map(str::to_owned),
                ..endpoint
            }),
        );
    }
    let version = generation(text(card, "protocolVersion"), Generation::V03);
    let preferred = text(card, "preferredTransport");
    endpoints.extend(endpoint(card, preferred, version, at));
    for interface in interfaces("additionalInterfaces") {
        endpoints.extend(endpoint(
            interface,
            text(interface, "transport"),
            version,
            at,
        ));
    }
    endpoints
}

fn endpoint(
    declares: &Value,
    binding: Option<&str>,
    generation: Generation,
    at: &Url,
) -> Option<Endpoint> {
    let binding = match binding.map(str::to_ascii_uppercase).as_deref() {
        None | Some("JSONRPC" | "JSON-RPC") => Binding::JsonRpc,
        Some("HTTP+JSON" | "HTTP_JSON" | "REST") => Binding::Rest,
        Some(_) => return None,
    };
    let url = at.join(text(declares, "url")?).ok()?;
    // The spec's headers go to the declared endpoint: never from an encrypted card into the open.
    if at.scheme() == "https" && url.scheme() != "https" {
        return None;
    }
    Some(Endpoint {
        url,
        binding,
        generation,
        tenant: None,
        exact: false,
    })
}

fn generation(version: Option<&str>, otherwise: Generation) -> Generation {
    match version.map(|version| version.trim_start_matches('v')) {
        Some(version) if version.starts_with("0.") => Generation::V03,
        Some(version) if version.starts_with(|c: char| ('1'..='9').contains(&c)) => Generation::V10,
        _ => otherwise,
    }
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str()
}

/// The agent's address: the URL without a well-known ending.
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

/// The URL with more path after it; its query stays.
pub(super) fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let kept = base.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{kept}{path}"));
    url
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at() -> Url {
        Url::parse("https://agents.example/a/.well-known/agent-card.json").unwrap()
    }

    #[test]
    fn a_card_of_each_generation_declares_its_endpoints() {
        let old = json!({"name": "a", "url": "https://agents.example/a", "protocolVersion": "0.3.0",
            "preferredTransport": "HTTP+JSON",
            "additionalInterfaces": [{"url": "https://agents.example/rpc", "transport": "JSONRPC"},
                                     {"url": "https://agents.example/grpc", "transport": "GRPC"}]});
        let found = declared(&old, &at());
        let kinds: Vec<_> = found.iter().map(|e| (e.binding, e.generation)).collect();
        assert_eq!(
            kinds,
            [
                (Binding::Rest, Generation::V03),
                (Binding::JsonRpc, Generation::V03)
            ]
        );
        let new = json!({"name": "a", "supportedInterfaces": [
            {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
            {"url": "/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}]});
        let found = declared(&new, &at());
        assert_eq!(found[0].url.as_str(), "https://agents.example/rpc");
        assert_eq!(found[0].generation, Generation::V10);
        assert_eq!(found[0].tenant.as_deref(), Some("t"));
        assert_eq!(found[1].generation, Generation::V03);
    }

    #[test]
    fn the_agents_address_is_the_card_url_without_its_ending() {
        assert_eq!(base_of(&at()).as_str(), "https://agents.example/a");
        let root = Url::parse("https://agents.example/").unwrap();
        assert_eq!(below(&root, "/rpc").as_str(), "https://agents.example/rpc");
        let query = Url::parse("https://agents.example/x?k=1").unwrap();
        assert_eq!(
            below(&query, "/rpc").as_str(),
            "https://agents.example/x/rpc?k=1"
        );
    }
}
