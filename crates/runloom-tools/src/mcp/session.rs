//! One session with an MCP server.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest,
    PaginatedRequestParams, PingRequest, ProtocolVersion, RequestId, RequestMetaObject,
    ServerResult,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, Peer, PeerRequestOptions, RoleClient,
    RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::{ExponentialBackoff, SseRetryPolicy};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use runloom_ports::tasks::Tasks;
use runloom_ports::trace::TraceParent;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::endpoint::McpAddress;
use super::http_client::GuardedHttpClient;
use super::listing::{MAX_PAGES, ToolListing};
use super::process::Process;
use super::sse_transport::SseTransport;
use crate::outbound::Outbound;
use crate::tool_limits::ToolLimits;

/// How often a broken stream is resumed, and the longest pause before it.
const MAX_RESUMES: usize = 3;
const RESUME_DELAY: Duration = Duration::from_millis(500);

/// Timeout of a cancellation notice.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);

/// Key of the call's id in `_meta`, so that a server can recognise a repeated call.
const TOOL_USE_ID: &str = "io.runloom/toolUseId";
/// Key of the call's trace context in `_meta`.
const TRACE_PARENT: &str = "traceparent";

/// Why a session or a call failed. The message is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct McpError {
    pub(super) message: String,
    kind: McpErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum McpErrorKind {
    /// The session can be used further.
    Transient,
    /// The server answered with an error.
    Refused,
    /// The session is unusable.
    Broken,
}

impl McpError {
    /// An error after which the session can be used further.
    pub(super) fn transient(message: impl Into<String>) -> Self {
        let (message, kind) = (message.into(), McpErrorKind::Transient);
        Self { message, kind }
    }

    /// An error that makes the session unusable.
    pub(super) fn broken(message: impl Into<String>) -> Self {
        let (message, kind) = (message.into(), McpErrorKind::Broken);
        Self { message, kind }
    }

    /// Whether the session is unusable.
    pub(super) fn is_broken(&self) -> bool {
        self.kind == McpErrorKind::Broken
    }

    /// Whether the server answered with an error.
    pub(super) fn is_refusal(&self) -> bool {
        self.kind == McpErrorKind::Refused
    }
}

/// Client without optional capabilities: no sampling, no roots, no elicitation.
#[derive(Debug, Clone)]
struct McpClientInfo;

impl rmcp::ClientHandler for McpClientInfo {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("runloom", env!("CARGO_PKG_VERSION")),
        );
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }
}

/// A session; dropping it ends it.
pub(super) struct McpSession {
    service: RunningService<RoleClient, McpClientInfo>,
    transport: McpTransport,
}

/// The transport of a session.
enum McpTransport {
    Http(GuardedHttpClient),
    /// The process ends with the session.
    Process(Process),
}

impl McpTransport {
    /// Why the last request failed, if it is known.
    fn last_error(&self) -> Option<String> {
        match self {
            Self::Http(http) => http.last_error(),
            Self::Process(_) => None,
        }
    }
}

impl McpSession {
    /// Connects. The caller bounds the time.
    pub(super) async fn open(
        outbound: &Outbound,
        address: &McpAddress,
        limits: &ToolLimits,
        tasks: &Tasks,
    ) -> Result<Self, McpError> {
        let (transport, served) = match address {
            McpAddress::Http { url, headers } => {
                let http =
                    GuardedHttpClient::new(outbound.clone(), headers.clone(), limits.call_timeout);
                let transport = http_transport(&http, url);
                // The newest protocol first, then the handshake of older ones.
                let lifecycle = ClientLifecycleMode::Auto {
                    preferred_versions: vec![ProtocolVersion::LATEST],
                    legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
                };
                let served = McpClientInfo
                    .serve_with_lifecycle(transport, lifecycle)
                    .await;
                (McpTransport::Http(http), served)
            }
            McpAddress::Sse { url, headers } => {
                let http =
                    GuardedHttpClient::new(outbound.clone(), headers.clone(), limits.call_timeout);
                let transport = SseTransport::connect(&http, url).await?;
                // The transport is older than `server/discover`.
                let lifecycle = ClientLifecycleMode::Initialize;
                let served = McpClientInfo
                    .serve_with_lifecycle(transport, lifecycle)
                    .await;
                (McpTransport::Http(http), served)
            }
            McpAddress::Process(launch) => {
                let (process, pipe) = Process::start(launch, tasks)?;
                // Every server on a pipe supports this handshake; some do not answer requests before it.
                let lifecycle = ClientLifecycleMode::Initialize;
                let served = McpClientInfo.serve_with_lifecycle(pipe, lifecycle).await;
                (McpTransport::Process(process), served)
            }
        };
        match served {
            Ok(service) => Ok(Self { service, transport }),
            Err(_) => {
                let message = transport
                    .last_error()
                    .unwrap_or_else(|| "it does not speak the protocol".to_owned());
                Err(McpError::broken(message))
            }
        }
    }

    /// Whether a request can still be sent.
    pub(super) fn is_alive(&self) -> bool {
        let is_expired =
            matches!(&self.transport, McpTransport::Http(http) if http.is_session_expired());
        !is_expired && !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Pings the server. Returns true on any answer, also an error, and false when none can come any more. The caller
    /// bounds the time.
    pub(super) async fn ping(&self) -> bool {
        let request = PingRequest {
            method: Default::default(),
            extensions: Default::default(),
        };
        let pinging = async {
            let options = PeerRequestOptions::no_options();
            let request = ClientRequest::PingRequest(request);
            let sent = self
                .service
                .peer()
                .send_request_with_option(request, options);
            sent.await?.await_response().await
        };
        matches!(pinging.await, Ok(_) | Err(ServiceError::McpError(_)))
    }

    /// Waits for any output of the session's process; for ever if it has none.
    pub(super) async fn process_output(&self) {
        match &self.transport {
            McpTransport::Http(_) => std::future::pending().await,
            McpTransport::Process(process) => process.output().await,
        }
    }

    /// Kills the session's process, if it has one. Pending calls fail.
    pub(super) fn kill_process(&self) {
        if let McpTransport::Process(process) = &self.transport {
            process.kill();
        }
    }

    /// Lists the tools, page by page, up to the limits. The caller bounds the time.
    pub(super) async fn list(&self) -> Result<ToolListing, McpError> {
        let mut listing = ToolListing::default();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = cursor
                .take()
                .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest {
                method: Default::default(),
                params,
                extensions: Default::default(),
            };
            let sent = self
                .service
                .peer()
                .send_request_with_option(
                    ClientRequest::ListToolsRequest(request),
                    PeerRequestOptions::no_options(),
                )
                .await;
            let response = match sent {
                Ok(handle) => handle.await_response().await,
                Err(error) => Err(error),
            };
            let page = match response.map_err(|error| self.error(&error))? {
                ServerResult::ListToolsResult(page) => page,
                _ => return Err(invalid_response("tools/list")),
            };
            listing.add(page.tools);
            cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
            if cursor.is_none() || listing.is_full() {
                break;
            }
        }
        listing.is_truncated |= cursor.is_some();
        Ok(listing)
    }

    /// Calls a tool. Progress notifications extend the idle timeout up to the total timeout; a cancel is passed on to
    /// the server and ends the call at once.
    pub(super) async fn call(
        &self,
        call: ToolCall<'_>,
        limits: &ToolLimits,
        tasks: &Tasks,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, McpError> {
        let mut meta = RequestMetaObject::new();
        meta.insert(TOOL_USE_ID.to_owned(), Value::from(call.tool_use_id));
        if let Some(trace) = call.trace {
            meta.insert(TRACE_PARENT.to_owned(), Value::from(trace.to_string()));
        }
        let mut params = CallToolRequestParams::new(call.tool.to_owned());
        params.arguments = Some(call.arguments);
        let request = CallToolRequest::new(params);
        let options = PeerRequestOptions::with_timeout(call.idle_timeout)
            .reset_timeout_on_progress()
            .with_max_total_timeout(limits.call_timeout)
            .with_meta(meta);
        let peer = self.service.peer();
        let sending =
            peer.send_request_with_option(ClientRequest::CallToolRequest(request), options);
        let handle = tokio::select! {
            handle = sending => handle.map_err(|error| self.error(&error))?,
            () = cancel.cancelled() => return Err(cancelled()),
        };
        let pending = PendingRequest {
            peer,
            id: Some(handle.id.clone()),
            tasks,
        };
        // The library's own timeout waits until the server has received the cancellation notice.
        let timeout = limits.call_timeout.saturating_add(NOTICE_TIMEOUT);
        tokio::select! {
            response = tokio::time::timeout(timeout, handle.await_response()) => {
                let Ok(response) = response else {
                    return Err(no_response(timeout));
                };
                pending.complete();
                response.map_err(|error| self.error(&error))
            }
            () = cancel.cancelled() => Err(cancelled()),
        }
    }

    fn error(&self, error: &ServiceError) -> McpError {
        let known = self.transport.last_error();
        match error {
            // The server's own error, or the transport's message for an expired session.
            ServiceError::McpError(error) => McpError {
                message: error.message.to_string(),
                kind: McpErrorKind::Refused,
            },
            ServiceError::Timeout { timeout } => no_response(*timeout),
            ServiceError::TransportSend(_) => {
                McpError::broken(known.unwrap_or_else(|| "it cannot be reached".to_owned()))
            }
            ServiceError::TransportClosed => {
                McpError::broken(known.unwrap_or_else(|| "the connection broke".to_owned()))
            }
            _ => McpError::broken("its response is not valid in the protocol"),
        }
    }
}

fn http_transport(
    http: &GuardedHttpClient,
    url: &str,
) -> StreamableHttpClientTransport<GuardedHttpClient> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(MAX_RESUMES);
    backoff.base_duration = RESUME_DELAY;
    config.retry_config = Arc::new(backoff) as Arc<dyn SseRetryPolicy>;
    config.max_sse_event_size = super::event_limit::MAX_EVENT_BYTES;
    // Calls are limited by the number of runs of this process. A limit here would let calls wait unsent while their
    // timeout runs.
    config.max_concurrent_requests = usize::MAX;
    StreamableHttpClientTransport::with_client(http.clone(), config)
}

/// One call of a tool.
pub(super) struct ToolCall<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: Map<String, Value>,
    pub(super) tool_use_id: &'a str,
    pub(super) trace: Option<TraceParent>,
    /// Timeout without a response or progress.
    pub(super) idle_timeout: Duration,
}

fn cancelled() -> McpError {
    McpError::transient("the call was cancelled")
}

pub(super) fn invalid_response(method: &str) -> McpError {
    McpError::broken(format!(
        "its response to {method} is not valid in the protocol"
    ))
}

fn no_response(timeout: Duration) -> McpError {
    McpError::transient(format!("no response or progress within {timeout:?}"))
}

/// A request without a response. When it is dropped, after a cancel or a timeout, the server is sent a cancellation
/// notice.
struct PendingRequest<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
    tasks: &'a Tasks,
}

impl PendingRequest<'_> {
    /// Notes that the request was answered, or that the library has sent the notice itself.
    fn complete(mut self) {
        self.id = None;
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let is_interrupted = self.tasks.shutdown.is_interrupted();
        let Some(id) = self.id.take().filter(|_| !is_interrupted) else {
            return;
        };
        let reason = Some("the caller no longer waits".to_owned());
        let params = CancelledNotificationParam::new(Some(id), reason);
        let (peer, notice) = (self.peer.clone(), CancelledNotification::new(params));
        self.tasks.spawn("mcp_cancel_notice", async move {
            let sent = peer.send_notification(notice.into());
            if tokio::time::timeout(NOTICE_TIMEOUT, sent).await.is_err() {
                tracing::debug!("MCP cancellation notice timed out");
            }
        });
    }
}
