//! Refusals to responses. The only file with error statuses.

use std::time::Duration;

use axum::Json;
use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use runloom_protocol::error::{ErrorBody, ErrorCode, Required};
use runloom_protocol::scope::{Scope, ScopeSet};
use runloom_service::entry_point::EntryPoint;
use runloom_service::error::{Chain, Error, OAuthFault, PlanFeature};
use runloom_service::project::ApiStatus;
use runloom_service::rate::RateState;
use serde_json::json;

use crate::html_page::problem_page;
use crate::rpc;

/// Result of handlers.
pub(crate) type Answer<T> = Result<T, Refusal>;

/// The bytes of the response to a connection over the limit of its address, before a request was read.
pub(crate) fn too_many_connections() -> Vec<u8> {
    let message = "This address has too many connections (server.max_connections_per_address).";
    let body = ErrorBody::new(ErrorCode::Unavailable, message);
    let body = serde_json::to_string(&body).unwrap_or_default();
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Why a request was refused: errors of the use case and of the transport.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The use case refused or failed.
    Service(Error),
    /// No route has this path.
    UnknownRoute,
    /// The path has no such method.
    WrongMethod,
    /// The body is larger than allowed.
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    BodyTimedOut {
        /// The timeout.
        limit: Duration,
    },
    /// The media type is not supported.
    MediaType {
        /// The given type and the supported ones.
        message: String,
    },
    /// The request took too long.
    TimedOut,
    /// A handler panicked.
    Panicked,
    /// The server has no admin token.
    AdminOff,
    /// The admin token is missing or wrong.
    AdminToken,
    /// An error of the use case, shown as a page in a browser.
    Page(Error),
}

impl From<runloom_ports::error::Error> for Refusal {
    fn from(error: runloom_ports::error::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Service(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Service(error) => core(error),
            Self::Page(error) => page(error),
            Self::UnknownRoute => plain(
                StatusCode::NOT_FOUND,
                ErrorBody::new(ErrorCode::NotFound, "No route has this path.")
                    .with_hint("The API lives under /api/v1/workspaces/{slug}; see /openapi.json."),
            ),
            Self::WrongMethod => plain(
                StatusCode::METHOD_NOT_ALLOWED,
                ErrorBody::new(
                    ErrorCode::MethodNotAllowed,
                    "This path does not have this method; the Allow header names those it has.",
                ),
            ),
            Self::BodyTooLarge { limit } => {
                let message = format!("The body is larger than {limit} bytes.");
                let body = ErrorBody::new(ErrorCode::PayloadTooLarge, message);
                last(plain(StatusCode::PAYLOAD_TOO_LARGE, body))
            }
            Self::BodyTimedOut { limit } => {
                let message = format!(
                    "The body did not arrive within {} seconds.",
                    limit.as_secs_f64()
                );
                let body = ErrorBody::new(ErrorCode::RequestTimeout, message);
                last(plain(StatusCode::REQUEST_TIMEOUT, body))
            }
            Self::MediaType { message } => plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                ErrorBody::new(ErrorCode::UnsupportedMediaType, message),
            ),
            Self::TimedOut => unavailable("The request took too long.", Duration::from_secs(1)),
            Self::Panicked => internal(),
            Self::AdminOff => plain(
                StatusCode::FORBIDDEN,
                ErrorBody::new(ErrorCode::Forbidden, "The admin API is off.")
                    .with_hint("Set an admin token in the server's configuration to enable it."),
            ),
            Self::AdminToken => unauthorized(
                ErrorBody::new(
                    ErrorCode::Unauthorized,
                    "The admin token is missing or wrong.",
                )
                .with_error("Unauthorized")
                .with_hint("Send `Authorization: Bearer <admin token>`."),
                r#"Bearer realm="runloom-admin""#,
            ),
        }
    }
}

fn core(error: Error) -> Response {
    // The text of an error is public; private details are in its source.
    let message = error.to_string();
    let refuse = |status, code| plain(status, ErrorBody::new(code, message.as_str()));
    match error {
        Error::MissingCredential | Error::InvalidCredential => credential(&error),
        Error::WrongKeyUsage { entry_point } => plain(
            StatusCode::FORBIDDEN,
            ErrorBody::new(ErrorCode::Forbidden, message.as_str())
                .with_error(message.as_str())
                .with_hint(format!(
                    "Create a key with the usage `{}`.",
                    entry_point.as_str()
                )),
        ),
        Error::PlanLacks { feature } => {
            let code = match feature {
                PlanFeature::ApiKeys => ErrorCode::ApiKeysPlan,
                PlanFeature::OauthApps => ErrorCode::OauthAppsPlan,
            };
            let body = ErrorBody::new(code, message.as_str()).with_error(message.as_str());
            plain(StatusCode::FORBIDDEN, body)
        }
        Error::SlugMismatch { slug, entry_point } => {
            let path = match entry_point {
                EntryPoint::A2a => "/api/a2a",
                EntryPoint::DeveloperApi | EntryPoint::Mcp | EntryPoint::Approvals => {
                    "/api/v1/workspaces"
                }
            };
            let hint = format!(
                "This credential belongs to the workspace with the correct slug `{slug}`: use {path}/{slug}/…"
            );
            let body = ErrorBody::new(ErrorCode::NotFound, message.as_str());
            let body = body.with_error(message.as_str()).with_hint(hint);
            plain(StatusCode::NOT_FOUND, body)
        }
        Error::InsufficientScope { required } => insufficient_scope(&message, &required),
        Error::OAuth { fault, .. } => oauth(fault, &message),
        Error::Forbidden { .. } => refuse(StatusCode::FORBIDDEN, ErrorCode::Forbidden),
        Error::NotFound { .. } => refuse(StatusCode::NOT_FOUND, ErrorCode::NotFound),
        Error::Invalid(issues) => {
            plain(StatusCode::BAD_REQUEST, ErrorBody::invalid_request(issues))
        }
        Error::InvalidModel { candidates, .. } => plain(
            StatusCode::BAD_REQUEST,
            ErrorBody::new(ErrorCode::InvalidModel, message.as_str()).with_candidates(candidates),
        ),
        Error::AgentUnavailable => unavailable(&message, Duration::from_secs(60)),
        Error::InvalidPlugin { .. } => refuse(StatusCode::BAD_REQUEST, ErrorCode::InvalidPlugin),
        Error::UnknownToolUse => refuse(StatusCode::NOT_FOUND, ErrorCode::UnknownToolUse),
        Error::UnknownApproval => refuse(StatusCode::NOT_FOUND, ErrorCode::UnknownApproval),
        Error::ApprovalDecided(approval) => plain(
            StatusCode::CONFLICT,
            ErrorBody {
                approval: serde_json::to_value(approval).ok(),
                ..ErrorBody::new(ErrorCode::ApprovalDecided, message.as_str())
            },
        ),
        Error::RunTerminal => refuse(StatusCode::CONFLICT, ErrorCode::RunTerminal),
        Error::SessionEnded => refuse(StatusCode::CONFLICT, ErrorCode::SessionEnded),
        Error::IdempotencyKeyReused => refuse(StatusCode::CONFLICT, ErrorCode::IdempotencyConflict),
        Error::Conflict { .. } => refuse(StatusCode::CONFLICT, ErrorCode::Conflict),
        Error::PreconditionFailed { .. } => refuse(
            StatusCode::PRECONDITION_FAILED,
            ErrorCode::PreconditionFailed,
        ),
        Error::RateLimited(state) => {
            let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimitExceeded);
            rate_headers(response.headers_mut(), &state);
            let wait = HeaderValue::from(state.reset_seconds.max(1));
            put(&mut response, RETRY_AFTER, wait);
            response
        }
        Error::Unavailable { retry_after, .. } => unavailable(&message, retry_after),
        Error::Internal(_) => {
            tracing::error!(error = %Chain(&error), "request failed");
            internal()
        }
    }
}

/// The HTTP status of a JSON-RPC error, where the protocol requires one other than 200.
pub(crate) fn rpc_status(code: i64) -> StatusCode {
    match code {
        rpc::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        rpc::INTERNAL => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The rate bucket of a response.
pub(crate) const RATE_BUCKET: HeaderName = HeaderName::from_static("x-ratelimit-bucket");

/// Adds `X-RateLimit-*`, which every response to a credential has.
pub(crate) fn rate_headers(headers: &mut HeaderMap, state: &RateState) {
    // Constants, so that the names are not validated for every response.
    const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
    const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
    const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
    headers.insert(LIMIT, state.limit.into());
    headers.insert(REMAINING, state.remaining.into());
    headers.insert(RESET, state.reset_seconds.into());
    headers.insert(RATE_BUCKET, HeaderValue::from_static(state.bucket));
}

fn insufficient_scope(message: &str, required: &[Scope]) -> Response {
    let words: ScopeSet = required.iter().copied().collect();
    let challenge = format!(r#"Bearer error="insufficient_scope", scope="{words}""#);
    let mut required: Vec<String> = required.iter().map(ToString::to_string).collect();
    let required = match (required.len(), required.pop()) {
        (1, Some(only)) => Required::One(only),
        (_, last) => Required::Many(required.into_iter().chain(last).collect()),
    };
    let body = ErrorBody {
        required: Some(required),
        ..ErrorBody::new(ErrorCode::InsufficientScope, message)
    };
    let mut response = plain(StatusCode::FORBIDDEN, body);
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        put(&mut response, WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The error body of RFC 6749.
fn oauth(fault: OAuthFault, message: &str) -> Response {
    let body = Json(json!({ "error": fault.as_str(), "error_description": message }));
    match fault {
        OAuthFault::InvalidClient => {
            let mut response = (StatusCode::UNAUTHORIZED, body).into_response();
            let challenge = HeaderValue::from_static(r#"Basic realm="runloom", charset="UTF-8""#);
            put(&mut response, WWW_AUTHENTICATE, challenge);
            response
        }
        _ => (StatusCode::BAD_REQUEST, body).into_response(),
    }
}

/// The status of the JSON response without its challenge, which would make a browser ask for a password.
fn page(error: Error) -> Response {
    let wrong = matches!(error, Error::OAuth { .. });
    let message = error.to_string();
    let answer = core(error);
    let status = if wrong {
        StatusCode::BAD_REQUEST
    } else {
        answer.status()
    };
    let mut response = (status, problem_page(&message)).into_response();
    if let Some(wait) = answer.headers().get(RETRY_AFTER) {
        put(&mut response, RETRY_AFTER, wait.clone());
    }
    response
}

fn credential(error: &Error) -> Response {
    match error {
        Error::MissingCredential => unauthorized(
            ErrorBody::new(
                ErrorCode::Unauthorized,
                "API key or OAuth access token required: send `Authorization: Bearer …` or `X-API-Key: …`.",
            )
            .with_error("Unauthorized"),
            r#"Bearer realm="runloom""#,
        ),
        other => unauthorized(
            ErrorBody::new(ErrorCode::Unauthorized, other.to_string()).with_error(other.to_string()),
            r#"Bearer realm="runloom", error="invalid_token""#,
        ),
    }
}

fn unauthorized(body: ErrorBody, challenge: &'static str) -> Response {
    let mut response = plain(StatusCode::UNAUTHORIZED, body);
    let challenge = HeaderValue::from_static(challenge);
    put(&mut response, WWW_AUTHENTICATE, challenge);
    response
}

fn unavailable(message: &str, retry_after: Duration) -> Response {
    let body = ErrorBody::new(ErrorCode::Unavailable, message);
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, body);
    let seconds = u64::from(retry_after.subsec_nanos() > 0) + retry_after.as_secs();
    put(&mut response, RETRY_AFTER, seconds.max(1).into());
    response
}

fn internal() -> Response {
    let body = ErrorBody::new(
        ErrorCode::Internal,
        "The server failed inside. The request id names this failure to the operator.",
    );
    plain(StatusCode::INTERNAL_SERVER_ERROR, body)
}

fn plain(status: StatusCode, body: ErrorBody) -> Response {
    (status, Json(body)).into_response()
}

/// The rest of the body may still arrive, so no other request can use the connection.
fn last(mut response: Response) -> Response {
    put(&mut response, CONNECTION, HeaderValue::from_static("close"));
    response
}

fn put(response: &mut Response, name: axum::http::HeaderName, value: HeaderValue) {
    response.headers_mut().insert(name, value);
}

/// The status of a response of the project tool's loopback API.
pub(crate) fn project_status(status: ApiStatus) -> StatusCode {
    match status {
        ApiStatus::Ok => StatusCode::OK,
        ApiStatus::InvalidInput => StatusCode::BAD_REQUEST,
        ApiStatus::InvalidCredential => StatusCode::UNAUTHORIZED,
        ApiStatus::NotAllowed => StatusCode::FORBIDDEN,
        ApiStatus::UnknownAction => StatusCode::NOT_FOUND,
        ApiStatus::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ApiStatus::TooMany => StatusCode::TOO_MANY_REQUESTS,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::Value;

    use super::*;

    async fn shown(refusal: impl Into<Refusal>) -> (u16, HeaderMap, Value) {
        let (parts, body) = refusal.into().into_response().into_parts();
        let bytes = to_bytes(body, 1 << 16).await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap();
        (parts.status.as_u16(), parts.headers, body)
    }

    #[tokio::test]
    async fn closes_the_connection_of_an_unread_body() {
        let limit = Duration::from_secs(1);
        for refusal in [
            Refusal::BodyTooLarge { limit: 1 },
            Refusal::BodyTimedOut { limit },
        ] {
            let (_, headers, _) = shown(refusal).await;
            assert_eq!(headers[CONNECTION], "close");
        }
    }

    #[tokio::test]
    async fn every_refusal_has_status_and_code() {
        let message = || "m".to_owned();
        for (error, status, code) in [
            (Error::Forbidden { message: message() }, 403, "forbidden"),
            (Error::NotFound { what: "run" }, 404, "not_found"),
            (Error::invalid("a", "b"), 400, "invalid_request"),
            (
                Error::InvalidPlugin { message: message() },
                400,
                "invalid_plugin",
            ),
            (Error::UnknownToolUse, 404, "unknown_tool_use"),
            (Error::RunTerminal, 409, "run_terminal"),
            (Error::SessionEnded, 409, "session_ended"),
            (Error::IdempotencyKeyReused, 409, "idempotency_conflict"),
            (Error::Conflict { message: message() }, 409, "conflict"),
        ] {
            let (got, _, body) = shown(error).await;
            assert_eq!((got, body["code"].as_str()), (status, Some(code)));
            assert_eq!(body["error"], body["code"]);
            assert!(
                body["message"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty())
            );
        }
    }

    #[tokio::test]
    async fn hides_internal_errors() {
        let (status, _, body) = shown(Error::internal("table runs is corrupt")).await;
        assert_eq!((status, body["code"].as_str()), (500, Some("internal")));
        assert!(!body.to_string().contains("corrupt"));
    }

    #[tokio::test]
    async fn rounds_retry_after_up_to_seconds() {
        for (millis, seconds) in [(0, "1"), (200, "1"), (1000, "1"), (1001, "2")] {
            let error = Error::Unavailable {
                message: "later".to_owned(),
                retry_after: Duration::from_millis(millis),
            };
            let (status, headers, body) = shown(error).await;
            assert_eq!((status, body["code"].as_str()), (503, Some("unavailable")));
            assert_eq!(headers["retry-after"], seconds);
        }
    }
}
