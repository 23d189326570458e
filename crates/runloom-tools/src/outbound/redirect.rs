//! Redirects: their target, and the parts of the request that are sent there.

use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Method, StatusCode, Url};

use super::error::{OutboundError, Result};
use super::{MethodChange, OutboundRequest};

/// Headers that are sent to another origin. All others may be secrets of the spec, whatever their names.
const CROSS_ORIGIN_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "content-type",
    "user-agent",
    "a2a-version",
    "mcp-protocol-version",
];

/// The target of a redirect; `None` when the response is not one.
pub(super) fn target(status: StatusCode, headers: &HeaderMap, at: &Url) -> Result<Option<Url>> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(header::LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    let text = location.to_str().map_err(|_| OutboundError::Redirects {
        why: "its location is not text".to_owned(),
    })?;
    let next = at.join(text).map_err(|_| OutboundError::Redirects {
        why: "its location is not a URL".to_owned(),
    })?;
    if at.scheme() == "https" && next.scheme() == "http" {
        return Err(OutboundError::Redirects {
            why: "it leads from https to http".to_owned(),
        });
    }
    Ok(Some(next))
}

/// Whether a redirect leads from `http://host` to `https://host`, both at their default ports.
fn is_https_upgrade(from: &Url, to: &Url) -> bool {
    let has_default_port = |url: &Url| url.port().is_none();
    (from.scheme(), to.scheme()) == ("http", "https")
        && from.host() == to.host()
        && has_default_port(from)
        && has_default_port(to)
}

/// The request that is sent to the redirect's target.
pub(super) fn follow(
    mut request: OutboundRequest,
    status: StatusCode,
    to: Url,
) -> Result<OutboundRequest> {
    let keeps_method = matches!(status.as_u16(), 307 | 308)
        || matches!(request.method, Method::GET | Method::HEAD);
    if !keeps_method {
        if request.method_change == MethodChange::Refuse {
            return Err(OutboundError::Redirects {
                why: format!(
                    "status {status} would turn the {} into a GET",
                    request.method
                ),
            });
        }
        request.method = Method::GET;
        request.body = None;
        request.headers.remove(header::CONTENT_TYPE);
    }
    let (from_origin, to_origin) = (request.url.origin(), to.origin());
    if from_origin != to_origin {
        // The body may hold secrets for the original peer, so only that peer's own https address gets it.
        if request.body.is_some() && !is_https_upgrade(&request.url, &to) {
            return Err(OutboundError::Redirects {
                why: format!(
                    "it leads from {} to {}, and a request with a body is not sent to another origin",
                    from_origin.ascii_serialization(),
                    to_origin.ascii_serialization()
                ),
            });
        }
        let mut kept = HeaderMap::new();
        for name in CROSS_ORIGIN_HEADERS {
            if let Some(value) = request.headers.get(*name) {
                kept.insert(HeaderName::from_static(name), value.clone());
            }
        }
        request.headers = kept;
    }
    request.url = to;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn sends_a_body_only_to_its_origin_or_its_https() {
        let followed = |from: &str, to: &str| {
            let mut request = OutboundRequest::new(Method::POST, from.parse().unwrap());
            request.body = Some(Bytes::from_static(b"{}"));
            request.headers.insert("x-key", "k".parse().unwrap());
            let to = to.parse().unwrap();
            let followed = follow(request, StatusCode::TEMPORARY_REDIRECT, to).ok();
            followed.map(|request| {
                (
                    request.body.is_some(),
                    request.headers.contains_key("x-key"),
                )
            })
        };
        let with_headers = Some((true, true));
        assert_eq!(
            followed("http://a.example/x", "http://a.example/x/"),
            with_headers
        );
        let without_headers = Some((true, false));
        assert_eq!(
            followed("http://a.example/x", "https://a.example/x"),
            without_headers
        );
        for (from, to) in [
            ("http://a.example/", "https://b.example/"),
            ("http://a.example/", "https://a.example:8443/"),
            ("http://a.example:8080/", "https://a.example/"),
            ("https://a.example/", "https://b.a.example/"),
        ] {
            assert_eq!(followed(from, to), None, "{from} to {to}");
        }
    }
}
