//! The floor: the cost of a server that only forwards the provider's bytes.
//!
//! axum and reqwest without anything else: the client posts, the provider is called with the same bytes, over the
//! same TLS library and HTTP version as by the server under test, and its response is streamed back. Nothing is
//! stored, parsed or resumable. `/v1/tool-loop` calls the provider, reads its response, calls the tool, calls the
//! provider again with the result and streams that response.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::provider::TOOL_PATH;
use crate::upstream::Endpoint;

#[derive(Clone)]
struct Proxy {
    client: reqwest::Client,
    provider_url: String,
    tool_url: String,
}

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, provider: &Endpoint) -> anyhow::Result<()> {
    let proxy = Proxy {
        client: provider.client()?,
        provider_url: format!("{}/v1/responses", provider.url),
        tool_url: format!("{}{TOOL_PATH}", provider.url),
    };
    let router = Router::new()
        .route("/v1/responses", post(forward))
        .route("/v1/tool-loop", post(forward_tool_loop))
        .with_state(proxy);
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).ok();
    });
    Ok(axum::serve(listener, router).await?)
}

async fn forward(State(proxy): State<Proxy>, body: Bytes) -> Response {
    stream_back(proxy.call_provider(body).await)
}

async fn forward_tool_loop(State(proxy): State<Proxy>, body: Bytes) -> Response {
    stream_back(proxy.run_tool_loop(body).await)
}

impl Proxy {
    async fn call_provider(&self, body: Bytes) -> reqwest::Result<reqwest::Response> {
        self.client
            .post(&self.provider_url)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
    }

    async fn run_tool_loop(&self, body: Bytes) -> reqwest::Result<reqwest::Response> {
        self.call_provider(body.clone()).await?.bytes().await?;
        let result = self.client.get(&self.tool_url).send().await?;
        let result = result.bytes().await?;
        self.call_provider(with_tool_result(&body, &result)).await
    }
}

/// Appends the tool's result to the request body.
fn with_tool_result(body: &[u8], result: &[u8]) -> Bytes {
    let open = body.strip_suffix(b"}").unwrap_or(body);
    let start = br#","result":{"type":"function_call_output","output":"#;
    [open, start, result, b"}}"].concat().into()
}

fn stream_back(response: reqwest::Result<reqwest::Response>) -> Response {
    match response {
        Ok(response) => {
            let status = response.status();
            let stream = Body::from_stream(response.bytes_stream());
            (status, [("content-type", "text/event-stream")], stream).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
