//! The floor of a fan-out: the same bytes written to the same number of sockets, and nothing else.
//!
//! Subscribers `GET /fan` and wait. `POST /go/<gap in ms>` brings the recorded events (complete, one after the other) and
//! writes each of them to every subscriber.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::wire::{LAST_CHUNK, Requests, chunked};

const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
const DONE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

type Subscribers = Rc<RefCell<Vec<TcpStream>>>;

/// Serves until the task is dropped. Must run inside a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let subscribers = Subscribers::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("the fan cannot accept")?;
                let subscribers = Rc::clone(&subscribers);
                connections.spawn_local(async move {
                    converse(stream, &subscribers).await.ok();
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(mut stream: TcpStream, subscribers: &Subscribers) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = Requests::default();
    while let Some(request) = requests.next(&mut stream).await? {
        if request.line == "GET /fan" {
            stream.write_all(STREAM_HEAD).await?;
            subscribers.borrow_mut().push(stream);
            return Ok(());
        }
        let gap = request
            .line
            .strip_prefix("POST /go/")
            .context("the fan knows /fan and /go")?;
        let gap = Duration::from_millis(gap.parse().context("the gap is no number")?);
        let audience = subscribers.take();
        blow(audience, request.body, gap).await?;
        stream.write_all(DONE).await?;
    }
    Ok(())
}

async fn blow(mut audience: Vec<TcpStream>, events: &[u8], gap: Duration) -> anyhow::Result<()> {
    let mut rest = events;
    while let Some(end) = memmem::find(rest, b"\n\n") {
        let chunk = chunked(&rest[..end + 2]);
        rest = &rest[end + 2..];
        to_all(&mut audience, &chunk).await?;
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
    }
    to_all(&mut audience, LAST_CHUNK).await
}

async fn to_all(audience: &mut [TcpStream], bytes: &[u8]) -> anyhow::Result<()> {
    for subscriber in audience {
        subscriber.write_all(bytes).await?;
    }
    Ok(())
}
