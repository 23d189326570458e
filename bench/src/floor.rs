//! The floor: what a server costs that does nothing but pass the provider's bytes on.
//!
//! Bare axum and reqwest: the client posts, the provider is called with the same bytes, its answer is streamed back.
//! Nothing is stored, nothing is parsed, nothing can be resumed. `/v1/loop` is the same for a tool loop: the provider is called,
//! its answer read to the end, the tool called, and the provider called once more with the result; that answer is streamed.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::provider::TOOL_PATH;

#[derive(Clone)]
struct Passage {
    client: reqwest::Client,
    url: String,
    tool: String,
}

/// Serves until the task is dropped; `provider` is the provider's address, as in `http://127.0.0.1:4000`.
pub(crate) async fn serve(listener: TcpListener, provider: &str) -> anyhow::Result<()> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()?;
    let passage = Passage {
        client,
        url: format!("{provider}/v1/responses"),
        tool: format!("{provider}{TOOL_PATH}"),
    };
    let router = Router::new()
        .route("/v1/responses", post(pass))
        .route("/v1/loop", post(tool_loop))
        .with_state(passage);
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).ok();
    });
    Ok(axum::serve(listener, router).await?)
}

async fn pass(State(passage): State<Passage>, body: Bytes) -> Response {
    answer(passage.ask(body).await)
}

async fn tool_loop(State(passage): State<Passage>, body: Bytes) -> Response {
    answer(passage.go_round(body).await)
}

impl Passage {
    async fn ask(&self, body: Bytes) -> reqwest::Result<reqwest::Response> {
        self.client
            .post(&self.url)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
    }

    async fn go_round(&self, body: Bytes) -> reqwest::Result<reqwest::Response> {
        self.ask(body.clone()).await?.bytes().await?;
        let found = self.client.get(&self.tool).send().await?.bytes().await?;
        self.ask(with_result(&body, &found)).await
    }
}

/// The request once more, with the tool's result behind it.
fn with_result(body: &[u8], found: &[u8]) -> Bytes {
    let open = body.strip_suffix(b"}").unwrap_or(body);
    let result = br#","result":{"type":"function_call_output","output":"#;
    [open, result, found, b"}}"].concat().into()
}

fn answer(asked: reqwest::Result<reqwest::Response>) -> Response {
    match asked {
        Ok(answer) => {
            let status = answer.status();
            let stream = Body::from_stream(answer.bytes_stream());
            (status, [("content-type", "text/event-stream")], stream).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
