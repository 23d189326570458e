//! Middleware handle every request: request id, span, deadline, panic handler and common headers.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use runloom_engine::metrics::METRICS;
use tracing::{Instrument, field};

use crate::app::App;
use crate::cors::Allowed;
use crate::error::Refusal;
use crate::lingering_close::BodyWatch;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a client's request id.
const REQUEST_ID_MAX_CHARS: usize = 128;

/// Adds id and span, bounds the time to the response and turns a panic into a refusal. The span shows the route's
/// pattern, not the path, because paths may contain secrets.
pub(crate) async fn handle(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(&app, request.headers());
    let route = request.extensions().get::<MatchedPath>();
    let span = tracing::info_span!(
        "request",
        method = %request.method(),
        route = route.map_or("unknown", MatchedPath::as_str),
        request_id = id.to_str().unwrap_or_default(),
        status = field::Empty,
        duration_ms = field::Empty,
    );
    let allowed = app.settings.cors_origins.allowed(&request);
    let mut response = match allowed.as_ref().and_then(Allowed::preflight) {
        Some(response) => response,
        None => {
            let (request, watch) = BodyWatch::over(request);
            let with_deadline = with_deadline(next.run(request), app.settings.request_timeout);
            let mut response = with_deadline.instrument(span.clone()).await;
            if let Some(watch) = watch {
                watch.finish(&mut response);
            }
            response
        }
    };
    set_headers(response.headers_mut(), id);
    if let Some(allowed) = allowed {
        allowed.set_headers(response.headers_mut());
    }
    METRICS.answered(response.status().as_u16(), began.elapsed());
    let elapsed = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    span.record("status", response.status().as_u16());
    span.record("duration_ms", elapsed);
    span.in_scope(|| tracing::debug!("request completed"));
    response
}

/// The response, or a refusal when the handler times out or panics.
async fn with_deadline(answer: impl Future<Output = Response>, limit: Duration) -> Response {
    let caught = AssertUnwindSafe(answer).catch_unwind();
    match tokio::time::timeout(limit, caught).await {
        Ok(Ok(response)) => response,
        Ok(Err(_panic)) => {
            tracing::error!("handler panicked");
            Refusal::Panicked.into_response()
        }
        Err(_elapsed) => {
            tracing::warn!("request timed out");
            Refusal::TimedOut.into_response()
        }
    }
}

/// Adds the headers of every response. Without `Cache-Control` a response must not be cached.
fn set_headers(headers: &mut HeaderMap, id: HeaderValue) {
    headers.insert(REQUEST_ID, id);
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The client's request id if it is safe in logs and headers, else a new one.
fn request_id(app: &App, headers: &HeaderMap) -> HeaderValue {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let sane = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=REQUEST_ID_MAX_CHARS).contains(&bytes.len()) && bytes.iter().all(plain)
    };
    if let Some(given) = headers.get(REQUEST_ID).filter(sane) {
        return given.clone();
    }
    HeaderValue::try_from(format!("req_{}", app.service.clock().new_id()))
        .unwrap_or(HeaderValue::from_static("req_unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn panic_becomes_a_json_error() {
        let response = with_deadline(async { panic!("a secret") }, LONG).await;
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], "application/json");
    }

    #[tokio::test]
    async fn timeout_becomes_unavailable() {
        let response = with_deadline(std::future::pending(), Duration::ZERO).await;
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
    }

    #[tokio::test]
    async fn response_passes() {
        let response = with_deadline(async { "fine".into_response() }, LONG).await;
        assert_eq!(response.status(), 200);
    }
}
