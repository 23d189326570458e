//! Scripted peers: HTTP servers on loopback that record their requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use runloom_ports::error::{Error, Result};
use runloom_ports::secret::Secret;
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{
    Invocation, Outcome, PluginManifest, ServerTool, ToolContext, ToolDefinition, ToolDefinitions,
    ToolHost, Toolset,
};
use runloom_protocol::id::RunId;
use runloom_protocol::tools::ToolRef;
use runloom_tools::outbound::{Outbound, OutboundPolicy};
use runloom_tools::{Host, HostParts, PluginSet, SandboxProgram, ToolLimits};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// One request that a peer received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    pub(crate) fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An HTTP server on loopback; it stops when it is dropped.
pub(crate) struct Peer {
    pub(crate) url: String,
    pub(crate) received: Arc<Mutex<Vec<ReceivedRequest>>>,
    tasks: Tasks,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.tasks.shutdown.drain();
    }
}

impl Peer {
    /// Starts a server that answers each request with `script`.
    pub(crate) async fn start<F, A>(script: F) -> Self
    where
        F: Fn(ReceivedRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (log, tasks) = (Arc::clone(&received), Tasks::default());
        let script: Arc<dyn Fn(ReceivedRequest) -> Answer + Send + Sync> =
            Arc::new(move |received| Box::pin(script(received)) as Answer);
        let router = axum::Router::new().fallback(
            move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
                let received = ReceivedRequest {
                    method,
                    path: uri.path().to_owned(),
                    query: uri.query().unwrap_or_default().to_owned(),
                    headers,
                    body: serde_json::from_slice(&body).unwrap_or(Value::Null),
                };
                log.lock().unwrap().push(received.clone());
                script(received)
            },
        );
        let shutdown = tasks.shutdown.clone();
        tasks.spawn("peer", async move {
            let _ = shutdown
                .until_draining(async { axum::serve(listener, router).await })
                .await;
        });
        Self {
            url,
            received,
            tasks,
        }
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// The number of requests of a JSON-RPC method.
    pub(crate) fn count(&self, method: &str) -> usize {
        let received = self.received();
        received.iter().filter(|h| h.rpc_method() == method).count()
    }

    /// Waits for a matching request.
    pub(crate) async fn until(&self, matches: impl Fn(&ReceivedRequest) -> bool) {
        let seen = async {
            while !self.received().iter().any(&matches) {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), seen)
            .await
            .expect("the peer never received it");
    }
}

pub(crate) fn status(code: u16) -> Response {
    StatusCode::from_u16(code).unwrap().into_response()
}

pub(crate) fn redirect(code: u16, to: &str) -> Response {
    let mut response = status(code);
    response.headers_mut().insert(LOCATION, to.parse().unwrap());
    response
}

pub(crate) fn reply(body: &Value) -> Response {
    axum::Json(body).into_response()
}

pub(crate) fn result(received: &ReceivedRequest, result: &Value) -> Response {
    reply(&json!({"jsonrpc": "2.0", "id": received.body["id"], "result": result}))
}

pub(crate) fn rpc_error(received: &ReceivedRequest, code: i64, message: &str) -> Response {
    reply(
        &json!({"jsonrpc": "2.0", "id": received.body["id"], "error": {"code": code, "message": message}}),
    )
}

pub(crate) fn typed(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([("content-type", media_type)], body.into()).into_response()
}

/// A body that begins with `beginning` and does not end.
pub(crate) fn hanging(beginning: &str) -> Body {
    use futures_util::StreamExt as _;
    let first = Ok::<_, std::io::Error>(Bytes::from(beginning.to_owned()));
    let never = futures_util::stream::pending();
    Body::from_stream(futures_util::stream::iter([first]).chain(never))
}

/// A body that begins with `beginning` and breaks.
pub(crate) fn broken(beginning: &str) -> Body {
    let parts = [
        Ok(Bytes::from(beginning.to_owned())),
        Err(std::io::Error::other("cut")),
    ];
    Body::from_stream(futures_util::stream::iter(parts))
}

/// A policy that allows loopback, where the peers are.
pub(crate) fn open_policy() -> OutboundPolicy {
    OutboundPolicy {
        allow_hosts: vec!["127.0.0.1".to_owned()],
        ..OutboundPolicy::default()
    }
}

/// Tool definitions, plugins and secrets of a test.
#[derive(Default)]
pub(crate) struct TestDefinitions {
    pub(crate) tools: Vec<(String, ToolDefinition)>,
    pub(crate) secrets: Vec<(String, String)>,
    pub(crate) plugins: Vec<PluginManifest>,
    pub(crate) toolsets: Arc<Mutex<Vec<Toolset>>>,
    pub(crate) configured: PluginSet,
    /// How many reads fail before the store is available.
    pub(crate) away: AtomicUsize,
}

impl TestDefinitions {
    fn reach(&self) -> Result<()> {
        let left = |left: usize| left.checked_sub(1);
        let away = self
            .away
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        match away {
            Err(_) => Ok(()),
            Ok(_) => Err(Error::Unavailable {
                message: "The store is away.".to_owned(),
                retry_after: Duration::from_secs(1),
            }),
        }
    }
}

#[async_trait::async_trait]
impl ToolDefinitions for TestDefinitions {
    async fn tool(&self, _: &str, id_or_slug: &str) -> Result<Option<ToolDefinition>> {
        self.reach()?;
        let found = self.tools.iter().find(|(slug, _)| slug == id_or_slug);
        Ok(found.map(|(_, tool)| tool.clone()))
    }

    async fn plugins(&self, _: &str) -> Result<Vec<PluginManifest>> {
        self.reach()?;
        Ok(self.plugins.clone())
    }

    async fn toolset(&self, _: &str, id_or_slug: &str) -> Result<Option<Toolset>> {
        let toolsets = self.toolsets.lock().unwrap();
        let found = toolsets.iter().find(|toolset| toolset.slug == id_or_slug);
        Ok(found.cloned())
    }

    async fn secret(&self, _: &str, name: &str) -> Result<Option<Secret>> {
        let found = self.secrets.iter().find(|(known, _)| known == name);
        Ok(found.map(|(_, clear)| Secret::new(clear.as_str())))
    }
}

/// A tool host with its own tasks.
pub(crate) struct TestBed {
    pub(crate) host: Host,
    pub(crate) tasks: Tasks,
}

impl Drop for TestBed {
    fn drop(&mut self) {
        self.tasks.shutdown.drain();
    }
}

impl TestBed {
    pub(crate) fn new() -> Self {
        Self::with(open_policy(), ToolLimits::default())
    }

    pub(crate) fn with(policy: OutboundPolicy, limits: ToolLimits) -> Self {
        Self::defining(TestDefinitions::default(), policy, limits)
    }

    pub(crate) fn defining(
        defined: TestDefinitions,
        policy: OutboundPolicy,
        limits: ToolLimits,
    ) -> Self {
        let tasks = Tasks::default();
        let parts = HostParts {
            project: None,
            outbound: Outbound::new(policy).unwrap(),
            plugins: defined.configured.clone(),
            definitions: Arc::new(defined),
            memory: None,
            // Code tools are tested in the crate with the binary.
            sandbox: Some(SandboxProgram {
                program: "/nonexistent".into(),
                arguments: Vec::new(),
            }),
            limits,
        };
        Self {
            host: Host::new(parts, &tasks),
            tasks,
        }
    }

    /// A host with a short resolve timeout, for peers that never answer.
    pub(crate) fn impatient() -> Self {
        let limits = ToolLimits {
            resolve_timeout: Duration::from_millis(400),
            ..ToolLimits::default()
        };
        Self::with(open_policy(), limits)
    }

    pub(crate) async fn resolve(&self, refs: &Value) -> (ToolContext, Vec<ServerTool>) {
        self.resolve_in("acme", refs).await
    }

    pub(crate) async fn resolve_in(
        &self,
        workspace: &str,
        refs: &Value,
    ) -> (ToolContext, Vec<ServerTool>) {
        self.resolve_for(workspace, RunId::from_suffix(1), refs)
            .await
    }

    pub(crate) async fn resolve_for(
        &self,
        workspace: &str,
        run: RunId,
        refs: &Value,
    ) -> (ToolContext, Vec<ServerTool>) {
        let refs: Vec<ToolRef> = serde_json::from_value(refs.clone()).unwrap();
        let context = ToolContext {
            session: None,
            project: None,
            workspace: workspace.into(),
            run,
            refs: Arc::new(refs.clone()),
        };
        let tools = self.host.resolve(&context, &refs).await;
        (context, tools)
    }

    pub(crate) async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        input: Value,
    ) -> Outcome {
        self.call_until(context, tool, input, CancellationToken::new())
            .await
    }

    pub(crate) async fn call_until(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        input: Value,
        cancel: CancellationToken,
    ) -> Outcome {
        let call = Invocation {
            tool_use_id: "tu_1".to_owned(),
            input,
            trace: None,
        };
        let calling = self.host.call(context, tool, call, cancel);
        tokio::time::timeout(Duration::from_secs(30), calling)
            .await
            .expect("every call ends")
    }
}
