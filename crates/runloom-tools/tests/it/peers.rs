//! Scripted peers: HTTP servers that answer as a test says and remember what they heard.

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
    ToolHost,
};
use runloom_protocol::id::RunId;
use runloom_protocol::tools::ToolRef;
use runloom_tools::outbound::{Outbound, OutboundPolicy};
use runloom_tools::{Host, HostParts, PluginSet, SandboxProgram, ToolLimits};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// One request as a peer saw it.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Heard {
    pub(crate) fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A server on loopback; it ends with the test.
pub(crate) struct Peer {
    pub(crate) url: String,
    pub(crate) heard: Arc<Mutex<Vec<Heard>>>,
    tasks: Tasks,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.tasks.stop.cancel();
    }
}

impl Peer {
    /// Answers each request by the script.
    pub(crate) async fn start<F, A>(script: F) -> Self
    where
        F: Fn(Heard) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let (log, tasks) = (Arc::clone(&heard), Tasks::default());
        let script: Arc<dyn Fn(Heard) -> Answer + Send + Sync> =
            Arc::new(move |heard| Box::pin(script(heard)) as Answer);
        let router = axum::Router::new().fallback(
            move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
                let heard = Heard {
                    method,
                    path: uri.path().to_owned(),
                    query: uri.query().unwrap_or_default().to_owned(),
                    headers,
                    body: serde_json::from_slice(&body).unwrap_or(Value::Null),
                };
                log.lock().unwrap().push(heard.clone());
                script(heard)
            },
        );
        let stop = tasks.stop.clone();
        tasks.spawn("peer", async move {
            let _ = stop
                .run_until_cancelled(async { axum::serve(listener, router).await })
                .await;
        });
        Self { url, heard, tasks }
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// How often a JSON-RPC method was asked for.
    pub(crate) fn count(&self, method: &str) -> usize {
        let heard = self.heard();
        heard.iter().filter(|h| h.rpc_method() == method).count()
    }

    /// Waits until the peer has heard something that matches.
    pub(crate) async fn until(&self, matches: impl Fn(&Heard) -> bool) {
        let seen = async {
            while !self.heard().iter().any(&matches) {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), seen)
            .await
            .expect("the peer never heard it");
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

pub(crate) fn result(heard: &Heard, result: &Value) -> Response {
    reply(&json!({"jsonrpc": "2.0", "id": heard.body["id"], "result": result}))
}

pub(crate) fn rpc_error(heard: &Heard, code: i64, message: &str) -> Response {
    reply(
        &json!({"jsonrpc": "2.0", "id": heard.body["id"], "error": {"code": code, "message": message}}),
    )
}

pub(crate) fn typed(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([("content-type", media_type)], body.into()).into_response()
}

/// A body that says this and then nothing more, without ending.
pub(crate) fn hanging(beginning: &str) -> Body {
    use futures_util::StreamExt as _;
    let first = Ok::<_, std::io::Error>(Bytes::from(beginning.to_owned()));
    let never = futures_util::stream::pending();
    Body::from_stream(futures_util::stream::iter([first]).chain(never))
}

/// A body that says this and then breaks.
pub(crate) fn broken(beginning: &str) -> Body {
    let parts = [
        Ok(Bytes::from(beginning.to_owned())),
        Err(std::io::Error::other("cut")),
    ];
    Body::from_stream(futures_util::stream::iter(parts))
}

/// Loopback is where the peers are.
pub(crate) fn open_policy() -> OutboundPolicy {
    OutboundPolicy {
        allow_hosts: vec!["127.0.0.1".to_owned()],
        ..OutboundPolicy::default()
    }
}

/// What a test defines: tools as JSON, secrets in clear.
#[derive(Default)]
pub(crate) struct Defined {
    pub(crate) tools: Vec<(String, ToolDefinition)>,
    pub(crate) secrets: Vec<(String, String)>,
    pub(crate) plugins: Vec<PluginManifest>,
    pub(crate) configured: PluginSet,
    /// How often the store is away before it answers.
    pub(crate) away: AtomicUsize,
}

impl Defined {
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
impl ToolDefinitions for Defined {
    async fn tool(&self, _: &str, id_or_slug: &str) -> Result<Option<ToolDefinition>> {
        self.reach()?;
        let found = self.tools.iter().find(|(slug, _)| slug == id_or_slug);
        Ok(found.map(|(_, tool)| tool.clone()))
    }

    async fn plugins(&self, _: &str) -> Result<Vec<PluginManifest>> {
        self.reach()?;
        Ok(self.plugins.clone())
    }

    async fn secret(&self, _: &str, name: &str) -> Result<Option<Secret>> {
        let found = self.secrets.iter().find(|(known, _)| known == name);
        Ok(found.map(|(_, clear)| Secret::new(clear.as_str())))
    }
}

/// A host with its own tasks.
pub(crate) struct Bed {
    pub(crate) host: Host,
    pub(crate) tasks: Tasks,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.tasks.stop.cancel();
    }
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(open_policy(), ToolLimits::default())
    }

    pub(crate) fn with(policy: OutboundPolicy, limits: ToolLimits) -> Self {
        Self::defining(Defined::default(), policy, limits)
    }

    pub(crate) fn defining(defined: Defined, policy: OutboundPolicy, limits: ToolLimits) -> Self {
        let tasks = Tasks::default();
        let parts = HostParts {
            outbound: Outbound::new(policy).unwrap(),
            plugins: defined.configured.clone(),
            definitions: Arc::new(defined),
            memory: None,
            // Code tools are tested where the program is.
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

    /// Short patience, for peers that never answer.
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
        let refs: Vec<ToolRef> = serde_json::from_value(refs.clone()).unwrap();
        let context = ToolContext {
            workspace: workspace.into(),
            run: RunId::from_suffix(1),
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
