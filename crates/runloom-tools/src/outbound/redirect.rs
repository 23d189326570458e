//! Where a redirect leads, and what of the request may follow it.

use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Method, StatusCode, Url};

use super::OutboundRequest;
use super::error::{OutboundError, Result};

/// What another origin may see of a request's headers. Everything else may be a secret of the spec, whatever its name.
const HARMLESS: &[&str] = &[
    "accept",
    "accept-encoding",
    "content-type",
    "user-agent",
    "a2a-version",
    "mcp-protocol-version",
];

/// The place a redirect names; `None` when the response is none.
pub(super) fn target(status: StatusCode, headers: &HeaderMap, at: &Url) -> Result<Option<Url>> {
    let follows = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(header::LOCATION).filter(|_| follows) else {
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

/// From `http://host` to `https://host`, both at their usual ports.
fn is_own_https(from: &Url, to: &Url) -> bool {
    let usual = |url: &Url| url.port().is_none();
    (from.scheme(), to.scheme()) == ("http", "https")
        && from.host() == to.host()
        && usual(from)
        && usual(to)
}

/// The request as it is sent to the redirect's place.
pub(super) fn follow(
    mut request: OutboundRequest,
    status: StatusCode,
    to: Url,
) -> Result<OutboundRequest> {
    let keeps_method = matches!(status.as_u16(), 307 | 308)
        || matches!(request.method, Method::GET | Method::HEAD);
    if !keeps_method {
        if request.keeps_method {
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
    let (named, other) = (request.url.origin(), to.origin());
    if named != other {
        // Whatever stands in it was written for the peer that the definition names, secrets among it. That peer's own https is no other.
        if request.body.is_some() && !is_own_https(&request.url, &to) {
            return Err(OutboundError::Redirects {
                why: format!(
                    "it leads from {} to {}, and a request with a body goes to no other origin than its own",
                    named.ascii_serialization(),
                    other.ascii_serialization()
                ),
            });
        }
        let mut kept = HeaderMap::new();
        for name in HARMLESS {
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
    fn a_body_goes_to_its_own_hosts_https_and_to_no_other_origin() {
        let goes = |from: &str, to: &str| {
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
            goes("http://a.example/x", "http://a.example/x/"),
            with_headers
        );
        let without_headers = Some((true, false));
        assert_eq!(
            goes("http://a.example/x", "https://a.example/x"),
            without_headers
        );
        for (from, to) in [
            ("http://a.example/", "https://b.example/"),
            ("http://a.example/", "https://a.example:8443/"),
            ("http://a.example:8080/", "https://a.example/"),
            ("https://a.example/", "https://b.a.example/"),
        ] {
            assert_eq!(goes(from, to), None, "{from} to {to}");
        }
    }
}
