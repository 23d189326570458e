//! The floor of a fan-out: writes the same bytes to the same number of connections, and does nothing else.
//!
//! Subscribers send `GET /subscribe` and wait. `POST /broadcast/GAP_MS` brings recorded events and writes each of
//! them to every subscriber, with a pause between them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::http::{LAST_CHUNK, RequestReader, encode_chunk};

const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
const EMPTY_RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

type Subscribers = Rc<RefCell<Vec<TcpStream>>>;

/// Serves until the task is dropped. Must run inside a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let subscribers = Subscribers::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("cannot accept a connection")?;
                let subscribers = Rc::clone(&subscribers);
                connections.spawn_local(async move {
                    // A client that disconnects is not an error.
                    serve_connection(stream, &subscribers).await.ok();
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(mut stream: TcpStream, subscribers: &Subscribers) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = RequestReader::default();
    while let Some(request) = requests.next(&mut stream).await? {
        if request.line == "GET /subscribe" {
            stream.write_all(STREAM_HEAD).await?;
            subscribers.borrow_mut().push(stream);
            return Ok(());
        }
        let gap = request
            .line
            .strip_prefix("POST /broadcast/")
            .context("the routes are /subscribe and /broadcast")?;
        let gap = Duration::from_millis(gap.parse().context("the gap is not a number")?);
        broadcast(subscribers.take(), request.body, gap).await?;
        stream.write_all(EMPTY_RESPONSE).await?;
    }
    Ok(())
}

async fn broadcast(
    mut subscribers: Vec<TcpStream>,
    events: &[u8],
    gap: Duration,
) -> anyhow::Result<()> {
    let mut rest = events;
    while let Some(end) = memmem::find(rest, b"\n\n") {
        let chunk = encode_chunk(&rest[..end + 2]);
        rest = &rest[end + 2..];
        write_to_all(&mut subscribers, &chunk).await?;
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
    }
    write_to_all(&mut subscribers, LAST_CHUNK).await
}

async fn write_to_all(subscribers: &mut [TcpStream], bytes: &[u8]) -> anyhow::Result<()> {
    for subscriber in subscribers {
        subscriber.write_all(bytes).await?;
    }
    Ok(())
}
