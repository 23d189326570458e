//! A scripted provider on loopback: one reply per request, in order. It records the requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// One response.
pub enum Reply {
    /// No response, not even a status.
    Never,
    /// A whole body.
    Whole {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// A body in chunks, with a content type.
    Chunks {
        content_type: &'static str,
        chunks: Vec<Vec<u8>>,
        then: Then,
    },
}

/// What happens after the last chunk.
pub enum Then {
    Close,
    Break,
    Hang,
    /// One byte after the other, without end.
    Trickle(Vec<u8>),
    /// Hangs, and reports when the client has closed.
    TellWhenGone(oneshot::Sender<()>),
}

/// One request.
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub peer: SocketAddr,
}

#[derive(Clone, Default)]
struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

pub struct Server {
    address: SocketAddr,
    script: Script,
    /// Ends the server when it is dropped.
    _serving: JoinSet<()>,
}

impl Server {
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script::default();
        script.replies.lock().unwrap().extend(replies);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .fallback(answer)
            .with_state(script.clone())
            .into_make_service_with_connect_info::<SocketAddr>();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            address,
            script,
            _serving: serving,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.script.asked.lock().unwrap())
    }
}

async fn answer(
    State(script): State<Script>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    script.asked.lock().unwrap().push(Asked {
        path: parts.uri.to_string(),
        headers: parts.headers,
        body,
        peer,
    });
    let reply = script.replies.lock().unwrap().pop_front();
    match reply {
        None => respond(StatusCode::IM_A_TEAPOT, &[], Body::from("nothing scripted")),
        Some(Reply::Never) => std::future::pending().await,
        Some(Reply::Whole {
            status,
            headers,
            body,
        }) => respond(
            StatusCode::from_u16(status).unwrap(),
            &headers,
            Body::from(body),
        ),
        Some(Reply::Chunks {
            content_type,
            chunks,
            then,
        }) => {
            let chunks = stream::iter(chunks).map(|chunk| Ok(Bytes::from(chunk)));
            respond(
                StatusCode::OK,
                &[("content-type", content_type.to_owned())],
                Body::from_stream(chunks.chain(rest(then))),
            )
        }
    }
}

fn respond(status: StatusCode, headers: &[(&'static str, String)], body: Body) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(body).unwrap()
}

type Rest = stream::BoxStream<'static, Result<Bytes, std::io::Error>>;

fn rest(then: Then) -> Rest {
    match then {
        Then::Close => stream::empty().boxed(),
        // One yield, so that what came before is sent before the connection breaks.
        Then::Break => stream::once(async {
            tokio::task::yield_now().await;
            Err(std::io::Error::other("broken"))
        })
        .boxed(),
        Then::Hang => stream::pending().boxed(),
        Then::Trickle(bytes) => stream::unfold((bytes, 0), |(bytes, at)| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let byte = Bytes::copy_from_slice(&bytes[at..=at]);
            let next = (at + 1) % bytes.len();
            Some((Ok(byte), (bytes, next)))
        })
        .boxed(),
        Then::TellWhenGone(teller) => {
            let teller = Teller(Some(teller));
            stream::once(async move {
                let _teller = teller;
                std::future::pending::<Infallible>().await;
                unreachable!("the future above never ends")
            })
            .boxed()
        }
    }
}

struct Teller(Option<oneshot::Sender<()>>);

impl Drop for Teller {
    fn drop(&mut self) {
        if let Some(teller) = self.0.take() {
            let _ = teller.send(());
        }
    }
}
