//! The Streamable HTTP backend of `rmcp` on the guarded client: every POST, GET and DELETE goes through [`Outbound`], so that
//! the endpoint, its redirects and its resumed streams see the same checks and the same caps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcError, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::events::EventCap;
use super::listing;
use crate::content::cut;
use crate::outbound::{Outbound, OutboundError, OutboundRequest, OutboundResponse};

/// Bytes of one stream in all; a stream of events that never ends is ended here.
const MAX_STREAM_BYTES: usize = 64 * 1024 * 1024;

/// The longest plain JSON answer, and the longest wait for its end once it began.
const MAX_JSON_BYTES: usize = 16 * 1024 * 1024;
const JSON_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a refusal that are repeated to the model.
pub(crate) const MAX_REFUSAL_BYTES: usize = 500;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

type Error = StreamableHttpError<OutboundError>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The backend of one connection.
#[derive(Clone)]
pub(super) struct GuardedHttp {
    outbound: Outbound,
    /// Headers of the ref; secret.
    headers: Arc<HeaderMap>,
    /// How long the head of an answer may take.
    head_timeout: Duration,
    fault: Arc<Mutex<Option<String>>>,
    /// The server spoke of the session as if it were gone.
    lost: Arc<AtomicBool>,
}

impl GuardedHttp {
    pub(super) fn new(outbound: Outbound, headers: HeaderMap, head_timeout: Duration) -> Self {
        Self {
            outbound,
            headers: Arc::new(headers),
            head_timeout,
            fault: Arc::default(),
            lost: Arc::default(),
        }
    }

    /// Whether a new connection is needed: the server may have forgotten the session, and was not asked for another.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Why the last exchange failed, in words for a model: `rmcp` wraps causes so deep that they are kept here instead.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// The ref's headers, then the protocol's own, which win.
    fn head(&self, session: Option<&str>, custom: Headers) -> Result<HeaderMap, Error> {
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

    async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse, Error> {
        match self.outbound.send(request.keeping_method()).await {
            Ok(response) => {
                let status = response.status();
                let refused = status.is_client_error() || status.is_server_error();
                self.remember(refused.then(|| format!("it answered with HTTP status {status}")));
                Ok(response)
            }
            Err(error) => {
                self.remember(Some(error.to_string()));
                Err(StreamableHttpError::Client(error))
            }
        }
    }

    fn request(&self, method: Method, uri: &str) -> Result<OutboundRequest, Error> {
        let url = self.outbound.check(uri).map_err(|error| {
            self.remember(Some(error.to_string()));
            StreamableHttpError::Client(error)
        })?;
        Ok(OutboundRequest::new(method, url).within(self.head_timeout))
    }

    async fn body(&self, response: OutboundResponse, most: usize) -> Result<Vec<u8>, Error> {
        let read = tokio::time::timeout(JSON_BODY_TIMEOUT, response.at_most(most).bytes());
        let timeout = |_| OutboundError::Timeout {
            step: "end of the response",
            after: JSON_BODY_TIMEOUT,
        };
        match read.await.map_err(timeout).and_then(|body| body) {
            Ok(body) => Ok(body.to_vec()),
            Err(error) => {
                self.remember(Some(error.to_string()));
                Err(StreamableHttpError::Client(error))
            }
        }
    }
}

impl StreamableHttpClient for GuardedHttp {
    type Error = OutboundError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut headers = self.head(session_id.as_deref(), custom_headers)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let most = most_bytes(&message);
        let request = self
            .request(Method::POST, &uri)?
            .headers(headers)
            .body(serde_json::to_vec(&message)?)
            .streaming()
            .at_most(MAX_STREAM_BYTES);
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
            return self
                .refused(response, &message, session_id.is_some(), session)
                .await;
        }
        match response.media_type().as_deref() {
            Some("text/event-stream") => Ok(StreamableHttpPostResponse::Sse(
                events(response, EventCap::of(most), &self.fault),
                session,
            )),
            Some("application/json") => {
                let body = self.body(response, most).await?;
                self.answered(&body, &message, session)
            }
            other if expects_no_answer(&message) => {
                tracing::debug!(
                    ?other,
                    "an MCP server answered a notification in an odd type"
                );
                Ok(StreamableHttpPostResponse::Accepted)
            }
            other => {
                let shown = cut(other.unwrap_or("nothing"), 100).to_owned();
                self.remember(Some(format!(
                    "it answered with {shown} instead of application/json or text/event-stream"
                )));
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
    ) -> Result<(), Error> {
        let headers = self.head(Some(&session_id), custom_headers)?;
        let request = self.request(Method::DELETE, &uri)?.headers(headers);
        // Servers may refuse to end sessions; then they end them by themselves.
        self.send(request).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let mut headers = self.head(session_id.as_deref(), custom_headers)?;
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let request = self
            .request(Method::GET, &uri)?
            .headers(headers)
            .streaming()
            .at_most(MAX_STREAM_BYTES);
        // A missing stream of notifications is no fault of the connection: many servers offer none.
        let response = self
            .outbound
            .send(request)
            .await
            .map_err(StreamableHttpError::Client)?;
        let streams = response.media_type().as_deref() == Some("text/event-stream");
        if !response.status().is_success() || !streams {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(events(response, EventCap::default(), &self.fault))
    }
}

impl GuardedHttp {
    fn answered(
        &self,
        body: &[u8],
        message: &ClientJsonRpcMessage,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
            Ok(JsonRpcMessage::Error(mut error)) => {
                error.id = own_id(message).or(error.id);
                let answer = JsonRpcMessage::Error(error);
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            Err(_) if expects_no_answer(message) => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => {
                self.remember(Some(
                    "its answer is not a JSON-RPC message of the protocol".to_owned(),
                ));
                Err(StreamableHttpError::Deserialize(error))
            }
        }
    }

    /// An answer with an error status: a JSON-RPC error stays one, all else becomes words. A server that does not know
    /// `server/discover` (it is older than that method) answers with any status of 400 and above; for `rmcp` to fall back to
    /// `initialize` this must look like the JSON-RPC error that it means.
    async fn refused(
        &self,
        response: OutboundResponse,
        message: &ClientJsonRpcMessage,
        has_session: bool,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let status = response.status();
        let barred = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let body = self.body(response, most_bytes(message)).await?;
        let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) if !barred => Some(error),
            _ => None,
        };
        if let ClientJsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && !has_session
            && !barred
            && status != StatusCode::TOO_MANY_REQUESTS
        {
            let data = error.map_or_else(
                || ErrorData::invalid_request(format!("HTTP status {status}"), None),
                |error| error.error,
            );
            let answer = ServerJsonRpcMessage::error(data, Some(request.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
        if has_session && status == StatusCode::BAD_REQUEST && names_the_session(&body) {
            let is_ours = |id: &RequestId| own_id(message).as_ref() == Some(id);
            let is_of_another = |error: &JsonRpcError| !error.id.as_ref().is_some_and(is_ours);
            if error.as_ref().is_some_and(is_of_another) {
                // It did not look at the request, so that this may be made again in another session.
                return Err(StreamableHttpError::SessionExpired);
            }
            // The words may be those of the tool: nothing is repeated, and the next call connects anew.
            self.lost.store(true, Ordering::Release);
        }
        if let Some(mut error) = error {
            // Whoever refuses before reading the request cannot name it; without a name nobody would be told.
            error.id = own_id(message).or(error.id);
            let answer = JsonRpcMessage::Error(error);
            return Ok(StreamableHttpPostResponse::Json(answer, session));
        }
        let text = String::from_utf8_lossy(&body);
        let fault = match cut(text.trim(), MAX_REFUSAL_BYTES) {
            "" => format!("it answered with HTTP status {status}"),
            words => format!("it answered with HTTP status {status}: {words}"),
        };
        self.remember(Some(fault));
        // The library writes its errors to the log, where the server's words have no place: it may repeat what it was sent.
        let words = format!("HTTP status {status}");
        Err(StreamableHttpError::UnexpectedServerResponse(words.into()))
    }
}

fn expects_no_answer(message: &ClientJsonRpcMessage) -> bool {
    !matches!(message, ClientJsonRpcMessage::Request(_))
}

/// The longest answer to a message.
fn most_bytes(message: &ClientJsonRpcMessage) -> usize {
    match message {
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::ListToolsRequest(_)) =>
        {
            listing::MAX_BYTES
        }
        _ => MAX_JSON_BYTES,
    }
}

/// The id of a request; other messages have none.
fn own_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Many servers answer with 400 instead of 404 to a session that they no longer know: "No valid session ID provided".
fn names_the_session(body: &[u8]) -> bool {
    let words = String::from_utf8_lossy(&body[..body.len().min(MAX_REFUSAL_BYTES)]);
    words.to_lowercase().contains("session")
}

/// The events of a body, each of bounded size.
fn events(
    response: OutboundResponse,
    mut cap: EventCap,
    fault: &Arc<Mutex<Option<String>>>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let fault = Arc::clone(fault);
    let bytes = response.into_stream().map(move |chunk| {
        let checked = chunk.and_then(|chunk| cap.admit(&chunk).map(|()| chunk));
        if let Err(error) = &checked {
            *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
        checked
    });
    SseStream::from_bytes_stream(bytes).boxed()
}
