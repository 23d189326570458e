//! The HTTP client of `rmcp`'s Streamable HTTP transport, on the guarded client: every POST, GET and DELETE goes
//! through [`Outbound`], so that redirects and resumed streams are subject to the same checks and limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcError, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::event_limit::EventSizeLimit;
use super::listing;
use crate::content::{MAX_MCP_ERROR_BYTES, truncate};
use crate::outbound::{Outbound, OutboundError, OutboundRequest, OutboundResponse};

/// Maximum bytes of one event stream.
const MAX_STREAM_BYTES: usize = 64 * 1024 * 1024;

/// Maximum bytes of a JSON response, and the timeout of its body.
pub(super) const MAX_JSON_BYTES: usize = 16 * 1024 * 1024;
const JSON_BODY_TIMEOUT: Duration = Duration::from_secs(30);

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) type TransportError = StreamableHttpError<OutboundError>;
type Headers = HashMap<HeaderName, HeaderValue>;
/// The message of the last error, for the model. `rmcp` hides causes in its own errors.
pub(super) type LastError = Arc<Mutex<Option<String>>>;

/// The HTTP client of one session.
#[derive(Clone)]
pub(super) struct GuardedHttpClient {
    outbound: Outbound,
    /// Headers of the ref, which may be secrets.
    headers: Arc<HeaderMap>,
    /// Timeout of the head of a response.
    head_timeout: Duration,
    last_error: LastError,
    /// Set when a server's error mentions the session.
    session_expired: Arc<AtomicBool>,
}

impl GuardedHttpClient {
    pub(super) fn new(outbound: Outbound, headers: HeaderMap, head_timeout: Duration) -> Self {
        Self {
            outbound,
            headers: Arc::new(headers),
            head_timeout,
            last_error: Arc::default(),
            session_expired: Arc::default(),
        }
    }

    /// Whether the next call needs a new session, because the server may have dropped this one.
    pub(super) fn is_session_expired(&self) -> bool {
        self.session_expired.load(Ordering::Acquire)
    }

    /// Why the last request failed, as a message for the model.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    pub(super) fn set_last_error(&self, message: impl Into<String>) {
        *self.last_error.lock() = Some(message.into());
    }

    pub(super) fn clear_last_error(&self) {
        *self.last_error.lock() = None;
    }

    pub(super) fn error_slot(&self) -> &LastError {
        &self.last_error
    }

    /// The headers of the ref or the definition.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The headers of the ref, overridden by those of the protocol.
    fn request_headers(
        &self,
        session: Option<&str>,
        custom: Headers,
    ) -> Result<HeaderMap, TransportError> {
        let mut headers = HeaderMap::clone(&self.headers);
        for (name, value) in custom {
            headers.insert(name, value);
        }
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if let Some(session) = session {
            let value = HeaderValue::from_str(session).map_err(|_| {
                StreamableHttpError::UnexpectedServerResponse("the session id is not text".into())
            })?;
            headers.insert(SESSION_ID, value);
        }
        Ok(headers)
    }

    pub(super) async fn send(
        &self,
        request: OutboundRequest,
    ) -> Result<OutboundResponse, TransportError> {
        match self.outbound.send(request.keeping_method()).await {
            Ok(response) => {
                let status = response.status();
                let refused = status.is_client_error() || status.is_server_error();
                *self.last_error.lock() =
                    refused.then(|| format!("it answered with HTTP status {status}"));
                Ok(response)
            }
            Err(error) => {
                self.set_last_error(error.to_string());
                Err(StreamableHttpError::Client(error))
            }
        }
    }

    pub(super) fn request(
        &self,
        method: Method,
        uri: &str,
    ) -> Result<OutboundRequest, TransportError> {
        let url = self.outbound.check(uri).map_err(|error| {
            self.set_last_error(error.to_string());
            StreamableHttpError::Client(error)
        })?;
        Ok(OutboundRequest::new(method, url).within(self.head_timeout))
    }

    pub(super) async fn body(
        &self,
        response: OutboundResponse,
        limit: usize,
    ) -> Result<Vec<u8>, TransportError> {
        let read = tokio::time::timeout(JSON_BODY_TIMEOUT, response.at_most(limit).bytes());
        let timeout = |_| OutboundError::Timeout {
            step: "end of the response",
            after: JSON_BODY_TIMEOUT,
        };
        match read.await.map_err(timeout).and_then(|body| body) {
            Ok(body) => Ok(body.to_vec()),
            Err(error) => {
                self.set_last_error(error.to_string());
                Err(StreamableHttpError::Client(error))
            }
        }
    }
}

impl StreamableHttpClient for GuardedHttpClient {
    type Error = OutboundError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let mut headers = self.request_headers(session_id.as_deref(), custom_headers)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let limit = max_response_bytes(&message);
        let request = self
            .request(Method::POST, &uri)?
            .headers(headers)
            .body(serde_json::to_vec(&message)?)
            .streaming()
            .at_most(MAX_STREAM_BYTES);
        if let Some(id) = discover_id(&message) {
            return self.discover(request, id).await;
        }
        let response = self.send(request).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.header(SESSION_ID.as_str()).map(str::to_owned);
        if !status.is_success() {
            let within = match session_id {
                Some(_) => RequestScope::Session,
                None => RequestScope::NoSession,
            };
            return self
                .error_response(response, &message, within, session)
                .await;
        }
        match response.media_type().as_deref() {
            Some("text/event-stream") => Ok(StreamableHttpPostResponse::Sse(
                events(response, EventSizeLimit::new(limit), &self.last_error),
                session,
            )),
            Some("application/json") => {
                let body = self.body(response, limit).await?;
                self.json_response(&body, &message, session)
            }
            media_type if !is_request(&message) => {
                tracing::debug!(?media_type, "MCP server answered a notification");
                Ok(StreamableHttpPostResponse::Accepted)
            }
            media_type => {
                let shown = truncate(media_type.unwrap_or("nothing"), 100).to_owned();
                self.set_last_error(format!(
                    "it answered with {shown} instead of application/json or text/event-stream"
                ));
                Err(StreamableHttpError::UnexpectedContentType(Some(shown)))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), TransportError> {
        let headers = self.request_headers(Some(&session_id), custom_headers)?;
        let request = self.request(Method::DELETE, &uri)?.headers(headers);
        // Servers may refuse this request and expire the session themselves.
        self.send(request).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, TransportError> {
        let mut headers = self.request_headers(session_id.as_deref(), custom_headers)?;
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let request = self
            .request(Method::GET, &uri)?
            .headers(headers)
            .streaming()
            .at_most(MAX_STREAM_BYTES);
        // Many servers offer no notification stream, so a failure here is not recorded.
        let response = self
            .outbound
            .send(request)
            .await
            .map_err(StreamableHttpError::Client)?;
        let is_stream = response.media_type().as_deref() == Some("text/event-stream");
        if !response.status().is_success() || !is_stream {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(events(
            response,
            EventSizeLimit::default(),
            &self.last_error,
        ))
    }
}

/// Whether a request was made in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestScope {
    Session,
    NoSession,
}

impl GuardedHttpClient {
    fn json_response(
        &self,
        body: &[u8],
        message: &ClientJsonRpcMessage,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
            Ok(JsonRpcMessage::Error(mut error)) => {
                error.id = request_id(message).or(error.id);
                let response = JsonRpcMessage::Error(error);
                Ok(StreamableHttpPostResponse::Json(response, session))
            }
            Ok(response) => Ok(StreamableHttpPostResponse::Json(response, session)),
            Err(_) if !is_request(message) => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => {
                self.set_last_error("its response is not a JSON-RPC message of the protocol");
                Err(StreamableHttpError::Deserialize(error))
            }
        }
    }

    /// A response with an error status. A JSON-RPC error is passed on, everything else becomes an error message.
    async fn error_response(
        &self,
        response: OutboundResponse,
        message: &ClientJsonRpcMessage,
        scope: RequestScope,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let status = response.status();
        let is_denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let body = self.body(response, max_response_bytes(message)).await?;
        let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) if !is_denied => Some(error),
            _ => None,
        };
        let mentions_session = status == StatusCode::BAD_REQUEST && mentions_session(&body);
        if scope == RequestScope::Session && mentions_session {
            let is_own = |id: &RequestId| request_id(message).as_ref() == Some(id);
            let is_foreign = |error: &JsonRpcError| !error.id.as_ref().is_some_and(is_own);
            if error.as_ref().is_some_and(is_foreign) {
                // The server did not read the request, so it can be repeated in a new session.
                return Err(StreamableHttpError::SessionExpired);
            }
            // The error may come from the tool: nothing is repeated, and the next call opens a new session.
            self.session_expired.store(true, Ordering::Release);
        }
        if let Some(mut error) = error {
            // A server that refuses before it reads the request does not know its id, but `rmcp` needs it.
            error.id = request_id(message).or(error.id);
            let response = JsonRpcMessage::Error(error);
            return Ok(StreamableHttpPostResponse::Json(response, session));
        }
        Err(self.refusal(status, &body))
    }

    /// The error of a response that is not JSON-RPC.
    pub(super) async fn refused(&self, response: OutboundResponse) -> TransportError {
        let status = response.status();
        match self.body(response, MAX_JSON_BYTES).await {
            Ok(body) => self.refusal(status, &body),
            Err(error) => error,
        }
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> TransportError {
        let text = String::from_utf8_lossy(body);
        self.set_last_error(match truncate(text.trim(), MAX_MCP_ERROR_BYTES) {
            "" => format!("it answered with HTTP status {status}"),
            text => format!("it answered with HTTP status {status}: {text}"),
        });
        // `rmcp` logs its errors, and the server's text may repeat secrets that it was sent.
        let logged = format!("HTTP status {status}");
        StreamableHttpError::UnexpectedServerResponse(logged.into())
    }
}

/// The id of a `server/discover` request.
fn discover_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_)) =>
        {
            Some(request.id.clone())
        }
        _ => None,
    }
}

fn is_request(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(_))
}

/// Maximum bytes of the response to a message.
fn max_response_bytes(message: &ClientJsonRpcMessage) -> usize {
    match message {
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::ListToolsRequest(_)) =>
        {
            listing::MAX_BYTES
        }
        _ => MAX_JSON_BYTES,
    }
}

/// The id of a request; `None` for other messages.
fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Whether an error mentions the session. Many servers answer 400 instead of 404 to an expired session: "No valid
/// session ID provided".
fn mentions_session(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_MCP_ERROR_BYTES)]);
    text.to_lowercase().contains("session")
}

/// The events of a body, each of limited size. `rmcp` takes them as `sse_stream` events.
pub(super) fn events(
    response: OutboundResponse,
    mut limit: EventSizeLimit,
    last_error: &LastError,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let last_error = Arc::clone(last_error);
    let bytes = response.into_stream().map(move |chunk| {
        let checked = chunk.and_then(|chunk| limit.count(&chunk).map(|()| chunk));
        if let Err(error) = &checked {
            *last_error.lock() = Some(error.to_string());
        }
        checked
    });
    SseStream::from_bytes_stream(bytes).boxed()
}
