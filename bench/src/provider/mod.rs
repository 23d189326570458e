//! The scripted provider: OpenAI's Responses API and chat completions, reduced to a stream of tokens.
//!
//! A process of its own, so that its CPU time is not the server's; one thread; responses are built once and written
//! from memory. It listens without TLS (HTTP/1.1) and with TLS (HTTP/1.1 and HTTP/2 by ALPN).
//!
//! Other routes: `GET /lookup` is the tool that scripts call, `GET /stats` returns counters, `POST /stats/reset-peak`
//! resets `peak_open`, `GET /last` returns the last request body.

mod http1;
mod http2;
mod player;
mod responses;
mod tls;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::scripted_response::Api;
use crate::upstream::HttpVersion;

use player::Prepared;
use responses::ResponseCache;

pub(crate) use tls::{ProviderTls, create as create_tls};

/// Path of the tool that `call` scripts use.
pub(crate) const TOOL_PATH: &str = "/lookup";

/// Path that resets [`Stats::peak_open`].
pub(crate) const RESET_PEAK_PATH: &str = "/stats/reset-peak";

/// Pause before the next attempt when a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Model and tool calls so far.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// Model calls.
    pub(crate) requests: u64,
    /// Model calls over HTTP/2.
    pub(crate) http2_requests: u64,
    /// Model calls that were answered to the end.
    pub(crate) finished: u64,
    /// Model calls that are being answered.
    pub(crate) open: u64,
    /// The highest value of `open`.
    pub(crate) peak_open: u64,
    pub(crate) tool_calls: u64,
}

/// The listeners of the provider.
pub(crate) struct Listeners {
    pub(crate) plain: TcpListener,
    pub(crate) tls: TcpListener,
    pub(crate) acceptor: TlsAcceptor,
}

#[derive(Default)]
struct State {
    stats: Stats,
    last_body: Vec<u8>,
    responses: ResponseCache,
}

type Shared = Rc<RefCell<State>>;

/// What a request gets.
enum Reply {
    Json { status: u16, body: Vec<u8> },
    Stream(Prepared),
}

/// Serves until the task is dropped. Must run inside a `LocalSet`.
pub(crate) async fn serve(listeners: Listeners) -> anyhow::Result<()> {
    let shared = Shared::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listeners.plain.accept() => accepted.map(|(stream, _)| (stream, None)),
            accepted = listeners.tls.accept() => {
                accepted.map(|(stream, _)| (stream, Some(listeners.acceptor.clone())))
            }
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, acceptor)) = accepted else {
            // Too many open files, while the connections of a killed server are being closed.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let shared = Rc::clone(&shared);
        connections.spawn_local(async move {
            // A client that disconnects is not an error.
            match acceptor {
                None => serve_plain(stream, shared).await.ok(),
                Some(acceptor) => serve_tls(stream, &acceptor, shared).await.ok(),
            };
        });
    }
}

async fn serve_plain(stream: TcpStream, shared: Shared) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    http1::serve(stream, &shared).await
}

async fn serve_tls(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    shared: Shared,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
    let protocol = stream.get_ref().1.alpn_protocol();
    if protocol == Some(HttpVersion::Http2.alpn().as_bytes()) {
        http2::serve(stream, shared).await
    } else {
        http1::serve(stream, &shared).await
    }
}

/// Answers a request; `line` is its method and path.
fn reply(shared: &Shared, version: HttpVersion, line: &str, body: &[u8]) -> Reply {
    let api = match line {
        "POST /v1/responses" => Api::Responses,
        "POST /v1/chat/completions" => Api::Chat,
        _ => return other_route(&mut shared.borrow_mut(), line),
    };
    match player::prepare(shared, version, api, body) {
        Some(prepared) => Reply::Stream(prepared),
        None => error(400, "the name of the model is not a script"),
    }
}

fn other_route(state: &mut State, line: &str) -> Reply {
    let body = match line {
        "GET /lookup" => {
            state.stats.tool_calls += 1;
            br#"{"found":"a log that is kept"}"#.to_vec()
        }
        "GET /stats" => serde_json::to_vec(&state.stats).unwrap_or_default(),
        "POST /stats/reset-peak" => {
            state.stats.peak_open = state.stats.open;
            b"{}".to_vec()
        }
        "GET /last" => state.last_body.clone(),
        _ => return error(404, &format!("unknown route {line}")),
    };
    Reply::Json { status: 200, body }
}

fn error(status: u16, message: &str) -> Reply {
    let body = serde_json::json!({"error": {"message": message}});
    Reply::Json {
        status,
        body: body.to_string().into_bytes(),
    }
}
