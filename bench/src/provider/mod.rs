//! The scripted provider: OpenAI's Responses API and chat completions, reduced to a stream of tokens.
//!
//! A process of its own, so that its CPU time is not the server's; one thread; responses are built once and written from
//! memory. `GET /lookup` is the tool that scripts call, `GET /stats` returns counters, `GET /last` the last request body.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::http::{LAST_CHUNK, RequestReader, encode_chunk};
use crate::script::{Delivery, Script};
use crate::scripted_response::{Api, ScriptedResponse, Turn, timed_token};

const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Path of the tool that `call` scripts use.
pub(crate) const TOOL_PATH: &str = "/lookup";

/// Pause before the next attempt when a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// More than the different responses of one benchmark.
const MAX_CACHED_RESPONSES: usize = 64;

/// What the provider was asked so far.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) requests: u64,
    pub(crate) finished: u64,
    pub(crate) tool_calls: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ResponseKey {
    api: Api,
    model: String,
    turn: Turn,
}

#[derive(Default)]
struct Shared {
    stats: Stats,
    last_body: Vec<u8>,
    responses: HashMap<ResponseKey, Rc<ScriptedResponse>>,
}

/// A script and its response, framed for the connection.
struct Prepared {
    script: Script,
    response: Rc<ScriptedResponse>,
}

/// Serves until the task is dropped. Must run inside a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let shared = Rc::new(RefCell::new(Shared::default()));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Too many open files, while the connections of a killed server are being closed.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let shared = Rc::clone(&shared);
                connections.spawn_local(async move {
                    // A client that disconnects is not an error.
                    serve_connection(stream, &shared).await.ok();
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(mut stream: TcpStream, shared: &RefCell<Shared>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = RequestReader::default();
    while let Some(request) = requests.next(&mut stream).await? {
        let received = Instant::now();
        let api = match request.line {
            "POST /v1/responses" => Api::Responses,
            "POST /v1/chat/completions" => Api::Chat,
            "GET /lookup" => {
                shared.borrow_mut().stats.tool_calls += 1;
                write_json(&mut stream, "200 OK", br#"{"found":"a log that is kept"}"#).await?;
                continue;
            }
            "GET /stats" => {
                let body = serde_json::to_vec(&shared.borrow().stats)?;
                write_json(&mut stream, "200 OK", &body).await?;
                continue;
            }
            "GET /last" => {
                let body = shared.borrow().last_body.clone();
                write_json(&mut stream, "200 OK", &body).await?;
                continue;
            }
            other => {
                let body = format!("{{\"error\":{{\"message\":\"unknown route {other}\"}}}}");
                write_json(&mut stream, "404 Not Found", body.as_bytes()).await?;
                continue;
            }
        };
        let Some(prepared) = prepare(api, request.body, shared) else {
            let body = b"{\"error\":{\"message\":\"the name of the model is not a script\"}}";
            write_json(&mut stream, "400 Bad Request", body).await?;
            continue;
        };
        play(&mut stream, &prepared, received).await?;
        shared.borrow_mut().stats.finished += 1;
    }
    Ok(())
}

/// Finds the script without parsing the body, which may be a long conversation.
fn prepare(api: Api, body: &[u8], shared: &RefCell<Shared>) -> Option<Prepared> {
    let model = model_name(body)?;
    let script = Script::parse(model)?;
    let turn = script.turn(api, body);
    let mut shared = shared.borrow_mut();
    shared.stats.requests += 1;
    shared.last_body.clear();
    shared.last_body.extend_from_slice(body);
    if shared.responses.len() > MAX_CACHED_RESPONSES {
        shared.responses.clear();
    }
    let key = ResponseKey {
        api,
        model: model.to_owned(),
        turn,
    };
    let response = shared.responses.entry(key).or_insert_with(|| {
        let plain = ScriptedResponse::new(api, model, turn, &script);
        Rc::new(ScriptedResponse {
            opening: encode_chunk(&plain.opening),
            tokens: plain
                .tokens
                .iter()
                .map(|token| encode_chunk(token))
                .collect(),
            closing: [&encode_chunk(&plain.closing), LAST_CHUNK].concat(),
        })
    });
    Some(Prepared {
        script,
        response: Rc::clone(response),
    })
}

fn model_name(body: &[u8]) -> Option<&str> {
    let key = b"\"model\":";
    let rest = body.get(memmem::find(body, key)? + key.len()..)?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

async fn play(
    stream: &mut TcpStream,
    prepared: &Prepared,
    received: Instant,
) -> anyhow::Result<()> {
    let Prepared { script, response } = prepared;
    wait_for_first_byte(stream, script.first_byte).await?;
    if script.delivery == Delivery::Bulk {
        let tokens = response.tokens.concat();
        let all = [STREAM_HEAD, &response.opening, &tokens, &response.closing].concat();
        return Ok(stream.write_all(&all).await?);
    }
    let opening = [STREAM_HEAD, &response.opening].concat();
    stream.write_all(&opening).await?;
    // Absolute times: a real provider is not slowed down by the load on this machine.
    let mut due = tokio::time::Instant::now();
    for (index, token) in response.tokens.iter().enumerate() {
        if script.gap.is_zero() {
            // Streams take turns, and each token is a packet of its own, as from a real provider.
            tokio::task::yield_now().await;
        } else {
            due += script.gap;
            tokio::time::sleep_until(due).await;
        }
        if script.timed && index == 0 {
            let token = encode_chunk(&timed_token(received.elapsed()));
            stream.write_all(&token).await?;
        } else {
            stream.write_all(token).await?;
        }
    }
    Ok(stream.write_all(&response.closing).await?)
}

/// Pauses. Fails when the client disconnects meanwhile: a killed server leaves thousands of connections, whose ports its
/// successor needs.
async fn wait_for_first_byte(stream: &TcpStream, duration: Duration) -> anyhow::Result<()> {
    if duration.is_zero() {
        return Ok(());
    }
    let mut byte = [0];
    let pause = tokio::time::sleep(duration);
    tokio::pin!(pause);
    tokio::select! {
        () = &mut pause => return Ok(()),
        read = stream.peek(&mut byte) => anyhow::ensure!(read? > 0, "the client disconnected"),
    }
    pause.await;
    Ok(())
}

async fn write_json(stream: &mut TcpStream, status: &str, body: &[u8]) -> anyhow::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let response = [head.as_bytes(), body].concat();
    Ok(stream.write_all(&response).await?)
}
