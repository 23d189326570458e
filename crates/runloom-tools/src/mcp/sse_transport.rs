//! The transport of MCP 2024-11-05: a stream of server-sent events, whose first event names the URL that messages are
//! posted to. Responses come over the stream.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Url};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};
use sse_stream::Sse;

use super::event_limit::EventSizeLimit;
use super::http_client::{GuardedHttpClient, TransportError, events};
use super::session::McpError;
use crate::content::MAX_MCP_ERROR_BYTES;

/// An open stream and the URL for messages.
pub(super) struct SseTransport {
    http: GuardedHttpClient,
    post_url: Arc<str>,
    events: BoxStream<'static, Result<Sse, SseError>>,
}

impl SseTransport {
    /// Opens the stream and waits for the URL. The caller bounds the time.
    pub(super) async fn connect(http: &GuardedHttpClient, url: &str) -> Result<Self, McpError> {
        let mut events = http.open_events(url).await.map_err(|_| broken(http))?;
        while let Some(event) = events.next().await {
            let event = event.map_err(|_| broken(http))?;
            if event.event.as_deref() != Some("endpoint") {
                continue;
            }
            let post_url = same_origin(url, event.data.as_deref().unwrap_or_default())?;
            return Ok(Self {
                http: http.clone(),
                post_url: post_url.into(),
                events,
            });
        }
        Err(McpError::broken(
            "its event stream ended before it named the URL for messages",
        ))
    }
}

/// The last error, as the end of a session.
fn broken(http: &GuardedHttpClient) -> McpError {
    let message = http.last_error();
    McpError::broken(message.unwrap_or_else(|| "it cannot be reached".to_owned()))
}

/// The URL for messages. Headers of the definition are sent to it, so it must have the origin of the stream.
fn same_origin(stream: &str, endpoint: &str) -> Result<String, McpError> {
    let refused = || McpError::broken("the URL that it named for messages has another origin");
    let stream = Url::parse(stream).map_err(|_| refused())?;
    let endpoint = stream.join(endpoint.trim()).map_err(|_| refused())?;
    match stream.origin() == endpoint.origin() {
        true => Ok(endpoint.to_string()),
        false => Err(refused()),
    }
}

impl GuardedHttpClient {
    async fn open_events(
        &self,
        url: &str,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, TransportError> {
        let mut headers = self.headers().clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        // The stream lasts as long as the session; each event has a limit of its own.
        let request = self
            .request(Method::GET, url)?
            .headers(headers)
            .streaming()
            .at_most(usize::MAX);
        let response = self.send(request).await?;
        let is_stream = response.media_type().as_deref() == Some("text/event-stream");
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        if !is_stream {
            self.set_last_error("it answered without an event stream; is it an SSE endpoint?");
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let limit = EventSizeLimit::default();
        Ok(events(response, limit, self.error_slot()))
    }

    async fn post(&self, url: &str, message: &ClientJsonRpcMessage) -> Result<(), TransportError> {
        let mut headers = self.headers().clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = self
            .request(Method::POST, url)?
            .headers(headers)
            .body(serde_json::to_vec(message)?)
            .at_most(MAX_MCP_ERROR_BYTES);
        let response = self.send(request).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(self.refused(response).await),
        }
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = TransportError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), TransportError>> + Send + 'static {
        let (http, url) = (self.http.clone(), Arc::clone(&self.post_url));
        async move { http.post(&url, &message).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = self.events.next().await?.ok()?;
            if !matches!(event.event.as_deref(), None | Some("message" | "")) {
                continue;
            }
            match serde_json::from_str(event.data.as_deref().unwrap_or_default()) {
                Ok(message) => return Some(message),
                Err(error) => tracing::debug!(%error, "MCP server sent an invalid message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.events = stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_an_endpoint_of_another_origin() {
        let url = |endpoint: &str| same_origin("https://a.example/sse", endpoint).ok();
        let own = "https://a.example/messages?s=1".to_owned();
        assert_eq!(url("/messages?s=1"), Some(own.clone()));
        assert_eq!(url("https://a.example/messages?s=1"), Some(own));
        for other in [
            "https://b.example/m",
            "http://a.example/m",
            "//b.example/m",
            "https://a.example:8443/m",
        ] {
            assert_eq!(url(other), None, "{other}");
        }
    }
}
