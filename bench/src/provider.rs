//! The scripted provider: OpenAI's Responses API and chat completions, as far as a stream of tokens needs them.
//!
//! A process of its own, so that its work is nobody else's CPU; one thread, answers made once and written from memory.
//! `GET /lookup` is the tool that scripts call, `GET /stats` counts what was asked, `GET /last` gives the last request's body back.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::script::{Answer, Api, Script, own_token};
use crate::wire::{LAST_CHUNK, Requests, chunked};

const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Where the tool of `call` scripts is.
pub(crate) const TOOL_PATH: &str = "/lookup";

/// Before the next attempt when a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Different scripts of one measurement are few.
const ANSWERS_KEPT: usize = 64;

/// What the provider was asked so far.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) requests: u64,
    pub(crate) finished: u64,
    /// Calls of the tool.
    pub(crate) tools: u64,
}

#[derive(Default)]
struct Shared {
    stats: Stats,
    last: Vec<u8>,
    answers: HashMap<(Api, String, bool), Rc<Answer>>,
}

/// Serves until the task is dropped. Must run inside a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let shared = Rc::new(RefCell::new(Shared::default()));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Too many open files, while the connections of a server that was killed are being closed.
                    pause(ACCEPT_PAUSE).await;
                    continue;
                };
                let shared = Rc::clone(&shared);
                connections.spawn_local(async move {
                    // A client that goes away in the middle is no news.
                    converse(stream, &shared).await.ok();
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(mut stream: TcpStream, shared: &RefCell<Shared>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = Requests::default();
    while let Some(request) = requests.next(&mut stream).await? {
        let asked = Instant::now();
        let api = match request.line {
            "POST /v1/responses" => Api::Responses,
            "POST /v1/chat/completions" => Api::Chat,
            "GET /lookup" => {
                shared.borrow_mut().stats.tools += 1;
                whole(&mut stream, "200 OK", br#"{"found":"a log that is kept"}"#).await?;
                continue;
            }
            "GET /stats" => {
                let body = serde_json::to_vec(&shared.borrow().stats)?;
                whole(&mut stream, "200 OK", &body).await?;
                continue;
            }
            "GET /last" => {
                let body = shared.borrow().last.clone();
                whole(&mut stream, "200 OK", &body).await?;
                continue;
            }
            other => {
                let body = format!("{{\"error\":{{\"message\":\"no such route: {other}\"}}}}");
                whole(&mut stream, "404 Not Found", body.as_bytes()).await?;
                continue;
            }
        };
        let Some((script, answer)) = prepare(api, request.body, shared) else {
            let body = b"{\"error\":{\"message\":\"the model's name is no script\"}}";
            whole(&mut stream, "400 Bad Request", body).await?;
            continue;
        };
        play(&mut stream, script, &answer, asked).await?;
        shared.borrow_mut().stats.finished += 1;
    }
    Ok(())
}

/// Finds the script in the request without reading the conversation, which may be long.
fn prepare(api: Api, body: &[u8], shared: &RefCell<Shared>) -> Option<(Script, Rc<Answer>)> {
    let model = model_of(body)?;
    let script = Script::parse(model)?;
    let marker: &[u8] = match api {
        Api::Responses => b"\"function_call_output\"",
        Api::Chat => b"\"role\":\"tool\"",
    };
    let answered = script.calls && memmem::find(body, marker).is_some();
    let mut shared = shared.borrow_mut();
    shared.stats.requests += 1;
    shared.last.clear();
    shared.last.extend_from_slice(body);
    if shared.answers.len() > ANSWERS_KEPT {
        shared.answers.clear();
    }
    let answer = shared
        .answers
        .entry((api, model.to_owned(), answered))
        .or_insert_with(|| {
            let plain = script.answer(api, model, answered);
            Rc::new(Answer {
                opening: chunked(&plain.opening),
                tokens: plain.tokens.iter().map(|token| chunked(token)).collect(),
                closing: [&chunked(&plain.closing), LAST_CHUNK].concat(),
            })
        });
    Some((script, Rc::clone(answer)))
}

fn model_of(body: &[u8]) -> Option<&str> {
    let key = b"\"model\":";
    let rest = body.get(memmem::find(body, key)? + key.len()..)?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

async fn play(
    stream: &mut TcpStream,
    script: Script,
    answer: &Answer,
    asked: Instant,
) -> anyhow::Result<()> {
    think(stream, script.first).await?;
    if script.bulk {
        let tokens = answer.tokens.concat();
        let all = [STREAM_HEAD, &answer.opening, &tokens, &answer.closing].concat();
        return Ok(stream.write_all(&all).await?);
    }
    let opening = [STREAM_HEAD, &answer.opening].concat();
    stream.write_all(&opening).await?;
    // By the clock: a provider far away is not slowed down by what the server under test does to this machine.
    let mut due = tokio::time::Instant::now();
    for (index, token) in answer.tokens.iter().enumerate() {
        if script.gap.is_zero() {
            // Each token is a packet of its own, and streams take turns, as they would from a real provider.
            tokio::task::yield_now().await;
        } else {
            due += script.gap;
            tokio::time::sleep_until(due).await;
        }
        if script.own && index == 0 {
            let token = chunked(&own_token(asked.elapsed()));
            stream.write_all(&token).await?;
        } else {
            stream.write_all(token).await?;
        }
    }
    Ok(stream.write_all(&answer.closing).await?)
}

/// Says nothing for so long. Like every server it notices when nobody listens any more: a client that was killed leaves thousands of
/// connections, whose ports its successor needs.
async fn think(stream: &TcpStream, duration: Duration) -> anyhow::Result<()> {
    if duration.is_zero() {
        return Ok(());
    }
    let mut byte = [0];
    let silence = tokio::time::sleep(duration);
    tokio::pin!(silence);
    tokio::select! {
        () = &mut silence => return Ok(()),
        heard = stream.peek(&mut byte) => anyhow::ensure!(heard? > 0, "the client is gone"),
    }
    silence.await;
    Ok(())
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

async fn whole(stream: &mut TcpStream, status: &str, body: &[u8]) -> anyhow::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), body].concat();
    Ok(stream.write_all(&answer).await?)
}
