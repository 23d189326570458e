//! Guards: credentials, rate limits and the admin token are checked before a body is read.

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use runloom_ports::trace::TraceParent;
use runloom_protocol::scope::ScopeSet;
use runloom_service::auth::Caller;
use runloom_service::entry_point::EntryPoint;
use runloom_service::error::Error;
use runloom_service::rate::{Bucket, RateState};

use crate::app::App;
use crate::error::{Answer, RATE_BUCKET, Refusal, rate_headers};
use crate::lingering_close::BodyWatch;

/// The entry point of a route, and the scopes that an access token needs there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequiredAccess {
    pub(crate) entry_point: EntryPoint,
    /// All of these.
    pub(crate) needed: ScopeSet,
    /// Or all of these.
    pub(crate) otherwise: Option<ScopeSet>,
}

/// Authenticates the credential for the route's entry point, scopes and workspace, counts the request, and adds the
/// rate headers to the response.
pub(crate) async fn workspace(
    State((app, entry, bucket)): State<(App, RequiredAccess, Bucket)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    match authenticate(&app, (entry, bucket), &mut parts).await {
        Ok(state) => {
            let mut response = next.run(Request::from_parts(parts, body)).await;
            // Keep the headers of a handler that counted the request in a narrower bucket.
            if !response.headers().contains_key(RATE_BUCKET) {
                rate_headers(response.headers_mut(), &state);
            }
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Checks the admin token.
pub(crate) async fn admin(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(token) = &app.settings.admin_token else {
        return Refusal::AdminOff.into_response();
    };
    let given = credential(request.headers());
    if given.is_some_and(|given| token.matches(given)) {
        mark_authenticated(request.extensions());
        next.run(request).await
    } else {
        Refusal::AdminToken.into_response()
    }
}

/// The authenticated caller; only behind [`workspace`].
pub(crate) struct Authenticated(pub(crate) Caller);

impl FromRequestParts<App> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Answer<Self> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller
            .map(Self)
            .ok_or_else(|| Error::internal("a handler asked for a caller on an open route").into())
    }
}

async fn authenticate(
    app: &App,
    (entry, bucket): (RequiredAccess, Bucket),
    parts: &mut Parts,
) -> Answer<RateState> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    // A path that is not UTF-8 matches nothing.
    let params = params.map_err(|_| Refusal::UnknownRoute)?;
    let slug = params
        .iter()
        .find_map(|(name, value)| (name == "slug").then_some(value));
    let credential = credential(&parts.headers);
    let service = &app.service;
    let auth = service.auth();
    let asked = (entry.entry_point, entry.needed);
    let mut found = auth.authenticate(credential, slug, asked).await;
    if let (Err(Error::InsufficientScope { .. }), Some(other)) = (&found, entry.otherwise) {
        let second = auth.authenticate(credential, slug, (entry.entry_point, other));
        // A token with neither set of scopes gets the error of the first.
        found = second.await.or(found);
    }
    let mut caller = found?;
    if let Some(owner) = parts.headers.get("x-runloom-owner") {
        // A name that is not even text is given on, to be refused as none.
        caller = caller.acting_for(owner.to_str().unwrap_or_default())?;
    }
    caller.trace = trace_parent(&parts.headers);
    mark_authenticated(&parts.extensions);
    let state = service
        .rates()
        .let_in(&caller, bucket, service.clock().now())
        .await?;
    parts.extensions.insert(caller);
    Ok(state)
}

/// The client's trace context, if it sends one.
fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    TraceParent::parse(headers.get("traceparent")?.to_str().ok()?)
}

/// Allows the authenticated sender a longer lingering close.
fn mark_authenticated(extensions: &Extensions) {
    if let Some(watch) = extensions.get::<BodyWatch>() {
        watch.mark_authenticated();
    }
}

/// The credential from either header. A value that is not text is passed on, to be refused as unknown.
pub(crate) fn credential(headers: &HeaderMap) -> Option<&str> {
    const NOT_TEXT: &str = "\u{0}";
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let bytes = value.as_bytes();
        let (scheme, rest) = bytes.split_at(bytes.len().min("bearer".len()));
        let separated = rest.first().is_none_or(|&byte| byte == b' ');
        let known = scheme.eq_ignore_ascii_case(b"bearer") && separated;
        known.then(|| std::str::from_utf8(rest).map_or(NOT_TEXT, str::trim))
    });
    let key = || {
        headers
            .get("x-api-key")
            .map(|value| value.to_str().unwrap_or(NOT_TEXT).trim())
    };
    bearer.filter(|text| !text.is_empty()).or_else(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (axum::http::HeaderName::from_static(name), value)
        });
        pairs.collect()
    }

    #[test]
    fn reads_the_credential_from_either_header() {
        for (pairs, expected) in [
            (
                &[("authorization", "Bearer mantyx_1")][..],
                Some("mantyx_1"),
            ),
            (&[("authorization", "bearer  mantyx_1 ")], Some("mantyx_1")),
            (&[("x-api-key", "mantyx_1")], Some("mantyx_1")),
            (
                &[
                    ("authorization", "Bearer mantyx_1"),
                    ("x-api-key", "mantyx_2"),
                ],
                Some("mantyx_1"),
            ),
            (
                &[("authorization", "Basic abc"), ("x-api-key", "mantyx_2")],
                Some("mantyx_2"),
            ),
            (&[("authorization", "Basic abc")], None),
            (&[("authorization", "Bearer")], None),
            (&[("authorization", "Bearermantyx_1")], None),
            (&[], None),
        ] {
            assert_eq!(credential(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn binary_credential_is_not_missing() {
        assert!(credential(&headers(&[("x-api-key", "mantyx_é")])).is_some());
        assert!(credential(&headers(&[("authorization", "Bearer mantyx_é")])).is_some());
    }
}
