//! The floor: what a server costs that does nothing but pass the provider's bytes on.
//!
//! Bare axum and reqwest: the client posts, the provider is called with the same bytes, its answer is streamed back.
//! Nothing is stored, nothing is parsed, nothing can be resumed.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Passage {
    client: reqwest::Client,
    url: String,
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
    };
    let router = Router::new()
        .route("/v1/responses", post(pass))
        .with_state(passage);
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).ok();
    });
    Ok(axum::serve(listener, router).await?)
}

async fn pass(State(passage): State<Passage>, body: Bytes) -> Response {
    let call = passage
        .client
        .post(&passage.url)
        .header("content-type", "application/json")
        .body(body);
    match call.send().await {
        Ok(answer) => {
            let status = answer.status();
            let stream = Body::from_stream(answer.bytes_stream());
            (status, [("content-type", "text/event-stream")], stream).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
