//! `server/discover` over HTTP. Servers older than this request answer it in many ways: an error status, 202, a page of
//! HTML, an empty result, or not at all. All of them become a JSON-RPC error with the request's id, after which `rmcp`
//! falls back to `initialize`.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::StatusCode;
use rmcp::model::{
    ErrorData, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_client::StreamableHttpPostResponse;

use super::event_limit::EventSizeLimit;
use super::http_client::{GuardedHttpClient, MAX_JSON_BYTES, TransportError, events};
use crate::outbound::{OutboundRequest, OutboundResponse};

/// Timeout of the whole request; servers that ignore it are asked to `initialize` afterwards.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(4);

impl GuardedHttpClient {
    /// Sends `server/discover`.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses the caller.
    pub(super) async fn discover(
        &self,
        request: OutboundRequest,
        id: RequestId,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let asking = async {
            let response = self.send(request).await?;
            if is_refusal(response.status()) {
                return Ok(Discovery::Refused(response));
            }
            Ok(Discovery::Answered(self.answer(response).await))
        };
        let answer = match tokio::time::timeout(DISCOVERY_TIMEOUT, asking).await {
            Ok(Ok(Discovery::Refused(response))) => {
                return Err(self.refused(response).await);
            }
            Ok(Ok(Discovery::Answered(answer))) => answer,
            Ok(Err(error)) => return Err(error),
            Err(_) => None,
        };
        self.clear_last_error();
        let message = match answer {
            Some(ServerResult::DiscoverResult(result))
                if result.supported_versions.contains(&ProtocolVersion::LATEST) =>
            {
                ServerJsonRpcMessage::response(ServerResult::DiscoverResult(result), id)
            }
            _ => {
                let error = ErrorData::invalid_request("server/discover is not supported", None);
                ServerJsonRpcMessage::error(error, Some(id))
            }
        };
        Ok(StreamableHttpPostResponse::Json(message, None))
    }

    /// The result, if the response has one.
    async fn answer(&self, response: OutboundResponse) -> Option<ServerResult> {
        if !response.status().is_success() {
            return None;
        }
        match response.media_type().as_deref() {
            Some("application/json") => {
                let body = self.body(response, MAX_JSON_BYTES).await.ok()?;
                result_of(&body)
            }
            Some("text/event-stream") => {
                let limit = EventSizeLimit::new(MAX_JSON_BYTES);
                let mut events = events(response, limit, self.error_slot());
                while let Some(Ok(event)) = events.next().await {
                    let data = event.data.unwrap_or_default();
                    if let Some(result) = result_of(data.as_bytes()) {
                        return Some(result);
                    }
                }
                None
            }
            _ => None,
        }
    }
}

/// How a server took the request.
#[expect(clippy::large_enum_variant, reason = "made once per connection")]
enum Discovery {
    Refused(OutboundResponse),
    Answered(Option<ServerResult>),
}

/// Whether the caller is refused whatever it asks; `initialize` would be refused, too.
fn is_refusal(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
    )
}

fn result_of(body: &[u8]) -> Option<ServerResult> {
    match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
        Ok(JsonRpcMessage::Response(response)) => Some(response.result),
        _ => None,
    }
}
