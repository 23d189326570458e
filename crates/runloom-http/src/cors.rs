//! Cross-origin requests: the headers with which browsers let pages of other origins use the API under `/api/v1`.
//!
//! Credentials are headers, never cookies, so `Access-Control-Allow-Credentials` is not sent.

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

/// Where the API that browsers may use begins.
const API: &str = "/api/v1/";

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");

const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, x-api-key, idempotency-key, last-event-id",
);

const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("X-Request-Id, Retry-After");

/// Seconds for which a browser may keep the answer to a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origins whose pages may call the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Pages of the server's own origin alone.
    #[default]
    None,
    /// Pages of any origin.
    Any,
    /// Pages of these origins, such as `https://app.example`.
    Listed(Vec<String>),
}

impl CorsOrigins {
    /// The origins of a configuration; `*` among them allows any.
    #[must_use]
    pub fn new(origins: Vec<String>) -> Self {
        if origins.is_empty() {
            Self::None
        } else if origins.iter().any(|origin| origin == "*") {
            Self::Any
        } else {
            Self::Listed(origins)
        }
    }

    /// The request's origin, when it is for the API and its pages may call it.
    pub(crate) fn allowed(&self, request: &Request) -> Option<Allowed> {
        if *self == Self::None || !request.uri().path().starts_with(API) {
            return None;
        }
        let origin = request.headers().get(ORIGIN)?;
        let is_allowed = match self {
            Self::None => false,
            Self::Any => true,
            Self::Listed(origins) => origins.iter().any(|listed| listed == origin),
        };
        is_allowed.then(|| Allowed {
            origin: origin.clone(),
            is_preflight: request.method() == Method::OPTIONS,
        })
    }
}

/// A request of a page that may call the API.
pub(crate) struct Allowed {
    origin: HeaderValue,
    is_preflight: bool,
}

impl Allowed {
    /// The answer to a preflight request, which has no credential; `None` for any other request.
    pub(crate) fn preflight(&self) -> Option<Response> {
        let headers = [
            (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
            (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        ];
        self.is_preflight
            .then(|| (StatusCode::NO_CONTENT, headers).into_response())
    }

    /// Adds the headers of every response to such a request.
    pub(crate) fn set_headers(self, headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin);
        headers.append(VARY, HeaderValue::from_static("Origin"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
}
