//! One live connection to an MCP server.

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

use super::endpoint::Checked;
use super::http::GuardedHttp;
use super::listing::{Listing, MAX_PAGES};
use super::process::Process;
use crate::host::ToolLimits;
use crate::outbound::Outbound;

/// How often a broken stream is resumed, and how long at most between two tries.
const MAX_RESUMES: usize = 3;
const RESUME_DELAY: Duration = Duration::from_millis(500);

/// How long a server may take to take the notice that a call is over.
const NOTICE_AT_MOST: Duration = Duration::from_secs(5);

/// The key of the call's id in `_meta`: a server can recognise a repeated call by it.
const TOOL_USE_ID: &str = "io.runloom/toolUseId";
/// Under which a server is told the span of a call, as the protocol's `_meta` has it.
const TRACE_PARENT: &str = "traceparent";

/// Why a connection or a call failed, in words for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Fault {
    pub(super) message: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The next attempt may succeed.
    Passing,
    /// The server answered, with a refusal.
    Refused,
    /// The connection is of no more use.
    Broken,
}

impl Fault {
    /// One that says nothing of the server.
    pub(super) fn passing(message: impl Into<String>) -> Self {
        let (message, kind) = (message.into(), Kind::Passing);
        Self { message, kind }
    }

    /// One after which the connection is of no more use.
    pub(super) fn broken(message: impl Into<String>) -> Self {
        let (message, kind) = (message.into(), Kind::Broken);
        Self { message, kind }
    }

    /// The connection is of no more use.
    pub(super) fn is_broken(&self) -> bool {
        self.kind == Kind::Broken
    }

    /// The server answered: it is there, and does not want to.
    pub(super) fn is_refusal(&self) -> bool {
        self.kind == Kind::Refused
    }
}

/// We offer a server nothing beyond asking it: no sampling, no roots, no elicitation.
#[derive(Debug, Clone)]
struct Client;

impl rmcp::ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("runloom", env!("CARGO_PKG_VERSION")),
        );
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }
}

/// A connection; dropping it ends the session.
pub(super) struct Link {
    service: RunningService<RoleClient, Client>,
    way: Way,
}

/// What a connection goes through.
enum Way {
    Http(GuardedHttp),
    /// Ends with the connection.
    Process(Process),
}

impl Way {
    /// Why the last exchange failed, when it is known.
    fn fault(&self) -> Option<String> {
        match self {
            Self::Http(http) => http.fault(),
            Self::Process(_) => None,
        }
    }
}

impl Link {
    /// Connects. The caller bounds the time.
    pub(super) async fn open(
        outbound: &Outbound,
        endpoint: &Checked,
        limits: &ToolLimits,
        tasks: &Tasks,
    ) -> Result<Self, Fault> {
        let (way, served) = match endpoint {
            Checked::Http { url, headers } => {
                let http = GuardedHttp::new(outbound.clone(), headers.clone(), limits.call_timeout);
                let transport = over_http(&http, url);
                // Newest protocol first, then the handshake of the older ones.
                let lifecycle = ClientLifecycleMode::Auto {
                    preferred_versions: vec![ProtocolVersion::LATEST],
                    legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
                };
                let served = Client.serve_with_lifecycle(transport, lifecycle).await;
                (Way::Http(http), served)
            }
            Checked::Process(launch) => {
                let (process, pipe) = Process::start(launch, tasks)?;
                // Every server on a pipe knows this handshake; some never answer a question from before it.
                let lifecycle = ClientLifecycleMode::Initialize;
                let served = Client.serve_with_lifecycle(pipe, lifecycle).await;
                (Way::Process(process), served)
            }
        };
        match served {
            Ok(service) => Ok(Self { service, way }),
            Err(_) => {
                let message = way
                    .fault()
                    .unwrap_or_else(|| "it does not speak the protocol".to_owned());
                Err(Fault::broken(message))
            }
        }
    }

    /// Whether a request can still be sent.
    pub(super) fn is_alive(&self) -> bool {
        let lost = matches!(&self.way, Way::Http(http) if http.is_lost());
        !lost && !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Waits until the server answers anything at all, a refusal too (true), or can no longer answer (false). The caller bounds the
    /// time.
    pub(super) async fn answers(&self) -> bool {
        let request = PingRequest {
            method: Default::default(),
            extensions: Default::default(),
        };
        let asking = async {
            let options = PeerRequestOptions::no_options();
            let request = ClientRequest::PingRequest(request);
            let sent = self
                .service
                .peer()
                .send_request_with_option(request, options);
            sent.await?.await_response().await
        };
        matches!(asking.await, Ok(_) | Err(ServiceError::McpError(_)))
    }

    /// Waits until the process behind it says something, whatever it is.
    pub(super) async fn says_something(&self) {
        match &self.way {
            Way::Http(_) => std::future::pending().await,
            Way::Process(process) => process.says_something().await,
        }
    }

    /// Ends the process behind it, if there is one, whoever still waits for it.
    pub(super) fn end(&self) {
        if let Way::Process(process) = &self.way {
            process.end();
        }
    }

    /// Every tool, page by page, up to the caps. The caller bounds the time.
    pub(super) async fn list(&self) -> Result<Listing, Fault> {
        let mut listing = Listing::default();
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
            let answer = match sent {
                Ok(handle) => handle.await_response().await,
                Err(error) => Err(error),
            };
            let page = match answer.map_err(|error| self.fault(&error))? {
                ServerResult::ListToolsResult(page) => page,
                _ => return Err(unexpected("tools/list")),
            };
            listing.add(page.tools);
            cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
            if cursor.is_none() || listing.is_full() {
                break;
            }
        }
        listing.is_cut |= cursor.is_some();
        Ok(listing)
    }

    /// Calls a tool. Progress keeps it alive up to the total; a cancel is passed on and ends it at once.
    pub(super) async fn call(
        &self,
        call: Call<'_>,
        limits: &ToolLimits,
        tasks: &Tasks,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, Fault> {
        let mut meta = RequestMetaObject::new();
        meta.insert(TOOL_USE_ID.to_owned(), Value::from(call.tool_use_id));
        if let Some(trace) = call.trace {
            meta.insert(TRACE_PARENT.to_owned(), Value::from(trace.to_string()));
        }
        let mut params = CallToolRequestParams::new(call.tool.to_owned());
        params.arguments = Some(call.arguments);
        let request = CallToolRequest::new(params);
        let options = PeerRequestOptions::with_timeout(call.idle)
            .reset_timeout_on_progress()
            .with_max_total_timeout(limits.call_timeout)
            .with_meta(meta);
        let peer = self.service.peer();
        let sending =
            peer.send_request_with_option(ClientRequest::CallToolRequest(request), options);
        let handle = tokio::select! {
            handle = sending => handle.map_err(|error| self.fault(&error))?,
            () = cancel.cancelled() => return Err(cancelled()),
        };
        let asked = Asked {
            peer,
            id: Some(handle.id.clone()),
            tasks,
        };
        // The library's own limit waits until the server has taken the notice that it is over.
        let at_most = limits.call_timeout.saturating_add(NOTICE_AT_MOST);
        tokio::select! {
            answer = tokio::time::timeout(at_most, handle.await_response()) => {
                let Ok(answer) = answer else {
                    return Err(silent(at_most));
                };
                asked.close();
                answer.map_err(|error| self.fault(&error))
            }
            () = cancel.cancelled() => Err(cancelled()),
        }
    }

    fn fault(&self, error: &ServiceError) -> Fault {
        let known = self.way.fault();
        match error {
            // The server's own refusal of the request, or the transport's words for a lost session.
            ServiceError::McpError(error) => Fault {
                message: error.message.to_string(),
                kind: Kind::Refused,
            },
            ServiceError::Timeout { timeout } => silent(*timeout),
            ServiceError::TransportSend(_) => {
                Fault::broken(known.unwrap_or_else(|| "it cannot be reached".to_owned()))
            }
            ServiceError::TransportClosed => {
                Fault::broken(known.unwrap_or_else(|| "the connection broke".to_owned()))
            }
            _ => Fault::broken("it answered in an unexpected way"),
        }
    }
}

fn over_http(http: &GuardedHttp, url: &str) -> StreamableHttpClientTransport<GuardedHttp> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(MAX_RESUMES);
    backoff.base_duration = RESUME_DELAY;
    config.retry_config = Arc::new(backoff) as Arc<dyn SseRetryPolicy>;
    config.max_sse_event_size = super::events::MAX_EVENT_BYTES;
    // Calls are bounded where they begin, by the runs that this process drives. Those that wait here would wait unsent while the time
    // that the server has for them runs.
    config.max_concurrent_requests = usize::MAX;
    StreamableHttpClientTransport::with_client(http.clone(), config)
}

/// What to call.
pub(super) struct Call<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: Map<String, Value>,
    pub(super) tool_use_id: &'a str,
    pub(super) trace: Option<TraceParent>,
    /// How long it may go on without a sign of life.
    pub(super) idle: Duration,
}

fn cancelled() -> Fault {
    Fault::passing("the call was cancelled")
}

pub(super) fn unexpected(method: &str) -> Fault {
    Fault::broken(format!("its answer to {method} is not of the protocol"))
}

fn silent(time: Duration) -> Fault {
    Fault::passing(format!("it gave no sign of life for {time:?}"))
}

/// A request under way. When it is given up, by a cancel or by whoever drops it because its time is over, the server is told: its
/// work would be for nobody.
struct Asked<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
    tasks: &'a Tasks,
}

impl Asked<'_> {
    /// It was answered, or the library has told the server.
    fn close(mut self) {
        self.id = None;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take().filter(|_| !self.tasks.kill.is_cancelled()) else {
            return;
        };
        let reason = Some("nobody waits for it any more".to_owned());
        let params = CancelledNotificationParam::new(Some(id), reason);
        let (peer, notice) = (self.peer.clone(), CancelledNotification::new(params));
        // Nobody waits for the server to take it.
        self.tasks.spawn("mcp cancel notice", async move {
            let sent = peer.send_notification(notice.into());
            if tokio::time::timeout(NOTICE_AT_MOST, sent).await.is_err() {
                tracing::debug!("an MCP server did not take a cancellation in time");
            }
        });
    }
}
